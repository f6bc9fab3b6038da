// A 64-bit number that tells byte strings apart, the same on every machine: FNV-1a. It guards
// against mistakes, not against malice.
#pragma once

#include <cstdint>
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

}  // namespace tril
