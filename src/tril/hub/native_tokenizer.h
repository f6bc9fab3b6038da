// Tokenizers that tril trained, in the files that transformers reads. Internal to hub/.
#pragma once

#include <map>
#include <string>

#include "tril/text/tokenizer.h"

namespace tril::hub {

// For MarianTokenizer: SentencePiece's file for both sides, and the ids of its pieces.
std::map<std::string, std::string> marian_files(const Tokenizer& tokenizer, int64_t max_length);

// For any model: a tokenizer.json that puts START before a text. Raises `unsupported` for what it
// cannot say: a tokenizer that changes the text.
std::map<std::string, std::string> fast_files(const Tokenizer& tokenizer, int64_t max_length,
                                              const std::string& model);

}  // namespace tril::hub
