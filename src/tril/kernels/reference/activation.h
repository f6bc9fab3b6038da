// Activations and their gated forms, for tests and explanation.
//
//   relu(x) = max(x, 0)               relu'(x) = [x > 0]
//   gelu(x) = x F(x)                  gelu'(x) = F(x) + x f(x)
//     F(x) = (1 + erf(x / sqrt 2)) / 2, the normal distribution; f(x) = e^(-x²/2) / sqrt(2 pi)
//   silu(x) = x s(x)                  silu'(x) = s(x) (1 + x (1 - s(x)))
//     s(x) = 1 / (1 + e^-x)
//   gelu-tanh(x) = x/2 (1 + tanh u)   gelu-tanh'(x) = (1 + tanh u)/2 + x/2 (1 - tanh² u) u'
//     u = sqrt(2/pi) (x + 0.044715 x³), u' = sqrt(2/pi) (1 + 3 · 0.044715 x²); with s as above,
//     (1 + tanh u)/2 = s(2u) and (1 - tanh² u)/2 = 2 s(2u) s(-2u)
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

constexpr double kTanhCubic = 0.044715;  // of gelu-tanh, as published
// 2u and 2u'.
template <class T>
T twice_u(T x) {
  return 2 * std::numbers::sqrt2_v<T> * std::numbers::inv_sqrtpi_v<T> *
         (x + T(kTanhCubic) * x * x * x);
}
template <class T>
T twice_u_slope(T x) {
  return 2 * std::numbers::sqrt2_v<T> * std::numbers::inv_sqrtpi_v<T> *
         (1 + 3 * T(kTanhCubic) * x * x);
}

template <class T>
T activation(kernels::Activation kind, T x) {
  switch (kind) {
    case kernels::Activation::relu: return x < 0 ? T(0) : x;
    case kernels::Activation::gelu: return x * normal_cdf(x);
    case kernels::Activation::silu: return x * sigmoid(x);
    case kernels::Activation::gelu_tanh: break;
  }
  return x * sigmoid(twice_u(x));
}

template <class T>
T activation_slope(kernels::Activation kind, T x) {
  switch (kind) {
    case kernels::Activation::relu: return x > 0 ? T(1) : T(0);
    case kernels::Activation::gelu: return normal_cdf(x) + x * normal_density(x);
    case kernels::Activation::silu: return sigmoid(x) * (1 + x * sigmoid(-x));  // 1 - s(x) = s(-x)
    case kernels::Activation::gelu_tanh: break;
  }
  const T s = sigmoid(twice_u(x));
  return s + x * s * sigmoid(-twice_u(x)) * twice_u_slope(x);
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
