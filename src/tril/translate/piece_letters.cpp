#include "tril/translate/piece_letters.h"

#include "tril/text/unicode.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

bool stands_alone(Script script) {
  return script == Script::han || script == Script::kana || script == Script::hangul;
}

bool is_special(std::string_view piece) {
  return piece.size() > 2 && piece.front() == '<' && piece.back() == '>';
}

}  // namespace

PieceLetters::PieceLetters(const Tokenizer& tokenizer) : table_(kTable) {
  for (char32_t c = 0; c < kTable; ++c) {
    table_[c].script = script_of_letter(c);
    table_[c].blank = is_white_space(c);
  }
  const auto pieces = static_cast<int32_t>(tokenizer.pieces(TextSide::source));
  for (int32_t id = 0; id < pieces; ++id) {
    std::string piece = tokenizer.piece(id, TextSide::source);
    if (is_special(piece) || first_invalid_utf8(piece)) continue;
    std::u32string characters = decode_utf8(piece);
    std::erase_if(characters, [](char32_t c) { return c == 0x2581 || is_white_space(c); });
    for (const char32_t c : characters) {
      if (c >= kTable) continue;
      if (characters.size() > 1 || stands_alone(table_[c].script)) {
        table_[small_letter(c)].learnt = true;
      }
    }
  }
  for (char32_t c = 0; c < kTable; ++c) table_[c].learnt = table_[small_letter(c)].learnt;
}

}  // namespace tril
