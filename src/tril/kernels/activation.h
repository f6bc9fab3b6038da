// Activations and their gated forms, elementwise.
//
//   relu(x) = max(x, 0);  gelu(x) = x/2 (1 + erf(x/sqrt 2));  silu(x) = x / (1 + e^-x)
//   gelu-tanh(x) = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
//   gated: y = activation(gate) x
//
// gelu is exact; gelu-tanh is its approximation by tanh (both Hendrycks and Gimpel, arXiv
// 1606.08415). Gated forms after Shazeer, arXiv 2002.05202. relu of NaN is NaN; its gradient at 0
// is 0. Value and slope of a finite number are finite. An output may be any of the inputs (the
// same array, not one that overlaps it). Kernels do not allocate, throw or log.
//
// Order, where every operation is rounded once, and erf and exp are those of cpu/simd-inl.h (on
// CUDA those of its library):
//   relu       value = x if x > 0 or NaN, slope = 1 if x > 0, else both are 0; of -0 the value is
//              -0 on the CPU, 0 on CUDA
//   gelu       c = fma(erf(x 0x1.6a09e6p-1), 0.5, 0.5);  d = exp((x x) -0.5) 0x1.988454p-2
//              value = x c;  slope = fma(x, d, c)
//   silu       s = 1 / (1 + exp(0 - x))
//              value = x s;  slope = s fma(x, 1 - s, 1)
//   gelu-tanh  q = min(x x, 1024);  z = x fma(q, 0x1.2444f2p-4, 0x1.988454p+0);  e = exp(0 - |z|)
//              more = 1 / (1 + e);  less = e more;  s = less if z < 0, else more
//              value = x s;  slope = fma(x fma(q, 0x1.b6676cp-3, 0x1.988454p+0), less more, s)
//   plain      y = value;  dx = dy slope
//   gated      y = value x;  dgate = (dy x) slope;  dx = dy value
#pragma once

#include <cstdint>

#include "tril/base/layer_types.h"
#include "tril/base/parallel.h"

namespace tril {
namespace kernels {

using Activation = ActivationType;

void activation_forward(const Parallel& parallel, Activation kind, int64_t size, const float* x,
                        float* y);
void activation_backward(const Parallel& parallel, Activation kind, int64_t size, const float* x,
                         const float* dy, float* dx);

void gated_forward(const Parallel& parallel, Activation kind, int64_t size, const float* gate,
                   const float* x, float* y);
void gated_backward(const Parallel& parallel, Activation kind, int64_t size, const float* gate,
                    const float* x, const float* dy, float* dgate, float* dx);

}  // namespace kernels
}  // namespace tril
