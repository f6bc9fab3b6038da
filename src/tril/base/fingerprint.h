// 64-bit numbers that distinguish byte strings, the same on every machine. They guard against
// mistakes, not against malice; files are sealed with base/checksum.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tril {

// FNV-1a, byte by byte.
class Fingerprint {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) add(static_cast<unsigned char>(byte));
  }
  void add(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001B3u; }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xCBF29CE484222325u;
};

inline uint64_t fingerprint(std::string_view bytes) {
  Fingerprint result;
  result.add(bytes);
  return result.value();
}

// A second hash, by which shortlists and the Translator identify a tokenizer: eight chains over
// words of eight bytes, hashed together with the remaining bytes. Shortlist files contain it.
inline uint64_t tokenizer_fingerprint(std::string_view bytes) {
  constexpr size_t kChains = 8;
  constexpr uint64_t kPrime = 0x9E3779B97F4A7C15u;
  uint64_t chains[kChains];
  for (size_t i = 0; i < kChains; ++i) chains[i] = kPrime * (i + 1);
  size_t at = 0;
  for (; at + sizeof chains <= bytes.size(); at += sizeof chains) {
    uint64_t words[kChains];
    std::memcpy(words, bytes.data() + at, sizeof words);
    for (size_t i = 0; i < kChains; ++i) {
      const uint64_t mixed = (chains[i] ^ words[i]) * kPrime;
      chains[i] = mixed ^ (mixed >> 29);
    }
  }
  Fingerprint result;
  for (const uint64_t chain : chains) {
    for (int shift = 0; shift < 64; shift += 8) {
      result.add(static_cast<unsigned char>(chain >> shift));
    }
  }
  result.add(bytes.substr(at));
  return result.value();
}

// Sixteen digits, for files.
inline std::string hexadecimal(uint64_t value) {
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) {
    text += "0123456789abcdef"[(value >> static_cast<unsigned>(shift)) & 15u];
  }
  return text;
}

}  // namespace tril
