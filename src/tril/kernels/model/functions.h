// The functions that kernels are made of, operation by operation as in kernels/cpu/simd-inl.h.
#pragma once

#include <array>
#include <limits>

#include "tril/kernels/model/arithmetic.h"

namespace tril::kernels::model {

constexpr int64_t kVirtualLanes = 16;
template <class T>
using Lanes = std::array<T, kVirtualLanes>;

template <class T>
Lanes<T> lanes_of(float value) {
  Lanes<T> lanes;
  lanes.fill(constant<T>(value));
  return lanes;
}

// Folds 16 lanes into one by halving: i with i + 8, i + 4, i + 2, i + 1. The last two levels may
// join differently (the largest of four is std::max's).
template <class T, class Join, class Last>
T folded(Lanes<T> lanes, const Join& join, const Last& last) {
  for (size_t half = 8; half >= 4; half /= 2) {
    for (size_t i = 0; i < half; ++i) lanes[i] = join(lanes[i], lanes[i + half]);
  }
  return last(last(lanes[0], lanes[2]), last(lanes[1], lanes[3]));
}
template <class T>
T sum_of(const Lanes<T>& lanes) {
  const auto join = [](const T& a, const T& b) { return add(a, b); };
  return folded(lanes, join, join);
}
template <class T>
T largest_of(const Lanes<T>& lanes) {
  return folded(
      lanes, [](const T& a, const T& b) { return maximum(a, b); },
      [](const T& a, const T& b) { return larger(a, b); });
}

// e^x
template <class T>
T exponential(T x) {
  const auto c = [](float value) { return constant<T>(value); };
  x = minimum(c(89.0f), maximum(c(-104.0f), x));
  const T n = round(multiply(x, c(0x1.715476p+0f)));
  T r = fnma(n, c(0x1.62e400p-1f), x);
  r = fnma(n, c(0x1.7f7d1cp-20f), r);
  T q = c(0x1.6db414p-10f);
  for (const float next : {0x1.123b46p-7f, 0x1.55545ep-5f, 0x1.555490p-3f, 0.5f}) {
    q = fma(q, r, c(next));
  }
  const T e = add(fma(multiply(r, r), q, r), c(1.0f));
  return scale_by_power(e, n);
}

template <class T>
T error_function(const T& x) {
  const auto c = [](float value) { return constant<T>(value); };
  const T square = multiply(x, x);
  T p = c(0x1.4ae4d0p-14f);
  for (const float next : {-0x1.a485ecp-11f, 0x1.5419f6p-8f, -0x1.b7fbb4p-6f, 0x1.ce2d20p-4f,
                           -0x1.81273ep-2f, 0x1.06eba8p-3f}) {
    p = fma(p, square, c(next));
  }
  const T small = fma(x, p, x);
  const T t = minimum(c(4.0f), magnitude(x));
  T g = c(0x1.057a88p-22f);
  for (const float next : {-0x1.a6cf38p-16f, 0x1.e5937cp-12f, -0x1.187d12p-8f, 0x1.9fa244p-6f,
                           -0x1.bcf4cep-4f, -0x1.441e8ap-1f, -0x1.21314cp+0f, 0x1.ab7152p-13f}) {
    g = fma(g, t, c(next));
  }
  const T large = copy_sign(subtract(c(1.0f), exponential(g)), x);
  return select(greater(c(1.0f), magnitude(x)), small, large);
}

// 1 / (1 + e^-x)
template <class T>
T sigmoid(const T& x) {
  const T one = constant<T>(1.0f);
  return divide(one, add(one, exponential(subtract(constant<T>(0.0f), x))));
}

}  // namespace tril::kernels::model
