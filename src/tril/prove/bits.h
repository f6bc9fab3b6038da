// Floats as bit patterns: NaN equals itself, 0 and -0 differ.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

namespace tril {

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

// How many numbers differ; those that only one side has count as different.
inline int64_t differing_bits(std::span<const float> a, std::span<const float> b) {
  if (same_bits(a, b)) return 0;
  const size_t both = std::min(a.size(), b.size());
  int64_t count = static_cast<int64_t>(std::max(a.size(), b.size()) - both);
  for (size_t i = 0; i < both; ++i) {
    count += std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]) ? 1 : 0;
  }
  return count;
}

}  // namespace tril
