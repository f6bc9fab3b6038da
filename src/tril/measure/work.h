// The workloads on which models are measured; bench/peers gives other systems the same.
#pragma once

#include <cstdint>
#include <vector>

#include "tril/base/rng.h"

namespace tril {

// Sentence lengths in tokens: the 64 quantiles (i + 1/2) / 64 of a normal distribution with mean 28
// and deviation 12, cut to 4 ... 100; entry i is quantile 39 i mod 64.
constexpr int64_t kWorkLengths[] = {4,  32, 19, 40, 26, 9,  33, 21, 42, 28, 13, 35, 22, 46, 29, 15,
                                    36, 24, 52, 31, 18, 38, 25, 4,  32, 20, 41, 27, 10, 34, 21, 43,
                                    28, 14, 35, 23, 47, 30, 16, 37, 24, 57, 31, 18, 39, 26, 7,  33,
                                    20, 41, 27, 12, 34, 22, 44, 29, 15, 36, 23, 49, 30, 17, 38, 25};

// Random tokens other than special ones.
inline std::vector<int32_t> work_sentence(int64_t length, int64_t vocab, Random& random) {
  constexpr int64_t kSpecial = 4;
  std::vector<int32_t> tokens(static_cast<size_t>(length));
  for (int32_t& token : tokens) {
    token = static_cast<int32_t>(kSpecial + random.below(static_cast<uint32_t>(vocab - kSpecial)));
  }
  return tokens;
}

}  // namespace tril
