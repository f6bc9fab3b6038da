// One step of AdamW for one weight (Loshchilov and Hutter, arXiv 1711.05101, algorithm 2), for
// tests and explanation.
//
//   g = factor gradient
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   w = w - rate (m / correction1 / (sqrt(v / correction2) + epsilon) + decay w)
//
// with correction1 = 1 - beta1^t and correction2 = 1 - beta2^t at step t = 1, 2, ...: then m and v
// divided by them are averages of g and g^2. A template in any precision.
#pragma once

#include <cmath>

#include "tril/kernels/adamw.h"

namespace tril::reference {

template <class T>
struct AdamWState {
  T m = 0;
  T v = 0;
  T w = 0;
};

// The constants are those of the kernel, taken as exact numbers.
template <class T>
AdamWState<T> adamw(const kernels::AdamW& args, T gradient, const AdamWState<T>& before) {
  const T beta1 = T(args.beta1);
  const T beta2 = T(args.beta2);
  const T g = T(args.factor) * gradient;
  AdamWState<T> after;
  after.m = beta1 * before.m + (1 - beta1) * g;
  after.v = beta2 * before.v + (1 - beta2) * g * g;
  const T step = (after.m / T(args.correction1)) /
                 (std::sqrt(after.v / T(args.correction2)) + T(args.epsilon));
  after.w = before.w - T(args.rate) * (step + T(args.decay) * before.w);
  return after;
}

}  // namespace tril::reference
