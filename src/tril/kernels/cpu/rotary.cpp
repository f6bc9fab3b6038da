#include "tril/kernels/rotary.h"

#include "tril/base/math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/cpu/rotary.cpp"
#include "hwy/foreach_target.h"
#include "tril/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::kernels::HWY_NAMESPACE {
namespace {

void RotaryKernel(const Parallel& parallel, const Rotary& r, Turn turn, const float* x, float* y) {
  const int64_t half = r.head_dim / 2;
  const int64_t width = r.heads * r.head_dim;
  const float sign = turn == Turn::forwards ? 1.0f : -1.0f;
  for_row_blocks(parallel, r.rows, width, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* cosines = r.table + r.positions[row] * r.head_dim;
      const float* sines = cosines + half;
      for (int64_t head = 0; head < r.heads; ++head) {
        const float* from = x + row * width + head * r.head_dim;
        float* to = y + row * width + head * r.head_dim;
        for_each_16(half, [&](const auto& load, const auto& store) HWY_ATTR {
          const Vec16 c = load(cosines);
          const Vec16 s = load(sines) * set16(sign);
          const Vec16 low = load(from);
          const Vec16 high = load(from + half);
          store(fnma(high, s, low * c), to);
          store(fma(low, s, high * c), to + half);
        });
      }
    }
  });
}

}  // namespace
}  // namespace tril::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril::kernels {

HWY_EXPORT(RotaryKernel);

std::vector<double> rotary_frequencies(int64_t head_dim, double base) {
  const int64_t half = head_dim / 2;
  std::vector<double> result;
  for (int64_t i = 0; i < half; ++i) {
    result.push_back(math::pow(base, -static_cast<double>(i) / static_cast<double>(half)));
  }
  return result;
}

void fill_rotary_table(int64_t positions, std::span<const double> frequencies, Angles angles,
                       float* table) {
  const auto half = static_cast<int64_t>(frequencies.size());
  const int64_t head_dim = 2 * half;
  for (int64_t i = 0; i < half; ++i) {
    const double frequency = frequencies[static_cast<size_t>(i)];
    for (int64_t position = 0; position < positions; ++position) {
      double angle = static_cast<double>(position) * frequency;
      if (angles == Angles::rounded) angle = static_cast<double>(static_cast<float>(angle));
      table[position * head_dim + i] = static_cast<float>(math::cos(angle));
      table[position * head_dim + half + i] = static_cast<float>(math::sin(angle));
    }
  }
}

void rotary(const Parallel& parallel, const Rotary& args, Turn turn, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(RotaryKernel)(parallel, args, turn, x, y);
}

}  // namespace tril::kernels
#endif
