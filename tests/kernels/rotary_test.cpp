#include "tril/kernels/rotary.h"

#include "kernels/gradient_check.h"
#include "kernels/rows_support.h"
#include "tril/base/math.h"
#include "tril/kernels/reference/rotary.h"
#include "tril/ops/rows.h"

namespace tril::rotary_test {
namespace {

using kernels::Turn;
using testing::context_here;
using testing::doubles_of;
using testing::gamma;
using testing::Guarded;
using testing::here;
using testing::kEpsilon;
using testing::kUnit;
using testing::random_floats;
using testing::rows_of;
using testing::same_bits;

constexpr double kBase = 10000.0;
constexpr int64_t kPlaces = 150;

struct Case {
  int64_t rows = 0, heads = 0, head_dim = 0;
  std::vector<int32_t> positions;
  std::vector<float> table, x;

  Case(Random& random, int64_t row_count, int64_t head_count, int64_t half)
      : rows(row_count), heads(head_count), head_dim(2 * half) {
    table.resize(kPlaces * head_dim);
    kernels::fill_rotary_table(kPlaces, kernels::rotary_frequencies(head_dim, kBase),
                               kernels::Angles::exact, table.data());
    x = here(random_floats(random, rows * heads * head_dim));
    for (int64_t row = 0; row < rows; ++row) {
      positions.push_back(static_cast<int32_t>(random.below(static_cast<uint32_t>(kPlaces))));
    }
  }
  int64_t width() const { return heads * head_dim; }
  kernels::Rotary args() const {
    return {.rows = rows,
            .heads = heads,
            .head_dim = head_dim,
            .positions = positions.data(),
            .table = table.data()};
  }
};

std::vector<float> run(Context& context, const Case& c, Turn turn) {
  const Tensor x = testing::activations_of(context, {c.rows, c.heads, c.head_dim}, c.x);
  const Tensor table = testing::tensor_of(context.arena, {kPlaces, c.head_dim}, c.table);
  testing::mark_memory(context, 4 * x.size());
  return testing::taken(ops::rotary(context, turn, x, c.positions, table));
}
std::vector<float> run(const Case& c, Turn turn) { return run(context_here(), c, turn); }

Case any_case(Random& random) {
  return {random, *rc::gen::inRange<int64_t>(0, 40), *rc::gen::inRange<int64_t>(1, 6),
          *rc::gen::oneOf(rc::gen::inRange<int64_t>(1, 40), rc::gen::element<int64_t>(8, 32, 64))};
}

RC_GTEST_PROP(RotaryReference, GradientIsThatOfFiniteDifferences, ()) {
  Random random = testing::seeded();
  const Case c(random, *rc::gen::inRange<int64_t>(0, 4), *rc::gen::inRange<int64_t>(1, 3),
               *rc::gen::inRange<int64_t>(1, 4));
  const reference::RotarySizes n{c.heads, c.head_dim};
  const std::vector<double> table = reference::rotary_table(kPlaces, c.head_dim, kBase);
  const std::vector<double> x = doubles_of(c.x);
  const std::vector<double> dy = doubles_of(random_floats(random, static_cast<int64_t>(x.size())));
  // Two products of numbers below 1, and their sum.
  const double noise = testing::rounding_noise(dy, 2.0, 3);
  TRIL_HOLDS(testing::gradient_matches(
      [&](const auto& at) {
        return testing::weighted_sum(reference::rotary<double>(n, c.positions, table, at), dy);
      },
      x, reference::rotary_gradient<double>(n, c.positions, table, dy), noise));
}

// The table is the double rounded to fp32. The doubles themselves differ by the error of the angle:
// base^(-i/half) through libm and base/math.h, 2 units in the last place each of the power and its
// logarithm (times its size, log base) and of the sine.
RC_GTEST_PROP(RotaryTable, IsTheReferenceWithinRounding, ()) {
  const auto head_dim = 2 * *rc::gen::inRange<int64_t>(1, 40);
  const auto places = *rc::gen::inRange<int64_t>(0, kPlaces);
  const std::vector<double> expected = reference::rotary_table(places, head_dim, kBase);
  Guarded table(places * head_dim);
  kernels::fill_rotary_table(places, kernels::rotary_frequencies(head_dim, kBase),
                             kernels::Angles::exact, table.data());
  const double angle_error = static_cast<double>(places) * 4.0 * kEpsilon * (1.0 + std::log(kBase));
  std::vector<double> bound;
  for (const double value : expected) {
    bound.push_back(kUnit * std::fabs(value) + 2.0 * (angle_error + 2.0 * kEpsilon));
  }
  TRIL_HOLDS(testing::within(table.take(), expected, bound));
}

// And bit for bit from base/math.h, so that no libm decides a bit of it.
TEST(RotaryTable, IsMadeOfBaseMath) {
  const int64_t head_dim = 22;
  std::vector<float> table(kPlaces * head_dim);
  kernels::fill_rotary_table(kPlaces, kernels::rotary_frequencies(head_dim, kBase),
                             kernels::Angles::exact, table.data());
  for (int64_t place = 0; place < kPlaces; ++place) {
    for (int64_t i = 0; i < 11; ++i) {
      const double angle =
          static_cast<double>(place) * math::pow(kBase, -static_cast<double>(i) / 11.0);
      EXPECT_EQ(table[place * head_dim + i], static_cast<float>(math::cos(angle)));
      EXPECT_EQ(table[place * head_dim + 11 + i], static_cast<float>(math::sin(angle)));
    }
  }
}

// Two rounded operations of two products: at most gamma_2 of the sum of their magnitudes.
RC_GTEST_PROP(Rotary, IsTheReferenceWithinRounding, ()) {
  Random random = testing::seeded();
  const Case c = any_case(random);
  const reference::RotarySizes n{c.heads, c.head_dim};
  const std::vector<double> table = doubles_of(c.table);
  std::vector<double> x = doubles_of(c.x);
  const std::vector<double> forwards = reference::rotary<double>(n, c.positions, table, x);
  const std::vector<double> backwards =
      reference::rotary_gradient<double>(n, c.positions, table, x);
  std::vector<double> bound;
  const int64_t half = c.head_dim / 2;
  for (size_t at = 0; at < x.size(); ++at) {
    const auto i = static_cast<int64_t>(at);
    const int64_t feature = i % c.head_dim;
    const int64_t pair = feature < half ? i + half : i - half;
    const int64_t entry = c.positions[i / c.width()] * c.head_dim + feature % half;
    bound.push_back(gamma(2) *
                    (std::fabs(x[i] * table[entry]) + std::fabs(x[pair] * table[entry + half])));
  }
  TRIL_HOLDS(testing::within(run(c, Turn::forwards), forwards, testing::stored(forwards, bound)));
  TRIL_HOLDS(
      testing::within(run(c, Turn::backwards), backwards, testing::stored(backwards, bound)));
}

RC_GTEST_PROP(Rotary, FollowsItsOrderBitForBit, ()) {
  Random random = testing::seeded();
  const Case c = any_case(random);
  const int64_t half = c.head_dim / 2;
  for (const Turn turn : {Turn::forwards, Turn::backwards}) {
    std::vector<float> expected(c.x.size());
    for (int64_t head = 0; head < c.rows * c.heads; ++head) {
      const float* cosines = c.table.data() + c.positions[head / c.heads] * c.head_dim;
      for (int64_t i = 0; i < half; ++i) {
        const float sine = turn == Turn::forwards ? cosines[half + i] : -cosines[half + i];
        const float low = c.x[head * c.head_dim + i];
        const float high = c.x[head * c.head_dim + half + i];
        expected[head * c.head_dim + i] = std::fma(-high, sine, low * cosines[i]);
        expected[head * c.head_dim + half + i] = std::fma(low, sine, high * cosines[i]);
      }
    }
    TRIL_HOLDS(same_bits(run(c, turn), here(expected)));
    if (testing::device() != Device::cpu) continue;
    Case in_place = c;
    kernels::rotary(Parallel(2), c.args(), turn, in_place.x.data(), in_place.x.data());
    TRIL_HOLDS(same_bits(in_place.x, expected));
  }
}

TEST(Rotary, ThreadsAndTargetsChangeNothing) {
  Random random(1);
  for (const int64_t rows : {1, 600}) {
    const Case c(random, rows, 3, 19);
    for (const Turn turn : {Turn::forwards, Turn::backwards}) {
      EXPECT_TRUE(testing::same_again([&](Context& context) { return run(context, c, turn); }));
    }
  }
}

RC_GTEST_PROP(Rotary, ARowDependsOnThatRowOnly, ()) {
  Random random = testing::seeded();
  const Case c(random, *rc::gen::inRange<int64_t>(1, 40), 3, *rc::gen::inRange<int64_t>(1, 40));
  const auto row = *rc::gen::inRange<int64_t>(0, c.rows);
  Case alone = c;
  alone.rows = 1;
  alone.positions = {c.positions[row]};
  alone.x = rows_of(c.x, c.width(), row, 1);
  TRIL_HOLDS(same_bits(run(context_here(1), alone, Turn::forwards),
                       rows_of(run(c, Turn::forwards), c.width(), row, 1)));
}

TEST(Rotary, NanStaysInItsPairAndPositionZeroIsTheIdentity) {
  Random random(2);
  Case c(random, 4, 2, 9);
  const std::vector<float> clean = run(c, Turn::forwards);
  c.x[c.width() + 3] = NAN;  // row 1, head 0, feature 3: its pair is feature 12
  const std::vector<float> y = run(c, Turn::forwards);
  for (int64_t i = 0; i < static_cast<int64_t>(y.size()); ++i) {
    if (i == c.width() + 3 || i == c.width() + 12) {
      EXPECT_TRUE(std::isnan(y[i]));
    } else {
      EXPECT_TRUE(testing::same_float(y[i], clean[i]));
    }
  }
  Case start(random, 3, 2, 9);
  start.positions = {0, 0, 0};
  EXPECT_EQ(run(start, Turn::forwards), start.x);
}

}  // namespace
}  // namespace tril::rotary_test
