#include "tril/measure/peak_loops.h"

#include "tril/base/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/measure/peak_loops.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

// Names as in kernels/cpu: CamelCase is what is compiled once per instruction set. Loops count,
// because the compiler is told how often to unroll them. NOLINTBEGIN(readability-identifier-naming,
// modernize-loop-convert)
HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Enough sums to hide the latency of two units (4 cycles each), and no more than registers hold.
constexpr int kSums = 12;

int64_t FmaLoop(int64_t rounds) {
  const hn::ScalableTag<float> tag;
  using Vector = hn::Vec<decltype(tag)>;
  // Tends to 1, so that neither infinities nor subnormals occur. Each sum starts elsewhere: equal
  // ones would be computed once.
  const Vector factor = hn::Set(tag, 0.5f);
  Vector sums[kSums];
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) sums[i] = hn::Set(tag, static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) sums[i] = hn::MulAdd(sums[i], factor, factor);
  }
  // A result that is not read would be optimised away.
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) {
    volatile float seen = hn::GetLane(sums[i]);
    static_cast<void>(seen);
  }
  return rounds * kSums * static_cast<int64_t>(hn::Lanes(tag)) * 2;
}

float ReadLoop(const float* from, int64_t size) {
  const hn::ScalableTag<float> tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  constexpr int kStreams = 8;
  hn::Vec<decltype(tag)> sums[kStreams];
#pragma GCC unroll 8
  for (int i = 0; i < kStreams; ++i) sums[i] = hn::Zero(tag);
  for (int64_t at = 0; at + kStreams * lanes <= size; at += kStreams * lanes) {
#pragma GCC unroll 8
    for (int i = 0; i < kStreams; ++i) {
      sums[i] = hn::Add(sums[i], hn::LoadU(tag, from + at + i * lanes));
    }
  }
#pragma GCC unroll 8
  for (int i = 1; i < kStreams; ++i) sums[0] = hn::Add(sums[0], sums[i]);
  return hn::GetLane(hn::SumOfLanes(tag, sums[0]));
}

void UpdateLoop(float* array, int64_t size) {
  const hn::ScalableTag<float> tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  const hn::Vec<decltype(tag)> one = hn::Set(tag, 1.0f);
  for (int64_t at = 0; at + lanes <= size; at += lanes) {
    hn::StoreU(hn::Add(hn::LoadU(tag, array + at), one), tag, array + at);
  }
}

}  // namespace
}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tril {
namespace {

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512vnni"))) int64_t vnni_loop(int64_t rounds) {
  constexpr int kSums = 12;
  const __m512i ones = _mm512_set1_epi8(1);
  __m512i sums[kSums];
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) sums[i] = _mm512_set1_epi32(i);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) {
      sums[i] = _mm512_dpbusd_epi32(sums[i], ones, ones);
      // Otherwise a compiler may turn a sum of ones into a multiplication.
      asm volatile("" : "+v"(sums[i]));
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) {
    volatile int seen = _mm512_cvtsi512_si32(sums[i]);
    static_cast<void>(seen);
  }
  return rounds * kSums * 64 * 2;
}
#endif

HWY_EXPORT(FmaLoop);
HWY_EXPORT(ReadLoop);
HWY_EXPORT(UpdateLoop);

}  // namespace

int64_t fma_loop(int64_t rounds) { return HWY_DYNAMIC_DISPATCH(FmaLoop)(rounds); }

float read_loop(const float* from, int64_t size) {
  return HWY_DYNAMIC_DISPATCH(ReadLoop)(from, size);
}

void update_loop(float* array, int64_t size) { HWY_DYNAMIC_DISPATCH(UpdateLoop)(array, size); }

int64_t int8_loop(int64_t rounds) {
#if defined(__x86_64__)
  if (current_target() == Target::avx512_vnni) return vnni_loop(rounds);
#endif
  return 0 * rounds;
}

}  // namespace tril
#endif
// NOLINTEND
