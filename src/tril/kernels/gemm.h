// Matrix products.
//
//   c[m][n] = sum over k of a[m][k] b[k][n]  (+ bias[n])
//
// Order: each c[m][n] is one chain of fused multiply-adds over k ascending from zero, whatever the
// number of rows or threads; the bias is added last, rounded on its own. Summation::token_slices
// starts the chain anew every kTokenSlice terms and adds the partial sums in ascending order: the
// form for sums over tokens.
// The right operand is packed into panels of 64 columns, once for weights. Rows of a and c are
// contiguous; nothing may alias. Any m, n, k >= 0; k = 0 gives the bias or zero.
// Kernels neither allocate, throw nor log.
#pragma once

#include <cstdint>

#include "tril/base/parallel.h"

namespace tril::kernels {

constexpr int64_t kPanelColumns = 64;
// Tokens in one slice of a sum over tokens (weight and bias gradients).
constexpr int64_t kTokenSlice = 512;

// Floats that panels of a [k, n] right operand take: n rounded up to whole panels.
constexpr int64_t panel_floats(int64_t k, int64_t n) {
  return k * ((n + kPanelColumns - 1) / kPanelColumns * kPanelColumns);
}

// panels[p][k][64] from b [k, n], row-major. Columns past n are zero.
void pack_panels(const Parallel& parallel, const float* b, int64_t k, int64_t n, float* panels);
// The same for b given as its transpose [n, k]: a weight [out, in] for the forward product.
void pack_panels_transposed(const Parallel& parallel, const float* b, int64_t k, int64_t n,
                            float* panels);

enum class Summation { one_chain, token_slices };

struct Gemm {
  int64_t m, n, k;
  const float* a;               // [m, k]
  const float* panels;          // of b [k, n]
  const float* bias = nullptr;  // [n] or none
  float* c;                     // [m, n]
  Summation summation = Summation::one_chain;
};
void gemm(const Parallel& parallel, const Gemm& args);

// out [columns, rows] = the transpose of in [rows, columns].
void transpose(const Parallel& parallel, const float* in, int64_t rows, int64_t columns,
               float* out);

// out[n] = sum over rows of in[row][n], in slices of kTokenSlice rows merged in ascending order:
// the gradient of a bias.
void column_sums(const Parallel& parallel, const float* in, int64_t rows, int64_t columns,
                 float* out);

}  // namespace tril::kernels
