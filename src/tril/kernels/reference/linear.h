// A linear layer as the textbook writes it, for tests and explanation.
//
//   y = x Wᵀ + b
//   dx = dy W;  dW = dyᵀ x;  db = the sum of dy over rows
//
// x, dx [rows, in]; W, dW [out, in]; b, db [out]; y, dy [rows, out]. A template in any precision:
// it defines what kernels/gemm.h computes in tiles.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tril::reference {

struct LinearSizes {
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;
};

// An empty `bias` means none.
template <class T>
std::vector<T> linear(const LinearSizes& n, std::span<const T> x, std::span<const T> weight,
                      std::span<const T> bias = {}) {
  std::vector<T> y(n.rows * n.out);
  for (int64_t row = 0; row < n.rows; ++row) {
    for (int64_t o = 0; o < n.out; ++o) {
      T sum = 0;
      for (int64_t i = 0; i < n.in; ++i) sum += x[row * n.in + i] * weight[o * n.in + i];
      y[row * n.out + o] = bias.empty() ? sum : sum + bias[o];
    }
  }
  return y;
}

template <class T>
struct LinearGradients {
  std::vector<T> dx, dweight, dbias;
};

template <class T>
LinearGradients<T> linear_gradients(const LinearSizes& n, std::span<const T> x,
                                    std::span<const T> weight, std::span<const T> dy) {
  LinearGradients<T> g{std::vector<T>(n.rows * n.in), std::vector<T>(n.out * n.in),
                       std::vector<T>(n.out)};
  for (int64_t row = 0; row < n.rows; ++row) {
    for (int64_t o = 0; o < n.out; ++o) {
      const T slope = dy[row * n.out + o];
      for (int64_t i = 0; i < n.in; ++i) {
        g.dx[row * n.in + i] += slope * weight[o * n.in + i];
        g.dweight[o * n.in + i] += slope * x[row * n.in + i];
      }
      g.dbias[o] += slope;
    }
  }
  return g;
}

}  // namespace tril::reference
