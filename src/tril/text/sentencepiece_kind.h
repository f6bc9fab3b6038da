// Tokenizers that are one SentencePiece model, whose ids are the tokens.
#pragma once

#include <string>

#include "tril/text/tokenizer_kind.h"

namespace tril {

// A model that Tokenizer::train() made, or one with all it promises. `bytes` is the file's
// contents, which are kept. Raises `bad_format` or `unsupported`, naming `file`.
MadeTokenizer make_sentencepiece(const std::shared_ptr<const std::string>& bytes,
                                 const std::string& file);

}  // namespace tril
