#include "tril/base/math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#ifdef __FAST_MATH__
#error "fast-math makes other functions of these: see cmake/options.cmake"
#endif

namespace tril::math {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Adding and subtracting 1.5 * 2^52 rounds to the nearest integer in the current (nearest) mode.
double round_to_integer(double x) {
  constexpr double kShift = 6755399441055744.0;
  const volatile double shifted = x + kShift;
  return shifted - kShift;
}

// 2^n for n in [-1022, 1023].
double power_of_two(int64_t n) {
  return std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52);
}

// sum of coefficient[i] x^i by Horner's rule, from the highest down.
template <int kCount>
double polynomial(const double (&coefficient)[kCount], double x) {
  double sum = coefficient[kCount - 1];
  for (int i = kCount - 2; i >= 0; --i) sum = sum * x + coefficient[i];
  return sum;
}

// The leading parts have trailing zero bits, so that n times each is exact for |n| < 2^20.
constexpr double kLn2High = 0x1.62e42fefa0000p-1;
constexpr double kLn2Low = 0x1.cf79abc9e3b3ap-40;
constexpr double kHalfPi1 = 0x1.921fb54400000p+0;
constexpr double kHalfPi2 = 0x1.0b4611a600000p-34;
constexpr double kHalfPi3 = 0x1.3198a2e037073p-69;

// Taylor coefficients in r^2; |r| <= pi/4 makes the first term left out less than 2^-53.
constexpr double kSine[] = {1.0,
                            -1.0 / 6,
                            1.0 / 120,
                            -1.0 / 5040,
                            1.0 / 362880,
                            -1.0 / 39916800,
                            1.0 / 6227020800.0,
                            -1.0 / 1307674368000.0,
                            1.0 / 355687428096000.0};
constexpr double kCosine[] = {1.0,
                              -1.0 / 2,
                              1.0 / 24,
                              -1.0 / 720,
                              1.0 / 40320,
                              -1.0 / 3628800,
                              1.0 / 479001600.0,
                              -1.0 / 87178291200.0,
                              1.0 / 20922789888000.0};

// sin(x + quarter_turns * pi/2).
double sine_shifted(double x, int64_t quarter_turns) {
  if (!(std::fabs(x) <= 0x1p27)) return kNaN;
  const double turns = round_to_integer(x * (2.0 / kPi));
  double r = x - turns * kHalfPi1;
  r = r - turns * kHalfPi2;
  r = r - turns * kHalfPi3;
  const double square = r * r;
  const int64_t quadrant = (static_cast<int64_t>(turns) + quarter_turns) & 3;
  const double value =
      (quadrant & 1) != 0 ? polynomial(kCosine, square) : r * polynomial(kSine, square);
  return (quadrant & 2) != 0 ? -value : value;
}

}  // namespace

double exp(double x) {
  if (std::isnan(x)) return x;
  if (x > 709.79) return kInfinity;
  if (x < -745.2) return 0.0;
  constexpr double kLog2E = 1.44269504088896340736;
  const double n = round_to_integer(x * kLog2E);
  const double r = (x - n * kLn2High) - n * kLn2Low;
  constexpr double kCoefficient[] = {1.0,
                                     1.0,
                                     1.0 / 2,
                                     1.0 / 6,
                                     1.0 / 24,
                                     1.0 / 120,
                                     1.0 / 720,
                                     1.0 / 5040,
                                     1.0 / 40320,
                                     1.0 / 362880,
                                     1.0 / 3628800,
                                     1.0 / 39916800,
                                     1.0 / 479001600.0,
                                     1.0 / 6227020800.0};
  // Two factors, so that a result near the end of the range passes through no overflow and a
  // subnormal one is rounded once.
  const auto whole = static_cast<int64_t>(n);
  const int64_t half = whole / 2;
  return polynomial(kCoefficient, r) * power_of_two(half) * power_of_two(whole - half);
}

double log(double x) {
  if (std::isnan(x) || x < 0.0) return kNaN;
  if (x == 0.0) return -kInfinity;
  if (x == kInfinity) return kInfinity;
  double exponent = 0.0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    exponent = -54.0;
  }
  auto bits = std::bit_cast<uint64_t>(x);
  exponent += static_cast<double>(static_cast<int64_t>(bits >> 52) - 1023);
  bits = (bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL;
  double mantissa = std::bit_cast<double>(bits);
  if (mantissa > 1.41421356237309504880) {
    mantissa *= 0.5;
    exponent += 1.0;
  }
  // log m = 2 artanh((m-1)/(m+1)); |s| <= 0.1716, and s^22/23 is below 2^-53.
  const double f = mantissa - 1.0;
  const double s = f / (2.0 + f);
  constexpr double kCoefficient[] = {0.0,      1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9, 1.0 / 11,
                                     1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21};
  const double square = s * s;
  const double tail = 2.0 * s * polynomial(kCoefficient, square);
  // 2 s = f - s f, exactly where it matters: keeps the rounding of s out of the leading term.
  return exponent * kLn2High + (exponent * kLn2Low + (f - (s * f - tail)));
}

double sin(double x) { return sine_shifted(x, 0); }
double cos(double x) { return sine_shifted(x, 1); }
double pow(double x, double y) { return exp(y * log(x)); }

}  // namespace tril::math
