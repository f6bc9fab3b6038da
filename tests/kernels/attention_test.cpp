// Attention against the textbook formula, and its errors for bad input.
#include <cmath>
#include <limits>

#include "kernels/attention_support.h"

namespace tril::attention_test {
namespace {

using testing::activations;
using testing::activations_of;
using testing::Case;
using testing::device;
using testing::doubles_of;
using testing::expect_right;
using testing::Kind;
using testing::make_case;
using testing::Outcome;
using testing::raised_by;
using testing::random_case;
using testing::random_floats;
using testing::random_kind;
using testing::random_tensor;
using testing::run;

TEST(AttentionReference, GradientsAreTheFiniteDifferences) {
  for (const Kind kind : {Kind::full, Kind::causal, Kind::window, Kind::prefix, Kind::cross}) {
    const Case c = make_case({{1, 4}, {5, 3}}, kind, 4, 2, 3, 2, true, 5);
    std::vector<double> table;
    const double scale = c.scale();
    std::vector<double> inputs[4] = {doubles_of(c.q), doubles_of(c.k), doubles_of(c.v),
                                     doubles_of(c.bias)};
    auto bias = c.bias_in_double(table);
    bias.table = inputs[3];
    const std::vector<double> dout = doubles_of(c.dout);
    const auto loss = [&] {
      const auto out =
          reference::attention<double>(c.n, scale, inputs[0], inputs[1], inputs[2], c.rows, bias);
      double sum = 0.0;
      for (size_t i = 0; i < out.size(); ++i) sum += out[i] * dout[i];
      return sum;
    };
    const auto g = reference::attention_gradients<double>(c.n, scale, inputs[0], inputs[1],
                                                          inputs[2], dout, c.rows, bias);
    const std::vector<double>* gradients[4] = {&g.dq, &g.dk, &g.dv, &g.dbias};
    // Central differences: the cut-off is of order step^2, rounding of order eps |loss| / step;
    // the step that balances them is the cube root of eps.
    const double step = std::cbrt(std::numeric_limits<double>::epsilon());
    const double bound = 8.0 * step * step * (1.0 + std::fabs(loss()));
    for (int input = 0; input < 4; ++input) {
      for (size_t i = 0; i < inputs[input].size(); ++i) {
        const double at = inputs[input][i];
        inputs[input][i] = at + step;
        const double above = loss();
        inputs[input][i] = at - step;
        const double below = loss();
        inputs[input][i] = at;
        ASSERT_NEAR((above - below) / (2.0 * step), (*gradients[input])[i], bound)
            << "input " << input << " element " << i;
      }
    }
  }
}

RC_GTEST_PROP(Attention, AgreesWithTheTextbook, ()) {
  expect_right(random_case(random_kind(), 150));
  RC_ASSERT(!::testing::Test::HasFailure());
}

TEST(Attention, AgreesWithTheTextbookOverSeveralSpans) {
  expect_right(make_case({{0, 4200}}, Kind::cross, 1, 1, 8, 5, false, 3));
  expect_right(make_case({{3, 2300}}, Kind::window, 1, 1, 3, 2200, false, 3));
}

TEST(Attention, RowsThatSeeNothingAreZero) {
  Case c = make_case({{0, 5}}, Kind::causal, 2, 1, 7, 1, false, 9);
  c.rows[2] = Interval{};
  const Outcome outcome = run(c, 1);
  for (int64_t i = 0; i < 2 * 7; ++i) {
    EXPECT_EQ(outcome.out[static_cast<size_t>(2 * 14 + i)], 0.0f);
    EXPECT_EQ(outcome.dq[static_cast<size_t>(2 * 14 + i)], 0.0f);
  }
}

// The matrix never exists: four times the keys take at most four times the memory.
TEST(Attention, MemoryGrowsWithTheLengthAndNotItsSquare) {
  const auto peak = [](int32_t length) {
    const Case c = make_case({{0, length}}, Kind::causal, 1, 1, 16, 0, false, 1);
    Context context(2, testing::placement());
    const Tensor q = activations_of(context, c.q_shape(), c.q);
    const Tensor k = activations_of(context, c.k_shape(), c.k);
    const ops::AttentionResult result = ops::attention(context, q, k, k, c.rows, {});
    ops::attention_gradients(context, q, k, k, result, q, c.rows, {});
    return context.arena.peak_bytes() + context.host.peak_bytes();
  };
  // On CUDA, long enough for more than one span, which takes additional memory.
  const int32_t length = device() == Device::cpu ? 500 : 2500;
  const int64_t shortest = peak(length);
  EXPECT_LE(peak(4 * length), 4 * shortest);
  if (device() == Device::cpu) {
    EXPECT_LE(peak(16 * length), 16 * shortest);
  }
}

// ---- Bad input --------------------------------------------------------------------------------

TEST(Attention, SaysWhatIsWrong) {
  Context context(1, testing::placement());
  Random random(1);
  Arena& arena = context.arena;
  const Tensor q = activations_of(context, {2, 8, 4}, random_floats(random, 64));
  const std::vector<Interval> rows = {{0, 0, 1}, {0, 0, 2}};
  const auto attend = [&](const Shape& k, const Shape& v, std::span<const Interval> intervals,
                          ops::AttentionOptions options = {}) {
    return raised_by([&] {
             ops::attention(context, q, Tensor(arena, k), Tensor(arena, v), intervals, options);
           })
        .text;
  };
  EXPECT_EQ(attend({2, 6, 4}, {2, 6, 4}, rows),
            "attention: queries have 8 heads, keys 6: queries must be a multiple");
  EXPECT_EQ(attend({2, 8, 5}, {2, 8, 5}, rows), "attention: queries have head_dim 4, keys 5");
  EXPECT_EQ(attend({2, 8, 4}, {3, 8, 4}, rows),
            "attention: keys and values must be equal [key, heads, head_dim], got [2, 8, 4] and "
            "[3, 8, 4]");
  EXPECT_EQ(attend({1, 8, 4}, {1, 8, 4}, rows),
            "mask: row 1 sees [0, 2) of a sequence from 0, but there are 1 keys");
  EXPECT_EQ(attend({2, 8, 4}, {2, 8, 4}, std::span(rows).first(1)),
            "attention: 2 query rows but 1 intervals");
  ops::AttentionOptions narrow;
  const int32_t positions[] = {0, 1};
  narrow.bias = random_tensor(arena, {8, 1}, random);
  narrow.positions = positions;
  EXPECT_EQ(attend({2, 8, 4}, {2, 8, 4}, rows, narrow),
            "attention: row 1 at position 1 sees keys whose distance is outside the bias of 1 "
            "offsets");

  const Tensor k = activations_of(context, {4, 8, 4}, random_floats(random, 128));
  const auto backward = [&](std::vector<Interval> intervals) {
    const auto result = ops::attention(context, q, k, k, intervals, {});
    return raised_by([&] { ops::attention_gradients(context, q, k, k, result, q, intervals, {}); })
        .text;
  };
  EXPECT_EQ(backward({{0, 0, 2}, {0, 0, 1}}),
            "attention gradient: row 1 sees [0, 1) after a row of its sequence that sees [0, 2): "
            "neither end may decrease");
  EXPECT_EQ(backward({{0, 0, 3}, {2, 2, 4}}),
            "attention gradient: the sequence from key 2 shares keys with the one before it, which "
            "ends at 3");
}

}  // namespace
}  // namespace tril::attention_test
