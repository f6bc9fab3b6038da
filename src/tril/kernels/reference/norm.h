// Layer norm and RMS norm as the papers write them, for tests and explanation.
//
//   layer: z = (x - mean) r,  r = 1 / sqrt(mean of (x - mean)^2 + epsilon)
//   rms:   z = x r,           r = 1 / sqrt(mean of x^2 + epsilon)
//   y = z w + b
// With g = dy w, and means over the row:
//   dx = r (g - mean(g) - z mean(g z))       (rms: without mean(g))
//   dw = the sum of dy z over rows;  db = the sum of dy over rows
//
// x, y, dx, dy [rows, columns]; w, b [columns]. A template in any precision; kernels/norm.h has the
// papers.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "tril/kernels/norm.h"

namespace tril::reference {

template <class T>
struct NormSizes {
  kernels::NormKind kind = kernels::NormKind::layer;
  int64_t rows = 0;
  int64_t columns = 0;
  T epsilon = 0;
};

template <class T>
struct NormalisedRow {
  T mean = 0;  // 0 for rms
  T r = 0;
  std::vector<T> z;
};

template <class T>
NormalisedRow<T> normalised_row(const NormSizes<T>& n, std::span<const T> x) {
  const T count = static_cast<T>(n.columns);
  NormalisedRow<T> out;
  if (n.kind == kernels::NormKind::layer) {
    for (const T value : x) out.mean += value;
    out.mean /= count;
  }
  T square = 0;
  for (const T value : x) square += (value - out.mean) * (value - out.mean);
  out.r = 1 / std::sqrt(square / count + n.epsilon);
  for (const T value : x) out.z.push_back((value - out.mean) * out.r);
  return out;
}

// An empty `bias` means none.
template <class T>
std::vector<T> norm(const NormSizes<T>& n, std::span<const T> x, std::span<const T> weight,
                    std::span<const T> bias = {}) {
  std::vector<T> y;
  for (int64_t row = 0; row < n.rows; ++row) {
    const NormalisedRow<T> normed = normalised_row(n, x.subspan(row * n.columns, n.columns));
    for (int64_t i = 0; i < n.columns; ++i) {
      y.push_back(normed.z[i] * weight[i] + (bias.empty() ? T(0) : bias[i]));
    }
  }
  return y;
}

template <class T>
struct NormGradients {
  std::vector<T> dx, dweight, dbias;
};

template <class T>
NormGradients<T> norm_gradients(const NormSizes<T>& n, std::span<const T> x,
                                std::span<const T> weight, std::span<const T> dy) {
  const T count = static_cast<T>(n.columns);
  NormGradients<T> out{{}, std::vector<T>(n.columns), std::vector<T>(n.columns)};
  for (int64_t row = 0; row < n.rows; ++row) {
    const NormalisedRow<T> normed = normalised_row(n, x.subspan(row * n.columns, n.columns));
    const std::span<const T> slope = dy.subspan(row * n.columns, n.columns);
    T mean_g = 0;
    T mean_gz = 0;
    for (int64_t i = 0; i < n.columns; ++i) {
      mean_g += slope[i] * weight[i] / count;
      mean_gz += slope[i] * weight[i] * normed.z[i] / count;
    }
    if (n.kind == kernels::NormKind::rms) mean_g = 0;
    for (int64_t i = 0; i < n.columns; ++i) {
      out.dx.push_back(normed.r * (slope[i] * weight[i] - mean_g - normed.z[i] * mean_gz));
      out.dweight[i] += slope[i] * normed.z[i];
      out.dbias[i] += slope[i];
    }
  }
  return out;
}

}  // namespace tril::reference
