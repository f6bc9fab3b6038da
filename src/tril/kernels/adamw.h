// One step of AdamW (Loshchilov and Hutter, arXiv 1711.05101).
//
//   g = factor gradient
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   w = w - rate (m / correction1 / (sqrt(v / correction2) + epsilon) + decay w)
//
// Elementwise, so the number of threads cannot matter. Order: m = fma(g, 1-beta1, m beta1), v
// likewise; the step is (m / correction1) / (sqrt(v / correction2) + epsilon), then fma(w, decay,
// step), then fnma(rate, that, w). Kernels neither allocate, throw nor log.
#pragma once

#include <cstdint>

#include "tril/base/parallel.h"

namespace tril::kernels {

struct AdamW {
  float rate = 0.0f;
  float beta1 = 0.9f;
  float beta2 = 0.98f;
  float epsilon = 1e-9f;
  float decay = 0.0f;
  float correction1 = 1.0f;  // 1 - beta1^t
  float correction2 = 1.0f;  // 1 - beta2^t
  float factor = 1.0f;       // clipping
};
void adamw(const Parallel& parallel, const AdamW& args, int64_t size, const float* gradient,
           float* m, float* v, float* w);

}  // namespace tril::kernels
