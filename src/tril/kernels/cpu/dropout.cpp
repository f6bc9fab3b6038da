#include "tril/kernels/dropout.h"

#include <cmath>

#include "tril/base/rng.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/cpu/dropout.cpp"
#include "hwy/foreach_target.h"
#include "tril/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::kernels::HWY_NAMESPACE {
namespace {

constexpr int kCounters = 16;                // Philox blocks done side by side
constexpr int64_t kStretch = 4 * kCounters;  // features they cover

// Sixteen Philox blocks whose counters differ in the last word only. Plain integer loops: the
// compiler makes vectors of them, and integers have the same bits whatever it does.
HWY_INLINE void philox_blocks(uint64_t key, const Words4& counter, uint32_t (&out)[4][kCounters]) {
  uint32_t c0[kCounters], c1[kCounters], c2[kCounters], c3[kCounters];
  for (int i = 0; i < kCounters; ++i) {
    c0[i] = counter[0];
    c1[i] = counter[1];
    c2[i] = counter[2];
    c3[i] = counter[3] + static_cast<uint32_t>(i);
  }
  auto key0 = static_cast<uint32_t>(key);
  auto key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    for (int i = 0; i < kCounters; ++i) {
      const uint64_t product0 = uint64_t{kPhiloxMultiplier0} * c0[i];
      const uint64_t product1 = uint64_t{kPhiloxMultiplier1} * c2[i];
      c0[i] = static_cast<uint32_t>(product1 >> 32) ^ c1[i] ^ key0;
      c1[i] = static_cast<uint32_t>(product1);
      c2[i] = static_cast<uint32_t>(product0 >> 32) ^ c3[i] ^ key1;
      c3[i] = static_cast<uint32_t>(product0);
    }
    key0 += kPhiloxWeyl0;
    key1 += kPhiloxWeyl1;
  }
  for (int i = 0; i < kCounters; ++i) {
    out[0][i] = c0[i];
    out[1][i] = c1[i];
    out[2][i] = c2[i];
    out[3][i] = c3[i];
  }
}

void DropoutKernel(const Parallel& parallel, const Dropout& d, const float* x, float* y) {
  const float kept = 1.0f / (1.0f - d.probability);
  // u is a whole number of 2^-24: u >= p is that number >= p 2^24, rounded up.
  const auto threshold = static_cast<uint32_t>(std::ceil(d.probability * 0x1p24f));
  for_row_blocks(parallel, d.rows, d.columns, [&](int64_t begin, int64_t end) {
    uint32_t words[4][kCounters];
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t first = 0; first < d.columns; first += kStretch) {
        philox_blocks(d.seed,
                      {d.step, static_cast<uint32_t>(d.sentences[row]),
                       static_cast<uint32_t>(d.positions[row]),
                       (d.site << 16) + static_cast<uint32_t>(first / 4)},
                      words);
        const int64_t count = std::min(kStretch, d.columns - first);
        const float* from = x + row * d.columns + first;
        float* to = y + row * d.columns + first;
        for (int64_t f = 0; f < count; ++f) {
          const uint32_t u = words[f % 4][f / 4] >> 8;
          to[f] = u >= threshold ? from[f] * kept : 0.0f;
        }
      }
    }
  });
}

}  // namespace
}  // namespace tril::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril::kernels {

HWY_EXPORT(DropoutKernel);

void dropout(const Parallel& parallel, const Dropout& args, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(DropoutKernel)(parallel, args, x, y);
}

}  // namespace tril::kernels
#endif
