// Matrix products.
//
//   c[m][n] = sum over k of a[m][k] b[k][n]  (+ bias[n])
//
// Order: each c[m][n] is one chain of fused multiply-adds over k ascending from zero, whatever the
// number of rows or threads; the bias is added last, with a rounding of its own.
// Summation::token_slices restarts the chain every kTokenSlice terms and adds the partial sums in
// ascending order, and zero if there is no bias: the form for sums over tokens, in which a
// vanishing sum is +0 whether or not it had terms of zero.
// The right operand is packed into panels of 64 columns; weights are packed once. Panels of bf16
// are storage: each element is widened to fp32, which is exact, and the chain is the same. Rows of
// a and c are contiguous; nothing may alias. Any m, n, k >= 0; k = 0 gives the bias or zero.
// Kernels neither allocate, throw nor log.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "tril/base/dtype.h"
#include "tril/base/parallel.h"

namespace tril::kernels {

constexpr int64_t kPanelColumns = 64;
// Tokens in one slice of a sum over tokens (weight and bias gradients).
constexpr int64_t kTokenSlice = 512;

// Elements of the panels of a [k, n] right operand: n rounded up to whole panels.
constexpr int64_t panel_size(int64_t k, int64_t n) {
  return k * ((n + kPanelColumns - 1) / kPanelColumns * kPanelColumns);
}

// panels[p][k][64] from b [k, n], row-major. Columns past n are zero.
void pack_panels(const Parallel& parallel, const float* b, int64_t k, int64_t n, float* panels);
// The same for b given as its transpose [n, k]: a weight [out, in] for the forward product.
void pack_panels_transposed(const Parallel& parallel, const float* b, int64_t k, int64_t n,
                            float* panels);
// Rounds panels to bf16.
void round_panels(const Parallel& parallel, const float* panels, int64_t size, BFloat16* rounded);
// out [k] = column `column` of b: a row of the weight whose transpose was packed.
template <class Element>
void unpack_column(const Element* panels, int64_t k, int64_t column, float* out) {
  const Element* from =
      panels + column / kPanelColumns * k * kPanelColumns + column % kPanelColumns;
  for (int64_t i = 0; i < k; ++i) {
    if constexpr (std::is_same_v<Element, float>) {
      out[i] = from[i * kPanelColumns];
    } else {
      out[i] = to_f32(from[i * kPanelColumns]);
    }
  }
}

enum class Summation { one_chain, token_slices };

template <class Element>
struct GemmOf {
  int64_t m, n, k;
  const float* a;               // [m, k], or its transpose
  const Element* panels;        // of b [k, n]
  const float* bias = nullptr;  // [n] or none
  float* c;                     // [m, n]
  Summation summation = Summation::one_chain;
  bool a_transposed = false;  // a is [k, m]
  // Adds to c instead of replacing it: one more slice of a sum over tokens. The sum is rounded
  // once; k is at most kTokenSlice, and there is no bias.
  bool adds = false;
};
using Gemm = GemmOf<float>;
// Several products, at most kMostProducts, shared by the threads in one loop; usually there is one.
constexpr size_t kMostProducts = 3;
void gemm(const Parallel& parallel, std::span<const Gemm> products);
void gemm(const Parallel& parallel, std::span<const GemmOf<BFloat16>> products);
template <class Element>
void gemm(const Parallel& parallel, const GemmOf<Element>& product) {
  gemm(parallel, std::span<const GemmOf<Element>>(&product, 1));
}
inline void gemm(const Parallel& parallel, const Gemm& product) {
  gemm(parallel, std::span<const Gemm>(&product, 1));
}

// out [columns, rows] = the transpose of in [rows, columns].
void transpose(const Parallel& parallel, const float* in, int64_t rows, int64_t columns,
               float* out);

// out[n] = sum over rows of in[row][n], in slices of kTokenSlice rows merged in ascending order:
// the gradient of a bias.
void column_sums(const Parallel& parallel, const float* in, int64_t rows, int64_t columns,
                 float* out);

}  // namespace tril::kernels
