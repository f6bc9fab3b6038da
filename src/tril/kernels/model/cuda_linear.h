// Order-exact model of CUDA's matrix products in bf16 (kernels/cuda/gemm.h). In fp32 a product is
// that of linear.h: one chain.
#pragma once

#include <algorithm>

#include "tril/kernels/model/cuda_functions.h"

namespace tril::kernels::model {

// Steps of 16 terms ascending, from zero, the last filled up with zeros. The one order of
// gemm_few_rows.cu, gemm.cu and the algorithms of cuBLASLt that passed their trial. Operands are
// bf16 numbers: a [rows, terms], weight(c, k) is term k of column c; sums [rows, columns].
template <class T, class Weight>
void tensor_core_product(const T* a, int64_t rows, int64_t terms, int64_t columns,
                         const Weight& weight, T* sums) {
  const T zero = constant<T>(0.0f);
  std::fill_n(sums, rows * columns, zero);
  TensorCoreTerms<T> left, right;
  for (int64_t k = 0; k < terms; k += kTensorCoreTerms) {
    const int64_t there = std::min(kTensorCoreTerms, terms - k);
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t i = 0; i < kTensorCoreTerms; ++i) {
        right[static_cast<size_t>(i)] = i < there ? weight(c, k + i) : zero;
      }
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t i = 0; i < kTensorCoreTerms; ++i) {
          left[static_cast<size_t>(i)] = i < there ? a[row * terms + k + i] : zero;
        }
        T& sum = sums[row * columns + c];
        sum = tensor_core_step(sum, left, right);
      }
    }
  }
}

}  // namespace tril::kernels::model
