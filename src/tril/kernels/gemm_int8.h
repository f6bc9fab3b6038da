// int8 matrix products: 8-bit weights and activations, sums in 32-bit integers.
//
//   c[m][n] = (float(sum over k of a[m][k] b[k][n]) * a_scale[m]) * b_scale[n]  (+ bias[n])
//
// Both operands are scaled row by row: a row's largest magnitude becomes 127 and every element is
// rounded to the nearest integer, ties to even. So the integers of a row of activations depend on
// that row alone. Sums of integers are exact in any order and no saturating instruction is used:
// the bits depend on neither batch nor machine. A row of activations with NaN or infinity has a
// scale of NaN: all of its products are NaN. A row whose largest magnitude is below kInt8Smallest
// counts as zero. The right operand is packed into panels of 64 columns: panels[p][k / 4][64][4],
// zeros past k and n. Activations are stored as a + 128, unsigned, as the instructions want them;
// `sums` corrects for the offset. Nothing may alias. Any m, n >= 0, 0 <= k <= kInt8MaxTerms.
// Kernels neither allocate, throw nor log.
#pragma once

#include <cstdint>
#include <span>

#include "tril/base/parallel.h"

namespace tril::kernels {

constexpr int64_t kInt8Terms = 4;           // terms of a sum that are stored side by side
constexpr int64_t kInt8MaxTerms = 1 << 16;  // 255 * 127 times it is below 2^31
constexpr float kInt8Smallest = 0x1p-120f;  // 127 / this is finite

constexpr int64_t int8_padded(int64_t k) { return (k + kInt8Terms - 1) / kInt8Terms * kInt8Terms; }
// Bytes of the panels of a [k, n] right operand.
constexpr int64_t int8_panel_size(int64_t k, int64_t n) {
  return int8_padded(k) * ((n + 63) / 64 * 64);
}

// A weight [n, k] with its rows scaled, rounded and packed. scales [n], and sums [n] of each row's
// integers. The weight must be finite.
struct Int8Weight {
  int8_t* panels;
  float* scales;
  int32_t* sums;
};
void pack_int8(const Parallel& parallel, const float* weight, int64_t n, int64_t k,
               const Int8Weight& packed);
// out [k] = row `row` of the weight as the products see it: integers times the scale.
void unpack_int8_row(const int8_t* panels, const float* scales, int64_t k, int64_t row, float* out);

// out [m, int8_padded(k)] = x [m, k] scaled, rounded, plus 128 (128 past k); scales [m].
void quantize_rows(const Parallel& parallel, const float* x, int64_t m, int64_t k, uint8_t* out,
                   float* scales);

struct GemmInt8 {
  int64_t m, n, k;
  const uint8_t* a;       // [m, int8_padded(k)], from quantize_rows
  const float* a_scales;  // [m]
  const int8_t* panels;   // of the weight [n, k], with
  const float* scales;    // [n] and
  const int32_t* sums;    // [n]
  const float* bias;      // [n] or null
  float* c;               // [m, n]
};
// Several products, at most kMostProducts (kernels/gemm.h), shared by the threads in one loop.
void gemm_int8(const Parallel& parallel, std::span<const GemmInt8> products);

}  // namespace tril::kernels
