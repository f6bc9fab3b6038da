// Order-exact models of the gradients of a linear layer (kernels/gemm.h): of its weight and its
// bias, which are sums over tokens. That of its input is model::product() with the weight.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tril/kernels/model/rows_gradient.h"

namespace tril::kernels::model {

// Row `output` of dw [out, in]: the sum over tokens of dy x, in slices of kTokenSlice tokens. With
// `adds` it is one more slice, of at most kTokenSlice tokens, of a sum that dw holds.
template <class T>
void weight_gradient_row(int64_t tokens, int64_t out, int64_t in, int64_t output,
                         const Gradient<T>* dy, const T* x, bool adds, Gradient<T>* dw) {
  using G = Gradient<T>;
  const G none = nothing<G>();
  int64_t begin = 0;
  do {  // at least once: a sum of no tokens is zero
    const int64_t end = std::min(tokens, begin + kTokenSlice);
    std::vector<G> slice(static_cast<size_t>(in), none);
    for (int64_t token = begin; token < end; ++token) {
      const G factor = dy[token * out + output];
      const T* row = x + token * in;
      for (size_t i = 0; i < slice.size(); ++i) slice[i] = fma(factor, row[i], slice[i]);
    }
    for (size_t i = 0; i < slice.size(); ++i) {
      const G sum = adds || begin > 0 ? add(dw[i], slice[i]) : slice[i];
      dw[i] = add(sum, none);  // so that it is never -0
    }
    begin = end;
  } while (begin < tokens);
}

// The sum of a column of dy, in slices, of which the first is not added to anything.
template <class G>
G column_sum(int64_t tokens, int64_t columns, int64_t column, const G* dy) {
  G total = nothing<G>();
  for (int64_t begin = 0; begin < tokens; begin += kTokenSlice) {
    G slice = nothing<G>();
    const int64_t end = std::min(tokens, begin + kTokenSlice);
    for (int64_t token = begin; token < end; ++token) {
      slice = add(slice, dy[token * columns + column]);
    }
    total = begin == 0 ? slice : add(total, slice);
  }
  return total;
}

}  // namespace tril::kernels::model
