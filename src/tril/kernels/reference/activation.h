// Activations and their gated forms, for tests and explanation.
//
//   relu(x) = max(x, 0)               relu'(x) = [x > 0]
//   gelu(x) = x F(x)                  gelu'(x) = F(x) + x f(x)
//     F(x) = (1 + erf(x / sqrt 2)) / 2, the normal distribution; f(x) = e^(-x²/2) / sqrt(2 pi)
//   silu(x) = x s(x)                  silu'(x) = s(x) (1 + x (1 - s(x)))
//     s(x) = 1 / (1 + e^-x)
//   gated: y = activation(gate) x;  dgate = dy x activation'(gate);  dx = dy activation(gate)
//
// Elementwise, so one number in and one out. A template in any precision; kernels/activation.h has
// the papers.
#pragma once

#include <cmath>
#include <numbers>

#include "tril/kernels/activation.h"

namespace tril::reference {

template <class T>
T normal_cdf(T x) {
  return std::erfc(-x / std::numbers::sqrt2_v<T>) / 2;  // keeps its digits where it is small
}
template <class T>
T normal_density(T x) {
  return std::exp(-x * x / 2) * std::numbers::inv_sqrtpi_v<T> / std::numbers::sqrt2_v<T>;
}
template <class T>
T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}

template <class T>
T activation(kernels::Activation kind, T x) {
  switch (kind) {
    case kernels::Activation::relu: return x < 0 ? T(0) : x;
    case kernels::Activation::gelu: return x * normal_cdf(x);
    case kernels::Activation::silu: break;
  }
  return x * sigmoid(x);
}

template <class T>
T activation_slope(kernels::Activation kind, T x) {
  switch (kind) {
    case kernels::Activation::relu: return x > 0 ? T(1) : T(0);
    case kernels::Activation::gelu: return normal_cdf(x) + x * normal_density(x);
    case kernels::Activation::silu: break;
  }
  return sigmoid(x) * (1 + x * sigmoid(-x));  // 1 - s(x) = s(-x)
}

template <class T>
T gated(kernels::Activation kind, T gate, T x) {
  return activation(kind, gate) * x;
}

template <class T>
struct GatedGradients {
  T dgate, dx;
};

template <class T>
GatedGradients<T> gated_gradients(kernels::Activation kind, T gate, T x, T dy) {
  return {dy * x * activation_slope(kind, gate), dy * activation(kind, gate)};
}

}  // namespace tril::reference
