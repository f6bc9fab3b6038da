// The tokenizers of Hugging Face folders: several files, kept together in one.
//
// A tril model has one tokenizer.model. For an imported tokenizer it is a bundle: the settings as
// lines of text, and the files, byte for byte, so that an export writes them back.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tril/text/tokenizer.h"

namespace tril {

// Files of a folder that a tokenizer may consist of.
std::span<const std::string_view> tokenizer_file_names();

struct Bundle {
  TokenizerSettings settings;
  // By name, ascending; the contents refer to the bundle's bytes.
  std::vector<std::pair<std::string, std::string_view>> files;

  // The contents of a file; nothing where there is none.
  std::optional<std::string_view> find(std::string_view name) const;
};

bool is_bundle(std::string_view bytes);
std::string to_bundle(const TokenizerFiles& files, const TokenizerSettings& settings);
// Raises `bad_format`, naming `file`.
Bundle read_bundle(std::string_view bytes, const std::string& file);

// Raises `bad_format` or `unsupported`, naming `file`, the file inside it and its field.
Tokenizer from_bundle(const std::shared_ptr<const std::string>& bytes, const std::string& file);

}  // namespace tril
