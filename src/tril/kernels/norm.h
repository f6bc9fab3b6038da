// Layer norm and RMS norm over the last axis.
//
//   layer: y = (x - mean) r w + b,  r = 1 / sqrt(mean of (x - mean)^2 + epsilon)
//   rms:   y = x r w,               r = 1 / sqrt(mean of x^2 + epsilon)
//
// Order: means are sums over 16 virtual lanes (element i to lane i mod 16, ascending, missing ones
// zero), folded by halving, times 1/columns. y is fma((x - mean) r, w, b). Gradients of w and b are
// sums over tokens in slices of kTokenSlice rows, added to zero ascending (so never -0).
// Ba et al., arXiv 1607.06450; Zhang and Sennrich, arXiv 1910.07467.
// y may be x. A row depends on that row only. Kernels neither allocate, throw nor log.
#pragma once

#include <cstdint>

#include "tril/base/layer_types.h"
#include "tril/base/parallel.h"

namespace tril {
namespace kernels {

using NormKind = NormType;

struct Norm {
  NormKind kind = NormKind::layer;
  int64_t rows = 0;
  int64_t columns = 0;
  float epsilon = 1e-5f;
  const float* weight = nullptr;  // [columns]
  const float* bias = nullptr;    // [columns]; null for rms
};

// stats [rows, 2]: mean (0 for rms) and r, for the backward pass.
void norm_forward(const Parallel& parallel, const Norm& norm, const float* x, float* y,
                  float* stats);
// dweight and dbias [columns] (dbias null for rms).
void norm_backward(const Parallel& parallel, const Norm& norm, const float* x, const float* stats,
                   const float* dy, float* dx, float* dweight, float* dbias);

}  // namespace kernels
}  // namespace tril
