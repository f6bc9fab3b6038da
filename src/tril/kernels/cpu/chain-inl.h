// The one inner loop of tril: chains of fused multiply-adds over ascending k.
//
//   acc[r][n] = fma(a[r][k], b[k][n], acc[r][n])   for k = 0, 1, 2, ...
//
// GEMM, q·k, P·V and all their gradients are this loop. An element's chain never depends on how
// many rows or columns are computed together with it: that is where "bit for bit" comes from.
// Columns come in groups of 16. A tile of kMaxRows rows × max_groups() groups fills the registers.

#if defined(TRIL_KERNELS_CPU_CHAIN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIL_KERNELS_CPU_CHAIN_INL_H_
#undef TRIL_KERNELS_CPU_CHAIN_INL_H_
#else
#define TRIL_KERNELS_CPU_CHAIN_INL_H_
#endif

#include "tril/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::kernels::HWY_NAMESPACE {

constexpr int kMaxRows = 6;

// The number of groups of 16 columns whose accumulators fit for kRows rows: 24 of 32 AVX-512
// registers, 12 of 16 AVX2 registers.
template <int kRows>
constexpr int max_groups() {
  constexpr int kBudget = kParts == 1 ? 24 : (kParts == 2 ? 12 : 24);
  constexpr int kFit = kBudget / (kRows * kParts);
  return kFit >= 4 ? 4 : (kFit >= 2 ? 2 : 1);
}

// Rows of the next tile when `left` remain: as few tiles as possible, of about equal height. A low
// tile would wait for its columns of b, which few rows share.
HWY_INLINE int64_t next_rows(int64_t left) {
  const int64_t tiles = (left + kMaxRows - 1) / kMaxRows;
  return (left + tiles - 1) / tiles;
}

// Calls f with the number of rows as a constant, 1 to kMaxRows.
template <class F>
HWY_INLINE void with_rows(int64_t rows, const F& f) {
  switch (rows) {
    case 1: f(std::integral_constant<int, 1>()); break;
    case 2: f(std::integral_constant<int, 2>()); break;
    case 3: f(std::integral_constant<int, 3>()); break;
    case 4: f(std::integral_constant<int, 4>()); break;
    case 5: f(std::integral_constant<int, 5>()); break;
    default: f(std::integral_constant<int, 6>()); break;
  }
}

// Calls f with the number of groups as a constant: the largest of 4, 2, 1 that is at most `groups`
// and max_groups<kRows>(). Returns that number.
template <int kRows, class F>
HWY_INLINE int64_t with_groups(int64_t groups, const F& f) {
  if constexpr (max_groups<kRows>() >= 4) {
    if (groups >= 4) {
      f(std::integral_constant<int, 4>());
      return 4;
    }
    // Three groups at once waste no lane at the end of a diagonal.
    if (groups == 3) {
      f(std::integral_constant<int, 3>());
      return 3;
    }
  }
  if constexpr (max_groups<kRows>() >= 2) {
    if (groups >= 2) {
      f(std::integral_constant<int, 2>());
      return 2;
    }
  }
  f(std::integral_constant<int, 1>());
  return 1;
}

template <int kRows, int kGroups>
struct Accumulators {
  Vec16 at[kRows][kGroups];

  HWY_INLINE void clear() {
    for (int r = 0; r < kRows; ++r) {
      for (int g = 0; g < kGroups; ++g) at[r][g] = zero16();
    }
  }
  HWY_INLINE void load(const float* HWY_RESTRICT from, int64_t stride) {
    for (int r = 0; r < kRows; ++r) {
      for (int g = 0; g < kGroups; ++g) at[r][g] = load16(from + r * stride + g * kLanes);
    }
  }
  HWY_INLINE void store(float* HWY_RESTRICT to, int64_t stride) const {
    for (int r = 0; r < kRows; ++r) {
      for (int g = 0; g < kGroups; ++g) store16(at[r][g], to + r * stride + g * kLanes);
    }
  }
};

// Continues the chains by `count` steps. a[r * a_row + k * a_step]; group g of row k of b starts at
// b[g] + k * b_step. Elements of b are fp32, or bf16 that are widened.
template <int kRows, int kGroups, class Element>
HWY_INLINE void chain(const float* HWY_RESTRICT a, int64_t a_row, int64_t a_step,
                      const Element* const (&b)[kGroups], int64_t b_step, int64_t count,
                      Accumulators<kRows, kGroups>& sums) {
  // Local copies, so that the compiler keeps everything in registers.
  Accumulators<kRows, kGroups> local = sums;
  const Element* from[kGroups];
  for (int g = 0; g < kGroups; ++g) from[g] = b[g];
  for (int64_t k = 0; k < count; ++k) {
    Vec16 row_of_b[kGroups];
    for (int g = 0; g < kGroups; ++g) {
      row_of_b[g] = load16(from[g]);
      from[g] += b_step;
    }
    for (int r = 0; r < kRows; ++r) {
      const Vec16 factor = set16(a[r * a_row]);
      for (int g = 0; g < kGroups; ++g) local.at[r][g] = fma(factor, row_of_b[g], local.at[r][g]);
    }
    a += a_step;
  }
  sums = local;
}

// The same, but row r takes only the steps [from[r], to[r]): the others leave its chains unchanged,
// whatever they would have added. `k` is the number of the first of the `count` steps.
template <int kRows, int kGroups>
HWY_INLINE void chain_within(const float* HWY_RESTRICT a, int64_t a_row, int64_t a_step,
                             const float* HWY_RESTRICT b, int64_t b_step, int64_t k, int64_t count,
                             const int64_t (&from)[kRows], const int64_t (&to)[kRows],
                             Accumulators<kRows, kGroups>& sums) {
  Accumulators<kRows, kGroups> local = sums;
  for (const int64_t end = k + count; k < end; ++k) {
    Vec16 row_of_b[kGroups];
    for (int g = 0; g < kGroups; ++g) row_of_b[g] = load16(b + g * kLanes);
    for (int r = 0; r < kRows; ++r) {
      if (k < from[r] || k >= to[r]) continue;
      const Vec16 factor = set16(a[r * a_row]);
      for (int g = 0; g < kGroups; ++g) local.at[r][g] = fma(factor, row_of_b[g], local.at[r][g]);
    }
    a += a_step;
    b += b_step;
  }
  sums = local;
}

}  // namespace tril::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
