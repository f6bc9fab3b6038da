// Shared by the tests: random data, comparison of bits, and derived tolerances.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "tril/base/error.h"
#include "tril/base/rng.h"
#include "tril/ops/weight_form.h"
#include "tril/tensor/context.h"
#include "tril/tensor/tensor.h"

namespace tril::testing {

// Half the distance of 1 to the next fp32: the largest relative error of one rounding.
constexpr double kUnit = 0x1p-24;

// The bound on the rounding error of an fp32 sum (or dot product) of `terms` terms in any order,
// relative to the sum of their absolute values: gamma_n of Higham, "Accuracy and Stability of
// Numerical Algorithms", section 3.1.
inline double gamma(int64_t terms) {
  const double nu = static_cast<double>(terms) * kUnit;
  return nu / (1.0 - nu);
}

// Uniform in [-1, 1).
std::vector<float> random_floats(Random& random, int64_t count);
Tensor random_tensor(Arena& arena, const Shape& shape, Random& random);
Tensor tensor_of(Arena& arena, const Shape& shape, std::span<const float> values);
std::vector<float> floats_of(const ConstTensor& tensor);
// The same on the context's device, rounded to the type of its activations.
Tensor activations_of(Context& context, const Shape& shape, std::span<const float> values);

// Packs a weight in the form that products of the context use, in memory of `arena`.
void pack(Context& context, ops::LinearWeight& linear, Arena& arena);

// The device of the tests: TRIL_TEST_DEVICE (cpu, cuda) and TRIL_TEST_ACTIVATIONS (fp32, bf16).
// Cases are the same everywhere; Context(threads, placement()) is where they run.
Device device();
DType activations();
inline Placement placement() { return {device(), activations()}; }
// The largest relative error of one rounding to this type.
double unit(DType type);
// tests/golden, or where TRIL_GOLDEN_FOLDER in the environment says it is: programs that were
// carried to another machine do not find it where they were built.
std::string golden_folder();
std::vector<float> rounded_to(DType type, std::vector<float> values);
std::vector<double> doubles_of(std::span<const float> values);

// A case of a whole model is thousands of tiny launches on CUDA. There a property that begins with
// this tries every few-th of its cases, so of all sizes, and passes the others over; on the CPU it
// tries all. One count for each place in the sources.
bool passed_over_on_cuda(int few, std::source_location here = std::source_location::current());
// The same on the CPU for properties whose cases take long: every few-th case in ./check, all of
// them in --full.
bool passed_over_unless_full(int few, std::source_location here = std::source_location::current());

// Equal as bit patterns: NaN equals the same NaN, +0 does not equal -0.
::testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b);
::testing::AssertionResult same_bits(const ConstTensor& a, const ConstTensor& b);
inline bool equal_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

// |actual[i] - expected[i]| <= bound[i] for every i; says where it is worst.
::testing::AssertionResult within(std::span<const float> actual, std::span<const double> expected,
                                  std::span<const double> bound);

// The text and code of the Error that `call` raises; fails when it raises none or something else.
struct Raised {
  ErrorCode code{};
  std::string text;
  std::string field{};
};
template <class F>
Raised raised_by(const F& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.what(), std::string(error.field())};
  }
  ADD_FAILURE() << "expected a tril::Error";
  return {};
}

}  // namespace tril::testing
