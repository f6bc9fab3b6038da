// Order-exact models of the loss and its gradient (kernels/cross_entropy.h).
//
// label.is(j) says whether the row's label is token j: a condition, which is a variable where
// numbers are expressions, so that a formula holds for every label. Whether a row has a label is no
// question to a number: callers know it.
#pragma once

#include <cstdint>

#include "tril/kernels/model/gradient.h"
#include "tril/kernels/model/rows.h"

namespace tril::kernels::model {

// log of the sum of e^x
template <class T>
T normaliser(const T* x, int64_t vocab) {
  const T zero = constant<T>(0.0f);
  const T lowest = constant<T>(-std::numeric_limits<float>::infinity());
  Lanes<T> largest = lanes_of<T>(-std::numeric_limits<float>::infinity());
  for_each_lane(vocab, [&](size_t lane, int64_t j) {
    largest[lane] = maximum(largest[lane], j < 0 ? lowest : x[j]);
  });
  const T top = largest_of(largest);
  Lanes<T> sums = lanes_of<T>(0.0f);
  for_each_lane(vocab, [&](size_t lane, int64_t j) {
    sums[lane] = add(sums[lane], j < 0 ? zero : exponential(subtract(x[j], top)));
  });
  return add(top, logarithm(sum_of(sums)));
}

// The loss of a row whose normaliser is `norm`.
template <class T, class Label>
T row_loss(const T* x, int64_t vocab, const Label& label, float smoothing, const T& norm) {
  T right = x[0];
  for (int64_t j = 1; j < vocab; ++j) right = select(label.is(j), x[j], right);
  if (smoothing == 0.0f) return subtract(norm, right);
  Lanes<T> sums = lanes_of<T>(0.0f);
  for_each_lane(vocab, [&](size_t lane, int64_t j) {
    sums[lane] = add(sums[lane], j < 0 ? constant<T>(0.0f) : x[j]);
  });
  const T mean = multiply(sum_of(sums), constant<T>(1.0f / static_cast<float>(vocab)));
  const T sharp = subtract(norm, multiply(constant<T>(1.0f - smoothing), right));
  return subtract(sharp, multiply(constant<T>(smoothing), mean));
}

// dx[j] for a loss whose own gradient is dtotal, times factor.
template <class T, class Label>
void row_loss_gradient(const T* x, int64_t vocab, const Label& label, float smoothing, float factor,
                       const T& dtotal, const T& norm, Gradient<T>* dx) {
  const T g = multiply(dtotal, constant<T>(factor));
  const T spread = constant<T>(smoothing / static_cast<float>(vocab));
  for (int64_t j = 0; j < vocab; ++j) {
    const T share = subtract(exponential(subtract(x[j], norm)), spread);
    const T right = subtract(share, constant<T>(1.0f - smoothing));
    dx[j] = select(label.is(j), multiply(right, g), multiply(share, g));
  }
}

// factor times the sum of the losses; that of a row without a label is zero.
template <class T>
Gradient<T> total_loss(const Gradient<T>* losses, int64_t rows, float factor) {
  auto sum = static_cast<Wide<T>>(nothing<Gradient<T>>());
  for (int64_t row = 0; row < rows; ++row) sum = add_in_double(sum, losses[row]);
  return times_in_double(sum, factor);
}

}  // namespace tril::kernels::model
