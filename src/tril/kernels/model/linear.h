// Order-exact models of matrix products (kernels/gemm.h, gemm_int8.h, gemm_bf16_dot.h).
//
// a [rows, terms]; weight(c, k) is term k of column c; sums [rows, columns]. Columns are taken some
// at a time only so that several chains advance together: each sum is a chain of its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "tril/kernels/model/arithmetic.h"

namespace tril::kernels::model {

// One chain of fused multiply-adds over k ascending, from zero.
template <class T, class Weight>
void product(const T* a, int64_t rows, int64_t terms, int64_t columns, const Weight& weight,
             T* sums) {
  std::fill_n(sums, rows * columns, empty_sum<T>());
  for (int64_t k = 0; k < terms; ++k) {
    for (int64_t c = 0; c < columns; ++c) {
      const T w = weight(c, k);
      for (int64_t row = 0; row < rows; ++row) {
        T& sum = sums[row * columns + c];
        sum = fma(a[row * terms + k], w, sum);
      }
    }
  }
}
// The bias comes last, with a rounding of its own.
template <class T, class Bias>
void add_bias(int64_t rows, int64_t columns, const Bias& bias, T* sums) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t c = 0; c < columns; ++c) {
      sums[row * columns + c] = add(sums[row * columns + c], bias(c));
    }
  }
}

// Rows of activations as integers with a scale each: what they are depends on the row alone.
template <class T>
struct Int8Rows {
  std::vector<Integer<T>> values{};  // [rows, terms]
  std::vector<T> scales{};           // [rows]
};
template <class T>
Int8Rows<T> quantized(const T* x, int64_t rows, int64_t terms) {
  Int8Rows<T> result;
  result.values.reserve(static_cast<size_t>(rows * terms));
  for (int64_t row = 0; row < rows; ++row) {
    T largest = constant<T>(0.0f);
    for (int64_t k = 0; k < terms; ++k) largest = larger_magnitude(largest, x[row * terms + k]);
    const T inverse = int8_inverse(largest);
    result.scales.push_back(int8_scale(largest));
    for (int64_t k = 0; k < terms; ++k) {
      result.values.push_back(nearest_integer(x[row * terms + k], inverse));
    }
  }
  return result;
}
// weight(c, k) is an integer here, weight_scale(c) a number. The kernels add the products in
// several orders: all are exact.
template <class T, class Weight, class Scale>
void int8_product(const Int8Rows<T>& a, int64_t rows, int64_t terms, int64_t columns,
                  const Weight& weight, const Scale& weight_scale, T* results) {
  std::vector<Integer<T>> sums(static_cast<size_t>(rows * columns), integer<T>(0));
  for (int64_t k = 0; k < terms; ++k) {
    for (int64_t c = 0; c < columns; ++c) {
      const Integer<T> w = weight(c, k);
      for (int64_t row = 0; row < rows; ++row) {
        Integer<T>& sum = sums[static_cast<size_t>(row * columns + c)];
        sum = add_product(sum, a.values[static_cast<size_t>(row * terms + k)], w);
      }
    }
  }
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t c = 0; c < columns; ++c) {
      const auto at = static_cast<size_t>(row * columns + c);
      results[at] = multiply(multiply(to_float(sums[at]), a.scales[static_cast<size_t>(row)]),
                             weight_scale(c));
    }
  }
}

// Pairs of terms ascending, each pair one instruction; a last term without a partner is paired with
// zero. `a` was rounded to bf16, as was the weight.
template <class Weight>
void bf16_dot_product(const Expression* a, int64_t rows, int64_t terms, int64_t columns,
                      const Weight& weight, Expression* sums) {
  const Expression zero = constant<Expression>(0.0f);
  std::fill_n(sums, rows * columns, zero);
  for (int64_t k = 0; k < terms; k += 2) {
    const bool alone = k + 1 == terms;
    for (int64_t c = 0; c < columns; ++c) {
      const Expression first = weight(c, k);
      const Expression second = alone ? zero : weight(c, k + 1);
      for (int64_t row = 0; row < rows; ++row) {
        const Expression* x = a + row * terms + k;
        Expression& sum = sums[row * columns + c];
        sum = add_bf16_pair(sum, x[0], alone ? zero : x[1], first, second);
      }
    }
  }
}

}  // namespace tril::kernels::model
