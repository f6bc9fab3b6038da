// Tokenizers of Hugging Face folders that segment with SentencePiece but number the pieces in their
// own way: Marian, M2M100, NLLB, mBART, T5, Pegasus, Llama, where there is no tokenizer.json.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "tril/text/pipeline/added_tokens.h"
#include "tril/text/pipeline/vocabulary.h"
#include "tril/text/tokenizer_kind.h"

namespace tril {

// How pieces become ids.
struct Numbering {
  // By a list (vocab.json), in which `unknown` stands for what is not listed;
  std::optional<pipeline::Vocabulary> listed{};
  // or by adding this to SentencePiece's id.
  int32_t offset = 0;
  std::optional<int32_t> unknown{};  // the id of SentencePiece's unknown piece
};

struct PieceFile {
  std::string_view bytes{};  // of a SentencePiece model; only read by make_numbered_pieces()
  std::string name{};        // for errors
  Numbering numbering{};
};

struct NumberedPieces {
  PieceFile source{};
  std::optional<PieceFile> target{};     // where it differs
  pipeline::AddedTokens added{};         // special tokens and languages
  pipeline::AddedTokens target_added{};  // by the target's ids, where it has a file of its own
  bool cuts_language = false;            // a text may begin with a token like ">>fra<<"
  bool decodes_by_library = true;        // else pieces are joined and U+2581 becomes a blank
  bool decodes_with_source = false;      // Marian, where one vocabulary serves both sides
  bool strips = true;                    // white space at the ends of a decoded text
};

// Raises `bad_format` or `unsupported`, naming the file.
std::unique_ptr<const TokenizerKind> make_numbered_pieces(NumberedPieces pieces);

// The pieces of a SentencePiece model, which is checked. Raises as above.
struct PieceList {
  int32_t size = 0;
  std::unordered_map<std::string, int32_t> special{};  // all that are not plain text
};
PieceList list_pieces(std::string_view bytes, const std::string& file);

}  // namespace tril
