// A 64-bit number that tells byte strings apart, the same on every machine: FNV-1a. It guards
// against mistakes, not against malice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tril {

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

// Another one for whole files, many times faster: eight chains over words of eight bytes.
class FileFingerprint {
 public:
  static constexpr size_t kStep = 64;

  FileFingerprint() {
    for (size_t i = 0; i < kChains; ++i) chains_[i] = kPrime * (i + 1);
  }
  // The next bytes of the file; a whole number of steps, but for the last ones.
  void add(std::string_view bytes) {
    size_t at = 0;
    for (; at + kStep <= bytes.size(); at += kStep) {
      uint64_t words[kChains];
      std::memcpy(words, bytes.data() + at, kStep);
      for (size_t i = 0; i < kChains; ++i) {
        const uint64_t mixed = (chains_[i] ^ words[i]) * kPrime;
        chains_[i] = mixed ^ (mixed >> 29);
      }
    }
    rest_ = bytes.substr(at);
  }
  uint64_t value() const {
    Fingerprint result;
    for (const uint64_t chain : chains_) {
      for (int shift = 0; shift < 64; shift += 8) {
        result.add(static_cast<unsigned char>(chain >> shift));
      }
    }
    result.add(rest_);
    return result.value();
  }

 private:
  static constexpr size_t kChains = kStep / sizeof(uint64_t);
  static constexpr uint64_t kPrime = 0x9E3779B97F4A7C15u;
  uint64_t chains_[kChains];
  std::string rest_;
};
inline uint64_t file_fingerprint(std::string_view bytes) {
  FileFingerprint result;
  result.add(bytes);
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
