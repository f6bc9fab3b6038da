// Permutation: a shuffled order of [0, size) that is computed, not stored.
//
// A Feistel network over the smallest even number of bits that holds the size, with Philox as its
// round function; a result outside [0, size) goes through again until it falls inside (Black and
// Rogaway, "Ciphers with arbitrary finite domains", 2002). So a corpus of any size is shuffled
// without memory, and the order of an epoch is a function of (seed, epoch).
#pragma once

#include <cstdint>

#include "tril/base/rng.h"

namespace tril {

class Permutation {
 public:
  Permutation(int64_t size, uint64_t seed, uint64_t epoch)
      : size_(static_cast<uint64_t>(size)), seed_(seed), epoch_(epoch) {
    while (half_bits_ < 32 && (uint64_t{1} << (2 * half_bits_)) < size_) ++half_bits_;
  }

  int64_t operator[](int64_t index) const {
    auto value = static_cast<uint64_t>(index);
    do {
      value = encipher(value);
    } while (value >= size_);
    return static_cast<int64_t>(value);
  }

 private:
  uint64_t encipher(uint64_t value) const {
    const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
    uint64_t left = value >> half_bits_;
    uint64_t right = value & mask;
    constexpr uint32_t kRounds = 6;
    for (uint32_t round = 0; round < kRounds; ++round) {
      const Words4 words =
          philox(seed_, {static_cast<uint32_t>(right), round | kPurpose,
                         static_cast<uint32_t>(epoch_), static_cast<uint32_t>(epoch_ >> 32)});
      const uint64_t next = left ^ (words[0] & mask);
      left = right;
      right = next;
    }
    return left << half_bits_ | right;
  }

  static constexpr uint32_t kPurpose = 0x5348'0000;  // separates uses of the seed
  uint64_t size_;
  uint64_t seed_;
  uint64_t epoch_;
  unsigned half_bits_ = 1;
};

}  // namespace tril
