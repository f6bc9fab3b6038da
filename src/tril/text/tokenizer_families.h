// From the files of a Hugging Face folder to a tokenizer: which files count, what the special
// tokens, the languages and the layout are, by model family.
#pragma once

#include <string>

#include "tril/text/tokenizer_config.h"
#include "tril/text/tokenizer_files.h"
#include "tril/text/tokenizer_kind.h"

namespace tril {

// Raises `bad_format` or `unsupported`, naming `folder`, the file and its field.
MadeTokenizer make_tokenizer(const Bundle& bundle, const std::string& folder);
// Whether models of a family (config.json: model_type) are encoder–decoders.
bool has_encoder(const std::string& family);

// What the functions below are given.
struct FolderOfFiles {
  const Bundle& bundle;
  const TokenizerConfig& config;
  const std::string& folder;

  const std::string& family() const { return bundle.settings.family; }
  bool has(std::string_view name) const { return bundle.find(name).has_value(); }
  // Raises `bad_format` where the file is missing.
  std::string_view content(std::string_view name) const;
  std::string path(std::string_view name) const;  // for errors
};

// Folders without a tokenizer.json, whose pieces are SentencePiece's.
MadeTokenizer make_marian(const FolderOfFiles& files);
MadeTokenizer make_m2m100(const FolderOfFiles& files);
MadeTokenizer make_fairseq(const FolderOfFiles& files);  // NLLB and mBART
MadeTokenizer make_plain(const FolderOfFiles& files);    // T5, Pegasus, Llama

// Languages of the families that have them, and where they stand. `languages` are already known.
enum class LanguageLayout : uint8_t {
  none,
  before,         // NLLB, M2M100, mBART-50: lang X </s>
  after,          // NLLB with legacy_behaviour: X </s> lang
  after_to_start  // mBART-25: the same, and START is the language to write
};
void lay_out_languages(LanguageLayout layout, TokenizerFacts& facts);
// src_lang and tgt_lang of tokenizer_config.json, if the model has these languages.
void set_default_languages(const TokenizerConfig& config, TokenizerFacts& facts);

}  // namespace tril
