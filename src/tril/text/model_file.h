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
  std::vector<ModelPiece> pieces;  // none user-defined or unused
  bool keeps_text = false;         // blanks are kept, and no character is replaced by others
};

// Raises, naming `file`, `bad_format`, or `unsupported` for what SentencePiece may write but tril
// never does. The result refers to `bytes`.
ModelFile parse_model_file(std::string_view bytes, const std::string& file);

}  // namespace tril
