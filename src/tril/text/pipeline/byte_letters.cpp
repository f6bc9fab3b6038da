#include "tril/text/pipeline/byte_letters.h"

#include <array>
#include <cstdint>

#include "tril/text/pipeline/characters.h"
#include "tril/text/unicode.h"
#include "tril/text/utf8.h"

namespace tril::pipeline {
namespace {

// Printable characters of Latin-1 stand for themselves, all other bytes for U+0100 and up.
constexpr char32_t kFirstOther = 0x100;

bool stands_for_itself(char32_t byte) {
  return (0x21 <= byte && byte <= 0x7E) || (0xA1 <= byte && byte <= 0xAC) || byte >= 0xAE;
}

struct ByteLetters {
  std::array<std::string, 256> letters;
  std::array<int, 0x200> bytes;  // by letter; -1 for what is none

  ByteLetters() {
    bytes.fill(-1);
    char32_t other = kFirstOther;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const char32_t letter = stands_for_itself(byte) ? byte : other++;
      letters[byte] = encode_utf8({&letter, 1});
      bytes[letter] = static_cast<int>(byte);
    }
  }
};

const ByteLetters& byte_letters() {
  static const ByteLetters letters;
  return letters;
}

// The bytes at the beginning, which is invalid, that could begin a character; at least 1.
size_t invalid_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0xC2 || first > 0xF4) return 1;
  const size_t whole = utf8_bytes(text[0]);
  uint8_t low = 0x80, high = 0xBF;  // of the second byte
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  size_t bytes = 1;
  while (bytes < whole && bytes < text.size() && low <= byte(bytes) && byte(bytes) <= high) {
    ++bytes;
    low = 0x80;
    high = 0xBF;
  }
  return bytes;
}

}  // namespace

std::string to_byte_letters(std::string_view text) {
  std::string result;
  result.reserve(2 * text.size());
  for (const char byte : text) result += byte_letters().letters[static_cast<uint8_t>(byte)];
  return result;
}

std::string from_byte_letters(std::string_view letters) {
  std::string bytes;
  bytes.reserve(letters.size());
  for (size_t at = 0; at < letters.size();) {
    const CharacterAt letter = character_at(letters, at);
    at += letter.bytes;
    const int byte = letter.character < 0x200 ? byte_letters().bytes[letter.character] : -1;
    if (byte < 0) return std::string(letters);
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

std::string replace_invalid(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t valid = first_invalid_utf8(bytes).value_or(bytes.size());
    text += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    text += "\uFFFD";
    bytes.remove_prefix(invalid_bytes(bytes));
  }
  return text;
}

}  // namespace tril::pipeline
