#include "tril/text/utf8.h"

#include <cstdint>
#include <cstring>

namespace tril {
namespace {

// The length in bytes of the first character of `text`, which is not empty; 0 if it is invalid.
size_t character_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const auto continues = [&](size_t i, uint8_t low, uint8_t high) {
    return i < text.size() && low <= byte(i) && byte(i) <= high;
  };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xc2) return 0;  // a continuation byte, or two bytes for what fits in one
  if (first < 0xe0) return continues(1, 0x80, 0xbf) ? 2 : 0;
  if (first < 0xf0) {
    const uint8_t low = first == 0xe0 ? 0xa0 : 0x80;   // below: fits in two bytes
    const uint8_t high = first == 0xed ? 0x9f : 0xbf;  // above: surrogates
    return continues(1, low, high) && continues(2, 0x80, 0xbf) ? 3 : 0;
  }
  if (first < 0xf5) {
    const uint8_t low = first == 0xf0 ? 0x90 : 0x80;   // below: fits in three bytes
    const uint8_t high = first == 0xf4 ? 0x8f : 0xbf;  // above: past U+10FFFF
    return continues(1, low, high) && continues(2, 0x80, 0xbf) && continues(3, 0x80, 0xbf) ? 4 : 0;
  }
  return 0;
}

bool eight_ascii_bytes(const char* text) {
  uint64_t bytes = 0;
  std::memcpy(&bytes, text, sizeof bytes);
  return (bytes & 0x8080808080808080u) == 0;
}

}  // namespace

std::optional<size_t> first_invalid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (text.size() - at >= 8 && eight_ascii_bytes(text.data() + at)) {
      at += 8;
      continue;
    }
    const size_t bytes = character_bytes(text.substr(at));
    if (bytes == 0) return at;
    at += bytes;
  }
  return std::nullopt;
}

}  // namespace tril
