#include "tril/base/math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "tril/base/rng.h"

namespace tril::math_test {
namespace {

// Distance in units of the last place of the expected value.
double ulps(double actual, double expected) {
  if (actual == expected) return 0.0;
  const double unit = std::nextafter(std::fabs(expected), INFINITY) - std::fabs(expected);
  return std::fabs(actual - expected) / unit;
}

double worst_ulps(double (*ours)(double), double (*theirs)(double), double low, double high) {
  Random random(7);
  double worst = 0.0;
  for (int i = 0; i < 200000; ++i) {
    const double unit = (random.bits() + random.bits() * 0x1p-32) * 0x1p-32;
    const double x = low + (high - low) * unit;
    worst = std::max(worst, ulps(ours(x), theirs(x)));
  }
  return worst;
}

TEST(Math, AgreesWithLibmToTwoUnitsInTheLastPlace) {
  EXPECT_LE(worst_ulps(math::exp, std::exp, -700, 700), 2.0);
  EXPECT_LE(worst_ulps(math::log, std::log, 1e-300, 10.0), 2.0);
  EXPECT_LE(worst_ulps(math::log, std::log, 0.5, 2.0), 2.0);
}

TEST(Math, SineAndCosineHoldTheirAbsoluteError) {
  Random random(8);
  for (const double range : {1.0, 100.0, 40000.0}) {
    for (int i = 0; i < 100000; ++i) {
      const double x = range * (2.0 * static_cast<double>(random.uniform()) - 1.0);
      // 2 units in the last place of 1, plus the digits of pi that the reduced argument loses.
      const double bound = 0x1p-51 + std::fabs(x) * 0x1p-100;
      ASSERT_LE(std::fabs(math::sin(x) - std::sin(x)), bound) << x;
      ASSERT_LE(std::fabs(math::cos(x) - std::cos(x)), bound) << x;
    }
  }
}

TEST(Math, EdgesAreRight) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(math::exp(0.0), 1.0);
  EXPECT_EQ(math::exp(-1000.0), 0.0);
  EXPECT_EQ(math::exp(1000.0), kInfinity);
  EXPECT_EQ(math::exp(-745.0), std::exp(-745.0));  // subnormal
  EXPECT_EQ(math::log(1.0), 0.0);
  EXPECT_EQ(math::log(0.0), -kInfinity);
  EXPECT_EQ(math::log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(math::log(-1.0)));
  EXPECT_LE(ulps(math::log(5e-320), std::log(5e-320)), 2.0);
  EXPECT_TRUE(std::isnan(math::exp(std::nan(""))));
  EXPECT_EQ(math::sin(0.0), 0.0);
  EXPECT_EQ(math::cos(0.0), 1.0);
  EXPECT_TRUE(std::isnan(math::sin(1e300)));
  EXPECT_LE(ulps(math::pow(10000.0, -0.5), 0.01), 8.0);
}

// Golden bits: these numbers are in every table, schedule and initial weight, so they may never
// change with a compiler, an option or a machine.
TEST(Math, GoldenBits) {
  const auto bits = [](double x) { return std::bit_cast<uint64_t>(x); };
  EXPECT_EQ(bits(math::exp(1.0)), 0x4005bf0a8b14576au);
  EXPECT_EQ(bits(math::exp(-37.25)), 0x3c93278bcd70e981u);
  EXPECT_EQ(bits(math::log(3.0)), 0x3ff193ea7aad030bu);
  EXPECT_EQ(bits(math::sin(12345.678)), 0xbfe687d5890974a5u);
  EXPECT_EQ(bits(math::cos(0.7)), 0x3fe87996529f9d93u);
  EXPECT_EQ(bits(math::pow(10000.0, -0.25)), 0x3fb9999999999998u);
}

}  // namespace
}  // namespace tril::math_test
