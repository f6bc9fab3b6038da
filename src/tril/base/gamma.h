// Higham's gamma_n = n u / (1 - n u): a bound on the relative error of n fp32 operations in any
// order (Accuracy and Stability of Numerical Algorithms, lemma 3.1). Infinite where n is too large
// for any bound. The error bounds of tril are derived from it.
#pragma once

#include <cstdint>
#include <limits>

namespace tril {

constexpr double kFp32Unit = 0x1p-24;  // half the distance from 1 to the next number

inline double gamma(int64_t operations) {
  const double share = static_cast<double>(operations) * kFp32Unit;
  return share < 1.0 ? share / (1.0 - share) : std::numeric_limits<double>::infinity();
}

}  // namespace tril
