// Shared by the tests of kernels: every target and number of threads, guarded outputs, and the
// fixed tree over 16 lanes written as scalar loops.
#pragma once

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "support/testing.h"
#include "tril/base/cpu.h"
#include "tril/base/parallel.h"

namespace tril::testing {

// Fails a RapidCheck case with the text of an AssertionResult.
#define TRIL_HOLDS(...)                                            \
  do {                                                             \
    const ::testing::AssertionResult tril_result = (__VA_ARGS__);  \
    if (!tril_result) RC_FAIL(std::string(tril_result.message())); \
  } while (false)

// Puts the instruction set back when it goes.
class KeepTarget {
 public:
  KeepTarget() : before_(current_target()) {}
  ~KeepTarget() { use_target(before_); }
  KeepTarget(const KeepTarget&) = delete;
  KeepTarget& operator=(const KeepTarget&) = delete;

 private:
  Target before_;
};

// compute(parallel) gives the same bits with 1, 2 and 5 threads on every instruction set here.
template <class F>
::testing::AssertionResult same_everywhere(const F& compute) {
  const KeepTarget keep;
  const std::vector<float> expected = compute(Parallel(1));
  for (const Target target : available_targets()) {
    use_target(target);
    for (const int threads : {1, 2, 5}) {
      const ::testing::AssertionResult result = same_bits(compute(Parallel(threads)), expected);
      if (!result) {
        return ::testing::AssertionFailure()
               << to_string(target) << " with " << threads << " threads: " << result.message();
      }
    }
  }
  return ::testing::AssertionSuccess();
}

// An output filled with a NaN that no kernel produces, followed by more of it: what a kernel leaves
// unwritten or writes past the end shows.
class Guarded {
 public:
  explicit Guarded(int64_t size) : size_(size), values_(size + kGuard, mark()) {}

  float* data() { return values_.data(); }
  // The written values; a test failure when the guard was touched.
  std::vector<float> take() const {
    for (size_t i = size_; i < values_.size(); ++i) {
      EXPECT_EQ(std::bit_cast<uint32_t>(values_[i]), kMark) << "written past the end";
    }
    for (size_t i = 0; i < size_; ++i) {
      EXPECT_NE(std::bit_cast<uint32_t>(values_[i]), kMark) << "element " << i << " not written";
    }
    return {values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(size_)};
  }

 private:
  static constexpr uint32_t kMark = 0x7fedcba9u;
  static constexpr size_t kGuard = 80;  // more than a panel
  static float mark() { return std::bit_cast<float>(kMark); }

  size_t size_;
  std::vector<float> values_;
};

// Sixteen virtual lanes: element i goes to lane i mod 16; the lanes are folded by halving.
struct Lanes {
  float at[16] = {};
  float folded() const {
    float lanes[16];
    std::copy(std::begin(at), std::end(at), lanes);
    for (int width = 8; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) lanes[i] = lanes[i] + lanes[i + width];
    }
    return lanes[0];
  }
};

inline float lane_sum(std::span<const float> x) {
  Lanes lanes;
  for (size_t i = 0; i < x.size(); ++i) lanes.at[i % 16] = lanes.at[i % 16] + x[i];
  return lanes.folded();
}
// Of a[i] b[i], fused.
inline float lane_dot(std::span<const float> a, std::span<const float> b) {
  Lanes lanes;
  for (size_t i = 0; i < a.size(); ++i) lanes.at[i % 16] = std::fma(a[i], b[i], lanes.at[i % 16]);
  return lanes.folded();
}

// The largest errors of the vector exp and erf in units in the last place, over every float: a
// measurement that simd_test.cpp repeats on some of them. (Where e^r is below 1, exp rounds r, the
// polynomial and the last sum: 1/4 + 1/4 + 1/2 units, and the polynomial itself is off a little.)
constexpr double kExpUnits = 1.048;
constexpr double kErfUnits = 1.214;
// One unit in the last place is at most 2u of the value, and of a value below 1 at most u = 2^-24.
constexpr double kExpRelative = kExpUnits * 2.0 * kUnit;
constexpr double kErfAbsolute = kErfUnits * kUnit;
constexpr double kSmallestFloat = 0x1p-149;  // what rounding to a subnormal may add

// How far the vector exp may be from e^x when its argument was off by `argument`: the error of the
// argument is one of the value, relatively.
inline double exp_error(double value, double argument) {
  return value * (kExpRelative + argument * (1.0 + argument)) + kSmallestFloat;
}

// One float with the bits of another: +0 is not -0.
inline bool same_float(float a, float b) { return equal_bits({&a, 1}, {&b, 1}); }

// Rows [first, first + rows) of a matrix.
inline std::vector<float> rows_of(std::span<const float> matrix, int64_t columns, int64_t first,
                                  int64_t rows) {
  const std::span<const float> part = matrix.subspan(first * columns, rows * columns);
  return {part.begin(), part.end()};
}

inline Random seeded() { return Random(*rc::gen::arbitrary<uint64_t>()); }

}  // namespace tril::testing
