// Activations and their gated forms, elementwise.
//
//   relu(x) = max(x, 0);  gelu(x) = x/2 (1 + erf(x/sqrt 2));  silu(x) = x / (1 + e^-x)
//   gated: y = activation(gate) x
//
// Exact gelu, not its tanh approximation (Hendrycks and Gimpel, arXiv 1606.08415); gated forms
// after Shazeer, arXiv 2002.05202. relu of NaN is NaN; its gradient at 0 is 0. Outputs may be the
// inputs of the same index. Kernels neither allocate, throw nor log.
#pragma once

#include <cstdint>

#include "tril/base/parallel.h"
#include "tril/base/words.h"

namespace tril {

namespace kernels {
enum class Activation { relu, gelu, silu };
}
template <>
struct Words<kernels::Activation> {
  static constexpr std::string_view kList[] = {"relu", "gelu", "silu"};
};

namespace kernels {

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
