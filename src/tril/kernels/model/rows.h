// Order-exact models of the kernels that work row by row: norms, activations, lookups, rotary
// positions (kernels/norm.h, activation.h, embedding.h, rotary.h).
#pragma once

#include <cstdint>

#include "tril/kernels/activation.h"
#include "tril/kernels/model/functions.h"
#include "tril/kernels/norm.h"
#include "tril/kernels/rotary.h"

namespace tril::kernels::model {

// Calls f(lane, index) for 16 lanes of each group of a row, with index -1 past its end.
template <class F>
void for_each_lane(int64_t columns, const F& f) {
  for (int64_t group = 0; group < columns; group += kVirtualLanes) {
    for (int64_t lane = 0; lane < kVirtualLanes; ++lane) {
      f(static_cast<size_t>(lane), group + lane < columns ? group + lane : -1);
    }
  }
}

template <class T>
struct NormOf {
  NormKind kind = NormKind::layer;
  int64_t columns = 0;
  float epsilon = 1e-5f;
  const T* weight = nullptr;
  const T* bias = nullptr;  // or none
};
// Sums over a row on the CPU: next(sum, i) adds element i to a lane's sum, or nothing if i is -1.
struct SixteenLanes {
  template <class T, class Next>
  static T sum(int64_t columns, const Next& next) {
    Lanes<T> lanes = lanes_of<T>(0.0f);
    for_each_lane(columns, [&](size_t lane, int64_t i) { lanes[lane] = next(lanes[lane], i); });
    return sum_of(lanes);
  }
};

// y may be x; stats, if any, are the mean and r. `Sums` is the order of the two sums over the row.
template <class Sums, class T>
void norm_row_by(const NormOf<T>& n, const T* x, T* y, T* stats = nullptr) {
  const T zero = constant<T>(0.0f);
  const T inverse_columns = constant<T>(1.0f / static_cast<float>(n.columns));
  T mean = zero;
  if (n.kind == NormKind::layer) {
    const T sum = Sums::template sum<T>(
        n.columns, [&](const T& so_far, int64_t i) { return add(so_far, i < 0 ? zero : x[i]); });
    mean = multiply(sum, inverse_columns);
  }
  const T squares = Sums::template sum<T>(n.columns, [&](const T& so_far, int64_t i) {
    const T centred = i < 0 ? zero : subtract(x[i], mean);
    return fma(centred, centred, so_far);
  });
  const T r = divide(constant<T>(1.0f),
                     square_root(add(multiply(squares, inverse_columns), constant<T>(n.epsilon))));
  for (int64_t i = 0; i < n.columns; ++i) {
    const T normed = multiply(subtract(x[i], mean), r);
    y[i] = n.bias == nullptr ? multiply(normed, n.weight[i]) : fma(normed, n.weight[i], n.bias[i]);
  }
  if (stats != nullptr) {
    stats[0] = mean;
    stats[1] = r;
  }
}
template <class T>
void norm_row(const NormOf<T>& n, const T* x, T* y, T* stats = nullptr) {
  norm_row_by<SixteenLanes>(n, x, y, stats);
}

template <class T>
T activated(Activation kind, const T& x) {
  const T zero = constant<T>(0.0f);
  switch (kind) {
    case Activation::relu: return select(greater(zero, x), zero, x);
    case Activation::gelu: {
      const T half = constant<T>(0.5f);
      const T scaled = multiply(x, constant<T>(0x1.6a09e6p-1f));
      return multiply(x, fma(error_function(scaled), half, half));
    }
    case Activation::silu: return multiply(x, sigmoid(x));
    case Activation::gelu_tanh: {
      const T one = constant<T>(1.0f);
      const T flat = constant<T>(1024.0f);
      const T whole = multiply(x, x);
      const T square = select(greater(whole, flat), flat, whole);
      const T z =
          multiply(x, fma(square, constant<T>(0x1.2444f2p-4f), constant<T>(0x1.988454p+0f)));
      const T e = exponential(subtract(zero, maximum(subtract(zero, z), z)));
      const T more = divide(one, add(one, e));
      return multiply(x, select(greater(zero, z), multiply(e, more), more));
    }
  }
  return x;
}
template <class T>
T gated(Activation kind, const T& gate, const T& x) {
  return multiply(activated(kind, gate), x);
}

// scale entry + position, or scale entry without one.
template <class T>
T embedded(const T& entry, float scale, const T* position) {
  const T factor = constant<T>(scale);
  return position == nullptr ? multiply(entry, factor) : fma(entry, factor, *position);
}

// One head of a row, or of its gradient (then T is a gradient's type, and the table's numbers are
// of the type Entry). `cosines` and `sines` are those of its position; y may be x.
template <class T, class Entry = T>
void rotated_head(int64_t head_dim, const float* cosines, const float* sines, const T* x, T* y,
                  Turn turn = Turn::forwards) {
  const int64_t half = head_dim / 2;
  const float sign = turn == Turn::forwards ? 1.0f : -1.0f;
  for (int64_t i = 0; i < half; ++i) {
    const Entry c = constant<Entry>(cosines[i]);
    const Entry s = multiply(constant<Entry>(sines[i]), constant<Entry>(sign));
    const T low = x[i];
    const T high = x[half + i];
    y[i] = fnma(high, s, multiply(low, c));
    y[half + i] = fma(low, s, multiply(high, c));
  }
}

}  // namespace tril::kernels::model
