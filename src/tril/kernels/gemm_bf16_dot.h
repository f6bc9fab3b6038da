// Products by the processor's bf16 dot product instruction (AVX512_BF16: vdpbf16ps), where it
// exists.
//
//   c[m][n] = sum over k of bf16(a[m][k]) b[k][n]  (+ bias[n])
//
// Both operands are bf16, sums are fp32. Two terms are added at a time, pairs of k ascending, as
// the instruction does it: rounded to nearest, with subnormal numbers taken as zero. That is not
// the chain of kernels/gemm.h, so these products have bits of their own. As everywhere, each
// c[m][n] depends on its own row and column alone, in one order, whatever the number of rows or
// threads; the bias is added last, with a rounding of its own. The right operand is packed into
// panels of 64 columns, pairs of terms side by side: panels[p][k / 2][64][2]; a last term without a
// partner is paired with zero. Any m, n, k >= 0. Kernels neither allocate, throw nor log.
#pragma once

#include <cstdint>
#include <span>

#include "tril/base/dtype.h"
#include "tril/base/parallel.h"
#include "tril/kernels/gemm.h"

namespace tril::kernels {

// Whether the current target has the instruction. Without it only packing may be called.
bool has_bf16_dot();

// The number of terms padded to an even number, and elements of the panels of a [k, n] right
// operand.
constexpr int64_t bf16_padded(int64_t k) { return (k + 1) / 2 * 2; }
constexpr int64_t bf16_pair_panel_size(int64_t k, int64_t n) {
  return panel_size(bf16_padded(k), n);
}
// From a weight [n, k].
void pack_bf16_pairs(const Parallel& parallel, const float* weight, int64_t n, int64_t k,
                     BFloat16* panels);
// out [k] = row `row` of that weight.
void unpack_bf16_row(const BFloat16* panels, int64_t k, int64_t row, float* out);
// x [m, k] to bf16 [m, bf16_padded(k)].
void round_rows(const Parallel& parallel, const float* x, int64_t m, int64_t k, BFloat16* out);

struct GemmBf16Dot {
  int64_t m = 0, n = 0, k = 0;
  const BFloat16* a = nullptr;  // [m, bf16_padded(k)]
  const BFloat16* panels = nullptr;
  const float* bias = nullptr;  // [n] or none
  float* c = nullptr;           // [m, n]
};
// Several products at once, at most kMostProducts.
void gemm_bf16_dot(const Parallel& parallel, std::span<const GemmBf16Dot> products);

}  // namespace tril::kernels
