#include "schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "report.h"

namespace load {
namespace {

constexpr int kCount = 100'000;

std::vector<double> arrivals(double rate, uint64_t seed) {
  PoissonArrivals process(rate, seed);
  std::vector<double> times;
  for (int i = 0; i < kCount; ++i) times.push_back(process.next());
  return times;
}

// Bounds of five standard deviations, or of one in a million.
TEST(PoissonArrivals, ComeAtTheRate) {
  const auto times = arrivals(200, 1);
  EXPECT_NEAR(kCount / times.back(), 200, 5 * 200 / std::sqrt(kCount));
}

TEST(PoissonArrivals, GapsAreExponential) {
  auto gaps = arrivals(200, 2);
  std::adjacent_difference(gaps.begin(), gaps.end(), gaps.begin());
  std::sort(gaps.begin(), gaps.end());
  double farthest = 0;  // Kolmogorov and Smirnov's
  for (int i = 0; i < kCount; ++i) {
    const double below = -std::expm1(-200 * gaps[size_t(i)]);
    farthest = std::max(
        {farthest, std::abs(below - double(i) / kCount), std::abs(below - double(i + 1) / kCount)});
  }
  EXPECT_LT(farthest, 2.7 / std::sqrt(kCount));
}

TEST(PoissonArrivals, NumbersInAnIntervalVaryAsTheyShould) {
  const auto times = arrivals(50, 3);
  std::vector<double> counts(size_t(times.back()));
  for (const double time : times) {
    if (time < double(counts.size())) ++counts[size_t(time)];
  }
  double variance = 0;
  for (const double count : counts) variance += (count - 50) * (count - 50) / double(counts.size());
  // A Poisson number's variance is its mean; the estimate's own deviation is about 50 sqrt(2 / n).
  EXPECT_NEAR(variance, 50, 5 * 50 * std::sqrt(2 / double(counts.size())));
}

TEST(PoissonArrivals, AreTheSameForTheSameSeed) {
  EXPECT_EQ(arrivals(200, 4), arrivals(200, 4));
  EXPECT_NE(arrivals(200, 4), arrivals(200, 5));
  // Another rate stretches the same plan.
  const auto slow = arrivals(100, 4), fast = arrivals(200, 4);
  for (size_t i = 0; i < slow.size(); i += 1000) EXPECT_NEAR(slow[i], 2 * fast[i], 1e-9 * slow[i]);
}

TEST(Choice, KeepsToItsShares) {
  const Mixture mixture = {
      .seed = 7, .options = 4, .stream = 0.3, .cancel = 0.1, .cancel_within = 2};
  double options[4] = {}, stream = 0, cancel = 0, reset = 0, after = 0, both = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    const Choice choice = choose(mixture, i);
    ASSERT_LT(choice.options, 4u);
    options[choice.options] += 1;
    stream += choice.stream;
    cancel += choice.cancel;
    reset += choice.reset;
    both += choice.stream && choice.cancel;
    after += choice.cancel_after;
  }
  const double deviation = 5 * std::sqrt(0.25 / kCount);
  for (const double count : options) EXPECT_NEAR(count / kCount, 0.25, deviation);
  EXPECT_NEAR(stream / kCount, 0.3, deviation);
  EXPECT_NEAR(cancel / kCount, 0.1, deviation);
  EXPECT_NEAR(reset / kCount, 0.5, deviation);
  EXPECT_NEAR(both / kCount, 0.03, deviation);
  EXPECT_NEAR(after / kCount, 1, 5 * 0.6 / std::sqrt(kCount));
}

TEST(Percentile, IsAValueThatOccurred) {
  std::vector<double> values;
  for (int i = 100; i > 0; --i) values.push_back(i);
  EXPECT_EQ(percentile(values, 0.5), 50);
  EXPECT_EQ(percentile(values, 0.99), 99);
  EXPECT_EQ(percentile(values, 1), 100);
  EXPECT_EQ(percentile(values, 0), 1);
  std::vector<double> one = {3}, none;
  EXPECT_EQ(percentile(one, 0.5), 3);
  EXPECT_EQ(percentile(none, 0.5), 0);
}

}  // namespace
}  // namespace load
