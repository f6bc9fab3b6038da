#include "tril/text/unicode.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace tril {
namespace {

struct ClassRange {
  char32_t first = 0, last = 0;
  CharacterClass kind = CharacterClass::other;
};

constexpr CharacterClass kP = CharacterClass::punctuation;
constexpr CharacterClass kS = CharacterClass::symbol;
constexpr CharacterClass kN = CharacterClass::number;

// Ascending, not overlapping; characters in between belong to no class.
constexpr ClassRange kClassRanges[] = {
#include "tril/text/unicode_tables.inc"
};

CharacterClass search_class(char32_t character) {
  const ClassRange* range =
      std::lower_bound(std::begin(kClassRanges), std::end(kClassRanges), character,
                       [](const ClassRange& r, char32_t value) { return r.last < value; });
  if (range == std::end(kClassRanges) || character < range->first) return CharacterClass::other;
  return range->kind;
}

// Below this (the alphabets of Europe) classes come from a table without a search.
constexpr char32_t kQuickEnd = 0x400;

// The character that begins at `at`, in valid text.
struct Decoded {
  char32_t character = 0;
  size_t bytes = 1;
};

Decoded decode_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t offset) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[at + offset]));
  };
  const auto tail = [&](size_t offset) { return byte(offset) & 0x3F; };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | tail(1), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | tail(1) << 6 | tail(2), 3};
  return {(lead & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), 4};
}

}  // namespace

CharacterClass character_class(char32_t character) {
  static const auto quick = [] {
    std::array<CharacterClass, kQuickEnd> classes{};
    for (char32_t c = 0; c < kQuickEnd; ++c) classes[c] = search_class(c);
    return classes;
  }();
  return character < kQuickEnd ? quick[character] : search_class(character);
}

// As scripts/make_unicode_tables.py finds it in Python; U+200B and U+FEFF are not white space.
bool is_white_space(char32_t c) {
  if (c <= 0x20) return (c >= 0x09 && c <= 0x0D) || c >= 0x1C;
  if (c < 0x85) return false;
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::u32string decode_utf8(std::string_view text) {
  std::u32string characters;
  characters.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Decoded decoded = decode_at(text, at);
    characters.push_back(decoded.character);
    at += decoded.bytes;
  }
  return characters;
}

std::string encode_utf8(std::u32string_view characters) {
  std::string text;
  text.reserve(characters.size());
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  for (const char32_t c : characters) {
    if (c < 0x80) {
      put(c);
      continue;
    }
    if (c < 0x800) {
      put(0xC0 | c >> 6);
    } else {
      if (c < 0x10000) {
        put(0xE0 | c >> 12);
      } else {
        put(0xF0 | c >> 18);
        put(0x80 | (c >> 12 & 0x3F));
      }
      put(0x80 | (c >> 6 & 0x3F));
    }
    put(0x80 | (c & 0x3F));
  }
  return text;
}

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  size_t begin = 0;
  const auto end_word = [&](size_t end) {
    if (end > begin) words.push_back(text.substr(begin, end - begin));
  };
  for (size_t at = 0; at < text.size();) {
    const Decoded decoded = decode_at(text, at);
    if (is_white_space(decoded.character)) {
      end_word(at);
      begin = at + decoded.bytes;
    }
    at += decoded.bytes;
  }
  end_word(text.size());
  return words;
}

std::string_view strip(std::string_view text) {
  while (!text.empty()) {
    const Decoded first = decode_at(text, 0);
    if (!is_white_space(first.character)) break;
    text.remove_prefix(first.bytes);
  }
  return strip_end(text);
}

std::string_view strip_end(std::string_view text) {
  while (!text.empty()) {
    size_t at = text.size() - 1;
    while ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    if (!is_white_space(decode_at(text, at).character)) break;
    text.remove_suffix(text.size() - at);
  }
  return text;
}

}  // namespace tril
