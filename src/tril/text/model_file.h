// The contents of a tokenizer.model, which is not trusted.
//
// The file is a protocol buffer that SentencePiece writes and reads; SentencePiece itself trusts it
// and can be made to read out of bounds. So the file is read here first: what passes has the
// structure SentencePiece expects, down to the trie of its normalisation. This is also the only way
// to get what SentencePiece's interface does not offer: the type of the model and of its pieces.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tril/text/tokenizer.h"

namespace tril {

enum class PieceType : uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

struct ModelPiece {
  std::string_view text;  // into the file's bytes
  float score = 0.0f;
  PieceType type = PieceType::normal;
};

// The byte that a piece of type byte stands for: "<0xE0>".
uint8_t byte_of(const ModelPiece& piece);

struct ModelFile {
  TokenizerType type = TokenizerType::unigram;
  std::vector<ModelPiece> pieces;
  bool keeps_text = false;  // blanks are kept, and no character is replaced by others
};

// What a file must promise: all that Tokenizer::train() promises, or only to be safe to use. The
// tokenizers of others have user-defined and unused pieces, none for bytes, or none for the blank.
enum class ModelOrigin : uint8_t { tril, anyone };

// Raises, naming `file`, `bad_format`, or `unsupported` for what SentencePiece may write but tril
// never does; from anyone only for models of words or characters. The result refers to `bytes`.
ModelFile parse_model_file(std::string_view bytes, const std::string& file,
                           ModelOrigin origin = ModelOrigin::tril);

}  // namespace tril
