#include "tril/kernels/activation.h"

#include "kernels/gradient_check.h"
#include "kernels/rows_support.h"
#include "tril/kernels/reference/activation.h"
#include "tril/ops/rows.h"

namespace tril::activation_test {
namespace {

using kernels::Activation;
using testing::context_here;
using testing::here;
using testing::kUnit;
using testing::random_floats;
using testing::same_bits;

constexpr Activation kKinds[] = {Activation::relu, Activation::gelu, Activation::silu,
                                 Activation::gelu_tanh};
static_assert(std::size(kKinds) == std::size(Words<Activation>::kList),
              "an activation without a test");
// One task does 16,384 elements: this gives every thread something.
constexpr int64_t kManyTasks = 5 * 16384 + 77;

struct Result {
  std::vector<float> y, dx, gated, dgate, dother;

  std::vector<float> all() const {
    std::vector<float> joined;
    for (const auto* part : {&y, &dx, &gated, &dgate, &dother}) {
      joined.insert(joined.end(), part->begin(), part->end());
    }
    return joined;
  }
};

// All four operations: x is the input of the plain ones and the gate of the gated ones.
Result run(Context& context, Activation kind, std::span<const float> x,
           std::span<const float> other, std::span<const float> dy) {
  const Shape shape = {static_cast<int64_t>(x.size())};
  const Tensor a = testing::activations_of(context, shape, x);
  const Tensor b = testing::activations_of(context, shape, other);
  const Tensor slope = testing::activations_of(context, shape, dy);
  const auto marked = [&](const auto& operation) {
    testing::mark_memory(context, 8 * shape.size());
    return operation();
  };
  using testing::taken;
  Result result;
  result.y = taken(marked([&] { return ops::activation(context, kind, a); }));
  result.dx = taken(marked([&] { return ops::activation_gradient(context, kind, a, slope); }));
  result.gated = taken(marked([&] { return ops::gated(context, kind, a, b); }));
  const auto gradients = marked([&] { return ops::gated_gradients(context, kind, a, b, slope); });
  result.dgate = taken(gradients.dgate);
  result.dother = taken(gradients.dx);
  return result;
}
Result run(Activation kind, std::span<const float> x, std::span<const float> other,
           std::span<const float> dy) {
  return run(context_here(), kind, x, other, dy);
}

// Uniform in [-range, range).
std::vector<float> spread(Random& random, int64_t count, float range) {
  std::vector<float> values = random_floats(random, count);
  for (float& value : values) value *= range;
  return here(values);
}
std::vector<float> unit_spread(Random& random, int64_t count) {
  return spread(random, count, 1.0f);
}

RC_GTEST_PROP(ActivationReference, GradientsAreThoseOfFiniteDifferences, ()) {
  Random random = testing::seeded();
  const Activation kind = *rc::gen::elementOf(std::vector(std::begin(kKinds), std::end(kKinds)));
  double gate = static_cast<double>(random.uniform(-5.0f, 5.0f));
  // relu has no derivative at 0: keep twice the widest step away.
  if (std::fabs(gate) < 4.0 * testing::difference_step(gate)) gate = 0.5;
  const double x = static_cast<double>(random.uniform(-1.0f, 1.0f));
  const double dy = static_cast<double>(random.uniform(-1.0f, 1.0f));
  // |activation(x)| <= |x| < 5, from about ten operations of which libm's are good to 1 unit.
  const std::vector<double> slopes = {dy};
  const double noise = testing::rounding_noise(slopes, 5.0, 10);
  const std::vector<double> plain = {dy * reference::activation_slope(kind, gate)};
  TRIL_HOLDS(testing::gradient_matches(
      [&](const auto& at) { return dy * reference::activation(kind, at[0]); }, {gate}, plain,
      noise));
  const auto g = reference::gated_gradients(kind, gate, x, dy);
  const std::vector<double> both = {g.dgate, g.dx};
  TRIL_HOLDS(testing::gradient_matches(
      [&](const auto& at) { return dy * reference::gated(kind, at[0], at[1]); }, {gate, x}, both,
      noise));
}

struct Error {
  double value, slope;
};

// Rounding errors, to first order in u = 2^-24.
Error rounding_error(Activation kind, double x) {
  const double size = std::fabs(x);
  const double value = std::fabs(reference::activation(kind, x));
  const double slope = std::fabs(reference::activation_slope(kind, x));
  if (kind == Activation::relu) return {0.0, 0.0};  // nothing is rounded
  if (kind == Activation::gelu) {
    // t = x / sqrt 2: a rounded constant and a product, 2u of t. Then erf, its half, and a sum.
    const double t = size / std::numbers::sqrt2;
    const double erf_slope = 2.0 * std::numbers::inv_sqrtpi * std::exp(-t * t);
    const double d_erf = erf_slope * testing::gamma(2) * t + testing::erf_absolute();
    const double d_cdf = d_erf / 2.0 + kUnit * reference::normal_cdf(x);
    // e^(-x²/2): the square is rounded; then a rounded constant and a product.
    const double density = reference::normal_density(x);
    const double d_density =
        testing::exp_error_here(density, kUnit * x * x / 2.0) + testing::gamma(2) * density;
    const double d_slope = size * d_density + d_cdf;
    return {size * d_cdf + kUnit * value + testing::kSmallestFloat,
            d_slope + kUnit * (slope + d_slope)};
  }
  if (kind == Activation::gelu_tanh) {
    // z: the square, the constants and the sum, and the product with x are rounded. The slope of z
    // likewise.
    const double z = reference::twice_u(x);
    const double inner = size * reference::twice_u_slope(x);
    const double e = std::exp(-std::fabs(z));
    const double d_e = testing::exp_error_here(e, testing::gamma(4) * std::fabs(z));
    // more = 1 / (1 + e), less = e more, and their product.
    const double more = reference::sigmoid(std::fabs(z));
    const double d_more = more * (d_e * more + testing::gamma(2));
    const double less = reference::sigmoid(-std::fabs(z));
    const double d_less = d_e * more + e * d_more + kUnit * less + testing::kSmallestFloat;
    const double d_both =
        d_less * more + less * d_more + kUnit * less * more + testing::kSmallestFloat;
    const double d_s = z < 0.0 ? d_less : d_more;
    const double d_slope =
        inner * d_both + testing::gamma(4) * inner * (less * more + d_both) + d_s;
    return {size * d_s + kUnit * value + testing::kSmallestFloat,
            d_slope + kUnit * (slope + d_slope)};
  }
  // silu. s = 1 / (1 + e): e is off by one exp, its weight in s is 1 - s; a sum and a division.
  // Where e overflows, s is 0 instead of something below 2^-126.
  const double s = reference::sigmoid(x);
  const double d_s = s * ((1.0 - s) * testing::exp_relative() + testing::gamma(2)) + 0x1p-126;
  const double inner = 1.0 + x * (1.0 - s);
  const double d_inner = size * (d_s + kUnit * (1.0 - s)) + kUnit * std::fabs(inner);
  return {size * d_s + kUnit * value,
          (std::fabs(inner) + d_inner) * d_s + s * d_inner + kUnit * slope};
}

RC_GTEST_PROP(Activation, IsTheReferenceWithinRounding, ()) {
  Random random = testing::seeded();
  const auto size = *rc::gen::inRange<int64_t>(0, 150);
  const auto range = *rc::gen::element(1.0f, 8.0f, 200.0f);
  const std::vector<float> x = spread(random, size, range);
  const std::vector<float> other = unit_spread(random, size);
  const std::vector<float> dy = unit_spread(random, size);
  for (const Activation kind : kKinds) {
    const Result result = run(kind, x, other, dy);
    std::vector<double> y, dx, gated, dgate, dother;
    std::vector<double> y_bound, dx_bound, gated_bound, dgate_bound, dother_bound;
    const auto expect = [](double value, double error, int roundings, std::vector<double>& values,
                           std::vector<double>& bounds) {
      values.push_back(value);
      const double total = error + testing::gamma(roundings) * (std::fabs(value) + error) +
                           roundings * testing::kSmallestFloat;
      bounds.push_back(testing::stored(value, total));
    };
    for (int64_t i = 0; i < size; ++i) {
      const auto at = static_cast<double>(x[i]);
      const auto gate_of = static_cast<double>(other[i]);
      const auto slope = static_cast<double>(dy[i]);
      const Error error = rounding_error(kind, at);
      const double value = reference::activation(kind, at);
      const double derivative = reference::activation_slope(kind, at);
      const auto g = reference::gated_gradients(kind, at, gate_of, slope);
      expect(value, error.value, 0, y, y_bound);
      expect(slope * derivative, std::fabs(slope) * error.slope, 1, dx, dx_bound);
      expect(reference::gated(kind, at, gate_of), std::fabs(gate_of) * error.value, 1, gated,
             gated_bound);
      expect(g.dgate, std::fabs(slope * gate_of) * error.slope, 2, dgate, dgate_bound);
      expect(g.dx, std::fabs(slope) * error.value, 1, dother, dother_bound);
    }
    TRIL_HOLDS(testing::within(result.y, y, y_bound));
    TRIL_HOLDS(testing::within(result.dx, dx, dx_bound));
    TRIL_HOLDS(testing::within(result.gated, gated, gated_bound));
    TRIL_HOLDS(testing::within(result.dgate, dgate, dgate_bound));
    TRIL_HOLDS(testing::within(result.dother, dother, dother_bound));
  }
}

TEST(Activation, ThreadsAndTargetsChangeNothing) {
  Random random(1);
  for (const Activation kind : kKinds) {
    for (const int64_t size : {int64_t{1}, int64_t{133}, kManyTasks}) {
      const std::vector<float> x = spread(random, size, 10.0f);
      const std::vector<float> other = unit_spread(random, size);
      const std::vector<float> dy = unit_spread(random, size);
      EXPECT_TRUE(testing::same_again(
          [&](Context& context) { return run(context, kind, x, other, dy).all(); }));
    }
  }
}

// An element's bits do not depend on its place: alone, in any lane, or in the tail.
TEST(Activation, AnElementDependsOnItselfOnly) {
  Random random(2);
  const std::vector<float> x = spread(random, 83, 5.0f);
  const std::vector<float> other = unit_spread(random, 83);
  const std::vector<float> dy = unit_spread(random, 83);
  for (const Activation kind : kKinds) {
    const Result whole = run(kind, x, other, dy);
    for (size_t i = 0; i < x.size(); ++i) {
      const Result alone = run(kind, {&x[i], 1}, {&other[i], 1}, {&dy[i], 1});
      EXPECT_TRUE(same_bits(alone.all(), std::vector<float>{whole.y[i], whole.dx[i], whole.gated[i],
                                                            whole.dgate[i], whole.dother[i]}));
    }
  }
}

TEST(Activation, ReluAtZeroAndNan) {
  // The smallest that either type has.
  const float tiny = testing::activations() == DType::f32 ? 0x1p-149f : 0x1p-133f;
  const std::vector<float> x = {-1.0f, 0.0f, NAN, 2.0f, -INFINITY, INFINITY, -tiny, tiny};
  const std::vector<float> ones(x.size(), 1.0f);
  const Result result = run(Activation::relu, x, ones, ones);
  const std::vector<float> y = {0.0f, 0.0f, NAN, 2.0f, 0.0f, INFINITY, 0.0f, tiny};
  const std::vector<float> slope = {0.0f, 0.0f, 0.0f, 1.0f, 0.0f, 1.0f, 0.0f, 1.0f};
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i])) {
      EXPECT_TRUE(std::isnan(result.y[i]));
      EXPECT_TRUE(std::isnan(result.gated[i]));
    } else {
      EXPECT_TRUE(testing::same_float(result.y[i], y[i])) << x[i];
      EXPECT_TRUE(testing::same_float(result.gated[i], y[i])) << x[i];
      EXPECT_TRUE(testing::same_float(result.dx[i], slope[i])) << x[i];
    }
  }
}

TEST(Activation, NanStaysInItsElement) {
  Random random(3);
  std::vector<float> x = spread(random, 40, 5.0f);
  const std::vector<float> ones(x.size(), 1.0f);
  for (const Activation kind : kKinds) {
    const std::vector<float> clean = run(kind, x, ones, ones).y;
    std::vector<float> dirty = x;
    dirty[21] = NAN;
    std::vector<float> y = run(kind, dirty, ones, ones).y;
    EXPECT_TRUE(std::isnan(y[21]));
    y[21] = clean[21];
    EXPECT_TRUE(same_bits(y, clean));
  }
}

TEST(Activation, LimitsAreExact) {
  const float huge = 0x1p100f;  // its square is infinite
  const std::vector<float> x = {100.0f, -100.0f, 0.0f, huge, -huge};
  const std::vector<float> ones(x.size(), 1.0f);
  for (const Activation kind : kKinds) {
    const Result result = run(kind, x, ones, ones);
    EXPECT_EQ(result.y, (std::vector<float>{100.0f, 0.0f, 0.0f, huge, 0.0f}));
    EXPECT_EQ(result.dx[0], 1.0f);
    EXPECT_EQ(result.dx[1], 0.0f);
    EXPECT_EQ(result.dx[2], kind == Activation::relu ? 0.0f : 0.5f);
    EXPECT_EQ(result.dx[3], 1.0f);
    EXPECT_EQ(result.dx[4], 0.0f);
  }
}

TEST(Activation, WorksInPlace) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << "operations on a device give new memory";
  Random random(4);
  const std::vector<float> x = spread(random, 77, 5.0f);
  const std::vector<float> other = unit_spread(random, 77);
  const std::vector<float> dy = unit_spread(random, 77);
  for (const Activation kind : kKinds) {
    const Result expected = run(kind, x, other, dy);
    std::vector<float> a = x;
    kernels::activation_forward(Parallel(1), kind, 77, a.data(), a.data());
    EXPECT_TRUE(same_bits(a, expected.y));
    a = dy;
    kernels::activation_backward(Parallel(1), kind, 77, x.data(), a.data(), a.data());
    EXPECT_TRUE(same_bits(a, expected.dx));
    a = x;
    kernels::gated_forward(Parallel(1), kind, 77, a.data(), other.data(), a.data());
    EXPECT_TRUE(same_bits(a, expected.gated));
    a = x;
    std::vector<float> b = other;
    kernels::gated_backward(Parallel(1), kind, 77, a.data(), b.data(), dy.data(), a.data(),
                            b.data());
    EXPECT_TRUE(same_bits(a, expected.dgate));
    EXPECT_TRUE(same_bits(b, expected.dother));
  }
}

}  // namespace
}  // namespace tril::activation_test
