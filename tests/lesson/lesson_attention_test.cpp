#include "tril/lesson/lesson_attention.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tril {
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

// A mask that lets one row of the engine see one key more is noticed.
TEST(LessonAttention, AWidenedMaskBreaksTheVerdict) {
  for (int64_t row = 0; row < 2; ++row) {
    const AttentionLesson l = teach_attention({.widen_head = 0, .widen_row = row});
    EXPECT_FALSE(l.holds);
    EXPECT_FALSE(l.masked.forbidden_is_zero);
    EXPECT_FALSE(l.masked.within());
    EXPECT_GT(l.masked.largest_share, 1e3);
  }
}

}  // namespace
}  // namespace tril
