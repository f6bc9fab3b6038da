// Philox4x32-10: random numbers as a function of a key and a counter, with no state.
//
// J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11. The same (key, counter)
// gives the same four words on every machine, in any order, from any thread. No std distribution
// is used anywhere: their results differ between standard libraries.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tril {

using Words4 = std::array<uint32_t, 4>;

constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53u;
constexpr uint32_t kPhiloxMultiplier1 = 0xCD9E8D57u;
constexpr uint32_t kPhiloxWeyl0 = 0x9E3779B9u;
constexpr uint32_t kPhiloxWeyl1 = 0xBB67AE85u;
constexpr int kPhiloxRounds = 10;

constexpr Words4 philox(uint64_t key, Words4 counter) {
  auto key0 = static_cast<uint32_t>(key);
  auto key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = uint64_t{kPhiloxMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kPhiloxMultiplier1} * counter[2];
    counter = {
        static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(product1),
        static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += kPhiloxWeyl0;
    key1 += kPhiloxWeyl1;
  }
  return counter;
}

// A stream of numbers for one purpose: the words of philox(seed, {index, stream}) in order.
// Not shared between threads.
class Random {
 public:
  explicit Random(uint64_t seed, uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  uint32_t bits() {
    if (used_ == 4) {
      words_ =
          philox(seed_, {static_cast<uint32_t>(index_), static_cast<uint32_t>(index_ >> 32),
                         static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)});
      ++index_;
      used_ = 0;
    }
    return words_[static_cast<std::size_t>(used_++)];
  }
  // Uniform in [0, 1), a multiple of 2^-24: exact in fp32.
  float uniform() { return static_cast<float>(bits() >> 8) * 0x1p-24f; }
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  // Uniform in [0, bound), bound > 0, without bias (rejects the incomplete last stretch).
  uint32_t below(uint32_t bound) {
    const uint32_t reject_below = (0u - bound) % bound;
    for (;;) {
      const uint32_t word = bits();
      if (word >= reject_below) return word % bound;
    }
  }
  // Standard normal, by Box and Muller on tril's own logarithm and cosine.
  float normal();

 private:
  uint64_t seed_;
  uint64_t stream_;
  uint64_t index_ = 0;
  Words4 words_{};
  int used_ = 4;
};

}  // namespace tril
