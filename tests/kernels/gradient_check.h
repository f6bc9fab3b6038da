// Gradients against central finite differences in double.
//
// With step h the difference D(h) = (f(x + h) - f(x - h)) / 2h is wrong by two things:
//  - truncation, h² f''' / 6 + O(h⁴). D(2h) has four times as much, so |D(2h) - D(h)| is three
//    times the truncation of D(h), measured and not guessed;
//  - rounding: where f itself is off by `noise`, D(h) is off by noise / h.
// h = cbrt(epsilon) max(1, |x|) makes both of the order epsilon^(2/3). The tolerance is their sum;
// D(2h) adds half as much rounding to the measured truncation.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace tril::testing {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

inline double difference_step(double x) {
  return std::cbrt(kEpsilon) * std::max(1.0, std::fabs(x));
}

// `gradient` must be that of f(x), f a function of a vector of doubles. `noise` bounds the rounding
// error of one value of f: see rounding_noise().
template <class F>
::testing::AssertionResult gradient_matches(const F& f, std::vector<double> x,
                                            std::span<const double> gradient, double noise) {
  if (x.size() != gradient.size()) {
    return ::testing::AssertionFailure()
           << x.size() << " inputs, " << gradient.size() << " derivatives";
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    const double step = difference_step(at);
    const auto difference = [&](double h) {
      x[i] = at + h;
      const double above = f(x);
      x[i] = at - h;
      const double below = f(x);
      x[i] = at;
      return (above - below) / (2.0 * h);
    };
    const double narrow = difference(step);
    const double wide = difference(2.0 * step);
    const double tolerance = std::fabs(wide - narrow) + 1.5 * noise / step;
    if (!(std::fabs(narrow - gradient[i]) <= tolerance)) {  // also for NaN
      return ::testing::AssertionFailure()
             << "derivative " << i << " of " << x.size() << " is " << gradient[i]
             << ", finite differences say " << narrow << " within " << tolerance;
    }
  }
  return ::testing::AssertionSuccess();
}

// The loss whose gradient by y is dy: the sum of y dy.
inline double weighted_sum(std::span<const double> y, std::span<const double> dy) {
  double sum = 0.0;
  for (size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
  return sum;
}

// A bound on the rounding error of weighted_sum(y, dy) where no intermediate value of y exceeds
// `largest` and each y comes from at most `operations` of them: Higham's gamma, to first order,
// times the sum of absolute values.
inline double rounding_noise(std::span<const double> dy, double largest, int64_t operations) {
  double sum = 0.0;
  for (const double slope : dy) sum += std::fabs(slope) * largest;
  return kEpsilon * static_cast<double>(operations + static_cast<int64_t>(dy.size())) * sum;
}

}  // namespace tril::testing
