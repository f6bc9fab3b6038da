#include "tril/lesson/lesson_attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tril/base/rng.h"
#include "tril/kernels/reference/attention.h"
#include "tril/ops/attention.h"
#include "tril/ops/attention_bound.h"

namespace tril::lesson_attention_test {
namespace {

void expect_row(const Matrix& matrix, int64_t row, const std::vector<double>& expected,
                double tolerance) {
  ASSERT_EQ(matrix.columns, static_cast<int64_t>(expected.size()));
  for (int64_t i = 0; i < matrix.columns; ++i) {
    EXPECT_NEAR(matrix.at(row, i), expected[static_cast<size_t>(i)], tolerance)
        << "row " << row << ", column " << i;
  }
}

constexpr double kRounding = 0.005;  // of figures given with two decimals
constexpr double kFloat = 1e-6;

TEST(LessonAttention, HasTheTableThatLearnersHave) {
  const AttentionLesson l = teach_attention();
  EXPECT_EQ(l.words, (std::vector<std::string>{"आप", "कैसे", "हैं"}));
  EXPECT_EQ(l.root, 2.0);
  expect_row(l.scores, 0, {0.8, 0.6, 0.4}, kFloat);
  expect_row(l.scores, 1, {0.3, 0.7, 0.5}, kFloat);
  expect_row(l.scores, 2, {0.2, 0.4, 0.9}, kFloat);
  expect_row(l.products, 0, {1.6, 1.2, 0.8}, kFloat);
}

// By hand: e^0.8 = 2.2255, e^0.6 = 1.8221, e^0.4 = 1.4918, together 5.5394; and so on.
TEST(LessonAttention, WeightsAreThoseOfTheSoftmax) {
  const AttentionLesson l = teach_attention();
  expect_row(l.unmasked.weights, 0, {0.40, 0.33, 0.27}, kRounding);
  expect_row(l.unmasked.weights, 1, {0.27, 0.40, 0.33}, kRounding);
  expect_row(l.unmasked.weights, 2, {0.24, 0.29, 0.48}, kRounding);
  const double e = std::exp(1.0);
  const auto power = [&](double x) { return std::pow(e, x); };
  expect_row(l.masked.weights, 1,
             {power(0.3) / (power(0.3) + power(0.7)), power(0.7) / (power(0.3) + power(0.7)), 0.0},
             kFloat);
  expect_row(l.masked.weights, 2, {0.2361, 0.2884, 0.4755}, 5e-5);
  // The last row sees everything in either case.
  EXPECT_EQ(l.masked.weights.row(2).back(), l.unmasked.weights.row(2).back());
  // Undivided scores: softmax(1.6, 1.2, 0.8).
  expect_row(l.undivided, 0, {0.4718, 0.3162, 0.2120}, 1e-4);
}

TEST(LessonAttention, TheMaskGivesExactZerosInBoth) {
  const AttentionLesson l = teach_attention();
  for (const Matrix* weights : {&l.masked.weights, &l.masked.engine_weights}) {
    EXPECT_EQ(weights->at(0, 0), 1.0);
    EXPECT_EQ(weights->at(0, 1), 0.0);
    EXPECT_EQ(weights->at(0, 2), 0.0);
    EXPECT_EQ(weights->at(1, 2), 0.0);
  }
  EXPECT_TRUE(l.masked.forbidden_is_zero);
  // The values are (1,0,2,0), (0,1,0,2), (1,1,0,0).
  expect_row(l.masked.contextual, 0, {1, 0, 2, 0}, 0.0);
  expect_row(l.masked.contextual, 1, {0.40, 0.60, 0.80, 1.20}, kRounding);
  expect_row(l.masked.contextual, 2, {0.2361 + 0.4755, 0.2884 + 0.4755, 2 * 0.2361, 2 * 0.2884},
             2e-4);
  expect_row(l.unmasked.contextual, 0, {0.67, 0.60, 0.80, 0.66}, kRounding);
}

TEST(LessonAttention, TheSecondExampleIsSharedOutAnew) {
  const AttentionLesson l = teach_attention();
  expect_row(l.second_unmasked.weights, 0, {0.8, 0.1, 0.1}, 1e-15);
  expect_row(l.second_unmasked.weights, 1, {0.15, 0.75, 0.1}, 1e-15);
  expect_row(l.second_masked.weights, 0, {1.0, 0.0, 0.0}, 0.0);
  expect_row(l.second_masked.weights, 1, {0.15 / 0.9, 0.75 / 0.9, 0.0}, 1e-15);
  EXPECT_EQ(l.second_masked.engine_weights.at(0, 1), 0.0);
  EXPECT_EQ(l.second_masked.engine_weights.at(0, 2), 0.0);
  EXPECT_EQ(l.second_masked.engine_weights.at(1, 2), 0.0);
}

TEST(LessonAttention, HeadsNormAndAgreement) {
  const AttentionLesson l = teach_attention();
  ASSERT_EQ(l.head_weights.size(), 2u);
  expect_row(l.head_weights[0], 2, {0.2361, 0.2884, 0.4755}, 5e-5);
  // Scores of 2·3/2 = 3 for the word before and 0 for the others.
  const double e3 = std::exp(3.0);
  expect_row(l.head_weights[1], 2, {1 / (e3 + 2), e3 / (e3 + 2), 1 / (e3 + 2)}, kFloat);
  for (int64_t row = 0; row < 3; ++row) {
    double mean = 0.0, square = 0.0;
    for (int64_t d = 0; d < 4; ++d) {
      EXPECT_NEAR(l.projected.at(row, d),
                  0.5 * (l.heads_side_by_side.at(row, d) + l.heads_side_by_side.at(row, 4 + d)),
                  kFloat);
      mean += l.after_norm.at(row, d) / 4;
      square += l.after_norm.at(row, d) * l.after_norm.at(row, d) / 4;
    }
    EXPECT_NEAR(mean, 0.0, 1e-6);
    EXPECT_NEAR(square, 1.0, 1e-3);
  }
  EXPECT_TRUE(l.heads_are_separate);
  for (const Attended* each : {&l.masked, &l.unmasked, &l.second_masked, &l.second_unmasked}) {
    EXPECT_TRUE(each->within());
    EXPECT_EQ(each->compared, each->weights.rows * (3 + 4));
    EXPECT_GT(each->largest_share, 0.0);
    EXPECT_LE(each->largest_difference, 1e-6);
  }
  EXPECT_TRUE(l.holds);
}

// A mask that lets one row see one key more is noticed.
TEST(LessonAttention, AWidenedMaskBreaksTheVerdict) {
  for (int64_t row = 0; row < 2; ++row) {
    const AttentionLesson l = teach_attention({.widen_head = 0, .widen_row = row});
    EXPECT_FALSE(l.holds);
    EXPECT_FALSE(l.masked.forbidden_is_zero);
    EXPECT_FALSE(l.masked.within());
    EXPECT_GT(l.masked.largest_share, 1e3);
  }
}

// The bound that lesson and page share, where it is hardest to keep: long rows, over blocks and
// spans of keys, with scores from small to so large that weights vanish.
TEST(AttentionBound, HoldsForLongRowsAndIsNotLoose) {
  constexpr int64_t kDim = 16;
  Random random(5, 1);
  for (const int64_t keys : {1, 63, 64, 65, 700, 5000}) {
    for (const double size : {0.1, 1.0, 6.0}) {
      Context context(1);
      const Tensor q(context.arena, {1, 1, kDim}), k(context.arena, {keys, 1, kDim});
      const Tensor v(context.arena, {keys, 1, kDim});
      for (const Tensor* each : {&q, &k, &v}) {
        for (int64_t i = 0; i < each->size(); ++i) {
          each->data()[i] = random.normal() * (each == &v ? 1.0f : static_cast<float>(size));
        }
      }
      const Interval sees{0, 0, static_cast<int32_t>(keys)};
      const Tensor out = ops::attention(context, q, k, v, std::span(&sees, 1), {}).out;
      const auto doubles = [](const Tensor& t) {
        return std::vector<double>(t.data(), t.data() + t.size());
      };
      const double scale = 0.25;  // 1 / sqrt(16)
      const reference::AttentionSizes n{.query = 1, .key = keys, .head_dim = kDim};
      const auto dq = doubles(q), dk = doubles(k), dv = doubles(v);
      const auto weights =
          reference::attention_weights<double>(n, scale, dq, dk, std::span(&sees, 1), 0);
      double largest = 0.0;
      for (size_t j = 0; j < weights.size(); ++j) {
        double sum = 0.0;
        for (size_t d = 0; d < kDim; ++d) sum += std::fabs(dq[d] * dk[j * kDim + d]) * scale;
        largest = std::max(largest, sum);
      }
      const ops::AttentionBound bound(
          {.head_dim = kDim, .keys = keys, .largest_score = largest, .input_roundings = 0});
      for (size_t d = 0; d < kDim; ++d) {
        double sum = 0.0, weighted = 0.0, values = 0.0;
        for (size_t j = 0; j < weights.size(); ++j) {
          sum += weights[j] * dv[j * kDim + d];
          weighted += weights[j] * std::fabs(dv[j * kDim + d]);
          values += std::fabs(dv[j * kDim + d]);
        }
        const double allowed = bound(weighted, values);
        EXPECT_LE(std::fabs(sum - static_cast<double>(out.data()[d])), allowed)
            << keys << " keys, size " << size;
        EXPECT_LT(allowed, 5e-3 * weighted) << keys << " keys, size " << size;
      }
    }
  }
  EXPECT_EQ(ops::AttentionBound({.head_dim = 4, .keys = 0, .largest_score = 0.0})(0.0, 0.0), 0.0);
}

}  // namespace
}  // namespace tril::lesson_attention_test
