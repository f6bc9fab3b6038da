// How words become pieces: the part "model" of a tokenizer.json.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tril/text/pipeline/component.h"
#include "tril/text/pipeline/vocabulary.h"

namespace tril::pipeline {

class PieceModel {
 public:
  PieceModel() = default;
  PieceModel(const PieceModel&) = delete;
  PieceModel& operator=(const PieceModel&) = delete;
  virtual ~PieceModel() = default;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // The id that stands for what no piece covers.
  virtual std::optional<int32_t> unknown() const = 0;
  // Appends the ids of a word that pre-tokenization made; it is not empty.
  virtual void encode(std::string_view word, std::vector<int32_t>& ids) const = 0;

 protected:
  Vocabulary vocabulary_;
};

// Models Unigram and BPE; others raise `unsupported`.
std::unique_ptr<const PieceModel> make_model(Component component);

// Byte-level BPE from vocab.json and merges.txt, as GPT-2 and BART have them.
std::unique_ptr<const PieceModel> make_bpe(Vocabulary vocabulary, std::string_view merges,
                                           const std::string& where);

// Each in its own file.
std::unique_ptr<const PieceModel> make_unigram(Component component);
std::unique_ptr<const PieceModel> make_bpe(Component component);

// The ids of the pieces "<0x00>" to "<0xFF>"; -1 for those that the vocabulary does not have.
std::vector<int32_t> byte_pieces(const Vocabulary& vocabulary);

}  // namespace tril::pipeline
