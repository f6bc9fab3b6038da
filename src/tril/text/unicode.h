// Characters of UTF-8, and the few of their properties that scores depend on.
//
// White space and words are those of Python's str.split() and str.rstrip(); classes of characters
// are those of Unicode 18.0 (unicode_tables.inc). All functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tril {

// By general category: P*, S*, N*, and all others.
enum class CharacterClass : uint8_t { other, punctuation, symbol, number };

CharacterClass character_class(char32_t character);
bool is_white_space(char32_t character);

// The number of bytes of the character that begins with this byte.
inline size_t utf8_bytes(char first) {
  const auto byte = static_cast<uint8_t>(first);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// Text must be valid (text/utf8.h).
std::u32string decode_utf8(std::string_view text);
std::string encode_utf8(std::u32string_view characters);
// The words between runs of white space, never empty. They point into the text.
std::vector<std::string_view> split_words(std::string_view text);
// Without the white space at both ends.
std::string_view strip(std::string_view text);
// Without the white space at its end.
std::string_view strip_end(std::string_view text);

}  // namespace tril
