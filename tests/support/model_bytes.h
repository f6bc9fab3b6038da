// The bytes of tokenizer.model files, made by hand.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "tril/text/model_file.h"

namespace tril::testing {

inline std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(0x80 | (value & 0x7f));
  return bytes + static_cast<char>(value);
}
inline std::string bytes_field(uint64_t number, const std::string& content) {
  return varint(number << 3 | 2) + varint(content.size()) + content;
}
inline std::string number_field(uint64_t number, uint64_t value) {
  return varint(number << 3) + varint(value);
}
inline std::string little_endian(uint32_t value) {
  std::string bytes;
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}
inline std::string piece(const std::string& text, PieceType type, float score = 0.0f) {
  uint32_t bits = 0;
  std::memcpy(&bits, &score, sizeof bits);
  return bytes_field(1, bytes_field(1, text) + varint(2 << 3 | 5) + little_endian(bits) +
                            number_field(3, static_cast<uint64_t>(type)));
}

inline const std::string kBpe = number_field(3, 2);
inline const std::string kBytes = number_field(35, 1);

// A small valid model, whose parts can be replaced by wrong ones. Its special tokens are at
// SentencePiece's default places: unknown 0, START 1, END 2, no PAD.
struct ModelParts {
  std::string pieces;
  std::string trainer = kBpe + kBytes;
  std::string map;

  ModelParts() {
    pieces = piece("<unk>", PieceType::unknown) + piece("<s>", PieceType::control) +
             piece("</s>", PieceType::control) + piece("▁", PieceType::normal);
    const std::string digits = "0123456789ABCDEF";
    for (const char high : digits) {
      for (const char low : digits) {
        pieces += piece(std::string("<0x") + high + low + ">", PieceType::byte);
      }
    }
  }
  std::string bytes() const {
    return pieces + bytes_field(2, trainer) +
           bytes_field(3, map.empty() ? number_field(3, 1) : bytes_field(2, map));
  }
};

}  // namespace tril::testing
