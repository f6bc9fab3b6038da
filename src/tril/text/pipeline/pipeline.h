// A tokenizer as a tokenizer.json describes it: added tokens, normalizer, pre-tokenizer, model,
// template and decoder, one after the other.
#pragma once

#include "tril/text/pipeline/added_tokens.h"
#include "tril/text/pipeline/decoder.h"
#include "tril/text/pipeline/normalizer.h"
#include "tril/text/pipeline/piece_model.h"
#include "tril/text/pipeline/pre_tokenizer.h"
#include "tril/text/tokenizer_kind.h"

namespace tril::pipeline {

// Any part but the model may be missing.
struct Parts {
  std::unique_ptr<const Normalizer> normalizer;
  std::unique_ptr<const PreTokenizer> pre_tokenizer;
  std::unique_ptr<const PieceModel> model;
  std::unique_ptr<const Decoder> decoder;
  DecodesBytes decodes;
  AddedTokens added;
  TokenLayout layout;
};

// Raises `bad_format` or `unsupported`, naming `file` and the component.
Parts read_tokenizer_json(std::string_view text, const std::string& file);
// GPT-2's and BART's files: vocab.json and merges.txt.
Parts read_byte_level(std::string_view vocab, std::string_view merges, bool add_prefix_space,
                      const std::string& folder);

class Pipeline final : public TokenizerKind {
 public:
  explicit Pipeline(Parts parts);

  int64_t size(TextSide side) const override;
  std::vector<int32_t> encode(std::string_view text, TextSide side) const override;
  using TokenizerKind::encode;
  std::string decode(std::span<const int32_t> ids) const override;
  std::string piece(int32_t id, TextSide side) const override;
  std::optional<int32_t> find(std::string_view piece, TextSide side) const override;
  bool is_special(int32_t id) const override;
  std::string bytes_of(int32_t id) const override;

  const Parts& parts() const { return parts_; }

 private:
  const std::string* text_of(int32_t id) const;

  Parts parts_;
  int64_t size_ = 0;
};

}  // namespace tril::pipeline
