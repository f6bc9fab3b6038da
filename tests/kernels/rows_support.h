// Shared by the tests of operations on rows: contexts of the tests' device, results that show what
// was left unwritten, and the orders of summation of kernels/cuda/rows.h as scalar loops.
#pragma once

#include <array>
#include <vector>

#include "kernels/kernel_support.h"
#include "tril/base/build.h"

namespace tril::testing {

// A context of the tests' device and activations, empty again at each call; one for each number of
// threads, kept because making one on a device takes a while.
inline Context& context_here(int threads = 2) {
  static std::array<Context*, 8> contexts{};
  Context*& context = contexts[static_cast<size_t>(threads)];
  if (context == nullptr) {
    context = new Context(threads, placement());
    context->arena.allocate(int64_t{64} << 20);  // one block for all that tests ask for
  }
  context->reset();
  return *context;
}

// compute(context) gives the same bits again and again: on the CPU with 1, 2 and 5 threads on every
// instruction set here.
template <class F>
::testing::AssertionResult same_again(const F& compute) {
  const std::vector<float> expected = compute(context_here(1));
  if (device() != Device::cpu) return same_bits(compute(context_here(1)), expected);
  const KeepTarget keep;
  for (const Target target : available_targets()) {
    use_target(target);
    for (const int threads : {1, 2, 5}) {
      const ::testing::AssertionResult result = same_bits(compute(context_here(threads)), expected);
      if (!result) {
        return ::testing::AssertionFailure()
               << to_string(target) << " with " << threads << " threads: " << result.message();
      }
    }
  }
  return ::testing::AssertionSuccess();
}

// A bf16, and twice an fp32, that is a NaN no kernel makes.
constexpr uint16_t kUnwritten = 0x7fed;

// To be called before an operation: its results then show what was not written, and what was
// written past their end. `bytes` covers everything the operation allocates.
inline void mark_memory(Context& context, int64_t bytes) {
  bytes = (bytes + 4096) / 64 * 64;
  const std::vector<uint16_t> marks(static_cast<size_t>(bytes / 2), kUnwritten);
  const Arena::Scope scope(context.arena);
  copy(context.device(), context.arena.allocate(bytes), Device::cpu, marks.data(), bytes);
}

// The values of a result that was marked before; fails the test if one is missing, or if something
// was written past them.
inline std::vector<float> taken(const Tensor& tensor) {
  const int64_t bytes = tensor.size() * size_of(tensor.dtype());
  if (bytes == 0) return {};
  std::vector<uint16_t> words(static_cast<size_t>((bytes + 63) / 64 * 32));
  copy(Device::cpu, words.data(), tensor.device(), tensor.raw(),
       static_cast<int64_t>(2 * words.size()));
  for (auto i = static_cast<size_t>(bytes / 2); i < words.size(); ++i) {
    EXPECT_EQ(words[i], kUnwritten) << "written past the end of " << to_string(tensor.shape());
  }
  const std::vector<float> values = to_floats(tensor);
  const size_t step = static_cast<size_t>(size_of(tensor.dtype()) / 2);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_NE(words[step * i + step - 1], kUnwritten)
        << "element " << i << " of " << to_string(tensor.shape()) << " not written";
  }
  return values;
}

inline std::vector<float> here(std::vector<float> values) {
  return rounded_to(activations(), std::move(values));
}

// A bound on |stored - exact| for a value computed within `error` and stored as an activation.
inline double stored(double exact, double error) {
  if (activations() == DType::f32) return error;
  return error + unit(DType::bf16) * (std::fabs(exact) + error) + 0x1p-133;
}
inline std::vector<double> stored(std::span<const double> exact, std::vector<double> error) {
  for (size_t i = 0; i < error.size(); ++i) error[i] = stored(exact[i], error[i]);
  return error;
}

// Errors of exp and erf, in units in the last place. CUDA's are tested by its makers, not proved: 2
// units from the correctly rounded result, which is half a unit off itself; and half a unit more.
inline double exp_relative() { return (device() == Device::cpu ? kExpUnits : 3.0) * 2.0 * kUnit; }
inline double erf_absolute() { return (device() == Device::cpu ? kErfUnits : 3.0) * kUnit; }
inline double exp_error_here(double value, double argument) {
  const double units = device() == Device::cpu ? 1.0 : 3.0;  // in the subnormals
  return value * (exp_relative() + argument * (1.0 + argument)) + units * kSmallestFloat;
}

// Columns that take every path of the kernels: any number, whole packs, and rows too long to keep.
inline int64_t any_columns() {
  return *rc::gen::oneOf(
      rc::gen::inRange<int64_t>(1, 150),
      rc::gen::map(rc::gen::inRange<int64_t>(1, 140), [](int64_t packs) { return 8 * packs; }));
}

// ---- orders on CUDA -----------------------------------------------------------------------------
// 32 numbers folded by halves, as a warp does it.
template <class Number>
Number folded(std::array<Number, 32> lanes) {
  for (size_t step = 16; step > 0; step /= 2) {
    const std::array<Number, 32> before = lanes;
    for (size_t i = 0; i < 32; ++i) lanes[i] = before[i] + before[i ^ step];
  }
  return lanes[0];
}
// 1,024 numbers folded 32 by 32, as a block does it.
template <class Number>
Number folded(const std::vector<Number>& threads) {
  std::array<Number, 32> warps{};
  for (size_t warp = 0; warp < 32; ++warp) {
    std::array<Number, 32> lanes{};
    for (size_t lane = 0; lane < 32; ++lane) {
      const size_t at = warp * 32 + lane;
      lanes[lane] = at < threads.size() ? threads[at] : Number(0);
    }
    warps[warp] = folded(lanes);
  }
  return folded(warps);
}

// Sums over columns: packs of eight, pack i to lane i mod 32.
inline float pack_sum(std::span<const float> x) {
  std::array<float, 32> lanes{};
  for (size_t i = 0; i < x.size(); ++i) lanes[i / 8 % 32] = lanes[i / 8 % 32] + x[i];
  return folded(lanes);
}
inline float pack_dot(std::span<const float> a, std::span<const float> b) {
  std::array<float, 32> lanes{};
  for (size_t i = 0; i < a.size(); ++i) {
    lanes[i / 8 % 32] = std::fma(a[i], b[i], lanes[i / 8 % 32]);
  }
  return folded(lanes);
}
// As the device of the tests does it.
inline float row_sum(std::span<const float> x) {
  return device() == Device::cpu ? lane_sum(x) : pack_sum(x);
}
inline float row_dot(std::span<const float> a, std::span<const float> b) {
  return device() == Device::cpu ? lane_dot(a, b) : pack_dot(a, b);
}

}  // namespace tril::testing
