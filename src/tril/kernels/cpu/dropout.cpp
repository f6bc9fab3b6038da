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

float scale_of(float probability) { return 1.0f / (1.0f - probability); }

constexpr int kCounters = 16;                // Philox blocks computed together
constexpr int64_t kStretch = 8 * kCounters;  // features they cover

// The lower and upper halves of the products of two vectors.
template <class D, class V>
HWY_INLINE void multiply_wide(D d, V a, V b, V& low, V& high) {
  const hn::RepartitionToWide<D> wide;
  const auto even = hn::MulEven(a, b);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))), b);
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
}

// Stretches whose random numbers are computed together: a round waits for the one before it, so a
// single stretch would leave the multipliers idle.
constexpr int kTogether = 4;

// For each of several stretches, sixteen Philox blocks whose counters differ in the last word only:
// base/rng.h in vectors.
HWY_INLINE void philox_blocks(uint64_t key, const Words4 (&counter)[kTogether],
                              uint32_t (&out)[kTogether][4][kCounters]) {
  const hn::CappedTag<uint32_t, kCounters> d;
  using V = hn::Vec<decltype(d)>;
  const auto multiplier0 = hn::Set(d, kPhiloxMultiplier0);
  const auto multiplier1 = hn::Set(d, kPhiloxMultiplier1);
  for (size_t i = 0; i < kCounters; i += hn::Lanes(d)) {
    V c[kTogether][4];
    for (int s = 0; s < kTogether; ++s) {
      for (int word = 0; word < 3; ++word) c[s][word] = hn::Set(d, counter[s][word]);
      c[s][3] = hn::Iota(d, counter[s][3] + static_cast<uint32_t>(i));
    }
    auto key0 = static_cast<uint32_t>(key);
    auto key1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < kPhiloxRounds; ++round) {
      for (auto& words : c) {
        V low0, high0, low1, high1;
        multiply_wide(d, words[0], multiplier0, low0, high0);
        multiply_wide(d, words[2], multiplier1, low1, high1);
        words[0] = hn::Xor(hn::Xor(high1, words[1]), hn::Set(d, key0));
        words[1] = low1;
        words[2] = hn::Xor(hn::Xor(high0, words[3]), hn::Set(d, key1));
        words[3] = low0;
      }
      key0 += kPhiloxWeyl0;
      key1 += kPhiloxWeyl1;
    }
    for (int s = 0; s < kTogether; ++s) {
      for (int word = 0; word < 4; ++word) hn::StoreU(c[s][word], d, out[s][word] + i);
    }
  }
}

// y = x times `scale` where the bit is set, else zero; 16 features.
HWY_INLINE void keep_sixteen(const uint8_t* bits, float scale, const float* from, float* to) {
  const FloatTag d;
  for (int p = 0; p < kParts; ++p) {
    // LoadMaskBits reads the lowest bits: with four lanes per part, those of every other part must
    // be shifted there.
    const auto byte = static_cast<uint8_t>(bits[p * kPartLanes / 8] >> p * kPartLanes % 8);
    const uint8_t own[2] = {byte, kPartLanes > 8 ? bits[1] : uint8_t{0}};
    const auto kept = hn::LoadMaskBits(d, own);
    const Part x = hn::LoadU(d, from + p * kPartLanes);
    hn::StoreU(hn::IfThenElseZero(kept, hn::Mul(x, hn::Set(d, scale))), d, to + p * kPartLanes);
  }
}
void keep_some(const uint8_t* bits, float scale, const float* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    to[i] = (bits[i / 8] >> i % 8 & 1) != 0 ? from[i] * scale : 0.0f;
  }
}

// The bits of the 16 features that `word` of a stretch decides.
HWY_INLINE void decide_sixteen(const uint32_t (&words)[4][kCounters], int word, uint32_t threshold,
                               uint8_t (&bits)[2]) {
  const hn::RebindToUnsigned<FloatTag> d;
  const hn::RebindToSigned<FloatTag> signed_tag;
  uint32_t all = 0;
  for (int p = 0; p < kParts; ++p) {
    const auto both = hn::LoadU(d, words[word % 4] + p * kPartLanes);
    const auto u = word < 4 ? hn::And(both, hn::Set(d, 0xFFFF)) : hn::ShiftRight<16>(both);
    const auto kept = hn::Gt(hn::BitCast(signed_tag, u),
                             hn::Set(signed_tag, static_cast<int32_t>(threshold) - 1));
    uint8_t part[8] = {};
    hn::StoreMaskBits(signed_tag, kept, part);
    all |= (part[0] | static_cast<uint32_t>(part[1]) << 8) << p * kPartLanes;
  }
  bits[0] = static_cast<uint8_t>(all);
  bits[1] = static_cast<uint8_t>(all >> 8);
}

HWY_INLINE void drop_stretch(const uint32_t (&words)[4][kCounters], uint32_t threshold, float scale,
                             const float* from, float* to, uint8_t* kept, int64_t count) {
  for (int word = 0; word * kCounters < count; ++word) {
    const int64_t first = word * kCounters;
    uint8_t bits[2];
    decide_sixteen(words, word, threshold, bits);
    if (count - first >= kCounters) {
      keep_sixteen(bits, scale, from + first, to + first);
    } else {
      keep_some(bits, scale, from + first, to + first, count - first);
    }
    std::copy_n(bits, std::min<int64_t>(2, dropout_row_bytes(count - first)), kept + first / 8);
  }
}

void DropoutKernel(const Parallel& parallel, const Dropout& d, const float* x, float* y,
                   uint8_t* kept) {
  const float scale = scale_of(d.probability);
  const int64_t row_bytes = dropout_row_bytes(d.columns);
  // u is a multiple of 2^-16: u >= p means that multiple >= p 2^16, rounded up.
  const auto threshold = static_cast<uint32_t>(std::ceil(d.probability * 0x1p16f));
  const int64_t stretches = (d.columns + kStretch - 1) / kStretch;
  for_row_blocks(parallel, d.rows, d.columns, [&](int64_t begin, int64_t end) {
    uint32_t words[kTogether][4][kCounters];
    const int64_t last = end * stretches;
    for (int64_t at = begin * stretches; at < last; at += kTogether) {
      Words4 counter[kTogether];
      for (int64_t s = 0; s < kTogether; ++s) {
        const int64_t row = std::min(at + s, last - 1) / stretches;
        const int64_t stretch = std::min(at + s, last - 1) % stretches;
        counter[s] = {d.step, static_cast<uint32_t>(d.sentences[row]),
                      static_cast<uint32_t>(d.positions[row]),
                      (d.site << 16) + static_cast<uint32_t>(stretch * kCounters)};
      }
      philox_blocks(d.seed, counter, words);
      for (int64_t s = 0; s < kTogether && at + s < last; ++s) {
        const int64_t first = (at + s) % stretches * kStretch;
        const int64_t row = (at + s) / stretches;
        const int64_t offset = row * d.columns + first;
        drop_stretch(words[s], threshold, scale, x + offset, y + offset,
                     kept + row * row_bytes + first / 8, std::min(kStretch, d.columns - first));
      }
    }
  });
}

void ByBits(const Parallel& parallel, int64_t rows, int64_t columns, float probability,
            const uint8_t* kept, const float* x, float* y) {
  const float scale = scale_of(probability);
  for_row_blocks(parallel, rows, columns, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const uint8_t* bits = kept + row * dropout_row_bytes(columns);
      const float* from = x + row * columns;
      float* to = y + row * columns;
      int64_t i = 0;
      for (; i + kLanes <= columns; i += kLanes)
        keep_sixteen(bits + i / 8, scale, from + i, to + i);
      keep_some(bits + i / 8, scale, from + i, to + i, columns - i);
    }
  });
}

}  // namespace
}  // namespace tril::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril::kernels {

HWY_EXPORT(DropoutKernel);
HWY_EXPORT(ByBits);

void dropout(const Parallel& parallel, const Dropout& args, const float* x, float* y,
             uint8_t* kept) {
  HWY_DYNAMIC_DISPATCH(DropoutKernel)(parallel, args, x, y, kept);
}
void dropout_by_bits(const Parallel& parallel, int64_t rows, int64_t columns, float probability,
                     const uint8_t* kept, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(ByBits)(parallel, rows, columns, probability, kept, x, y);
}

}  // namespace tril::kernels
#endif
