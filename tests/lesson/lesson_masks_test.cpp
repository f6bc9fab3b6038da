#include "tril/lesson/lesson_masks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tril::lesson_masks_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(LessonMasks, TheFiveKinds) {
  const MaskLesson l = teach_masks();
  ASSERT_EQ(l.kinds.size(), 5u);
  const std::string expected[] = {
      "   0  -∞  -∞  -∞\n   0   0  -∞  -∞\n   0   0   0  -∞\n   0   0   0   0\n",
      "   0   0   0  -∞\n   0   0   0  -∞\n   0   0   0  -∞\n   0   0   0  -∞\n",
      "   0  -∞  -∞  -∞\n   0   0  -∞  -∞\n   0   0   0  -∞\n   0   0   0  -∞\n",
      "   0  -∞  -∞  -∞\n   0   0  -∞  -∞\n  -∞   0   0  -∞\n  -∞  -∞   0   0\n",
      "   0   0  -∞  -∞\n   0   0  -∞  -∞\n   0   0   0  -∞\n   0   0   0   0\n"};
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(l.kinds[i].mask.to_string(4), expected[i]);
}

// Each kind with one end of one row moved by one key: none passes as the right mask.
TEST(LessonMasks, AMaskThatIsOffByOneKeyIsNoticed) {
  const std::vector<NamedMask> kinds = teach_masks().kinds;
  EXPECT_TRUE(masks_are_as_defined(kinds));
  EXPECT_FALSE(masks_are_as_defined({}));
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    for (size_t row = 0; row < 4; ++row) {
      for (const int32_t step : {-1, 1}) {
        std::vector<Interval> rows(kinds[kind].mask.rows().begin(), kinds[kind].mask.rows().end());
        rows[row].hi += step;
        if (rows[row].hi > 4) continue;
        std::vector<NamedMask> broken = kinds;
        broken[kind].mask = Mask(rows);
        EXPECT_FALSE(masks_are_as_defined(broken)) << kinds[kind].name << ", row " << row;
      }
    }
  }
}

TEST(LessonMasks, BroadcastingIsAdding) {
  const Broadcast b = teach_masks().broadcast;
  EXPECT_TRUE(b.equal);
  ASSERT_EQ(b.combined.size(), 2u * 2u * 3u * 3u);
  const float no = -std::numeric_limits<float>::infinity();
  const std::vector<float> both_of_second = {0, no, no, 0, no, no, 0, no, no};
  for (size_t head = 0; head < 2; ++head) {
    const auto begin = b.combined.begin() + static_cast<std::ptrdiff_t>((2 + head) * 9);
    EXPECT_TRUE(std::equal(both_of_second.begin(), both_of_second.end(), begin));
  }
  EXPECT_EQ(b.matrix_bytes, 46'080'000);  // 16 × 8 × 300 × 300 × 4
  EXPECT_EQ(b.interval_bytes, 57'600);    // 16 × 300 × 12
}

// softmax(0.8, 0, 0): e^0.8 / (e^0.8 + 2) = 0.5267.
TEST(LessonMasks, WaysToForbid) {
  const MaskLesson l = teach_masks();
  const std::vector<double> first = {1.0, 0.0, 0.0};
  EXPECT_EQ(l.one_key[0].weights, first);
  EXPECT_EQ(l.one_key[1].weights, first);
  EXPECT_EQ(l.one_key[2].weights, first);
  EXPECT_NEAR(l.one_key[3].weights[0], 0.5267, 1e-4);
  EXPECT_NEAR(l.one_key[3].forbidden, 0.4733, 1e-4);
  EXPECT_NEAR(l.one_key[4].sum, 0.4018, 1e-4);
  EXPECT_TRUE(std::isnan(l.no_key[0].output));
  EXPECT_NEAR(l.no_key[1].output, 2.0, 1e-6);
  EXPECT_NEAR(l.no_key[1].forbidden, 1.0, 1e-6);
  EXPECT_EQ(l.no_key[2].output, 0.0);
  EXPECT_EQ(l.no_key[2].weights, (std::vector<double>{0.0, 0.0, 0.0}));
  EXPECT_EQ(l.half_of_minus_1e9, -kInfinity);
  EXPECT_EQ(l.one_key_in_half[0].weights, first);
  EXPECT_EQ(l.one_key_in_half[1].weights, first);
  EXPECT_TRUE(std::isnan(l.no_key_in_half[0].output));
  EXPECT_EQ(l.large_forbidden[1].weights, (std::vector<double>{0.0, 0.0, 1.0}));
  EXPECT_EQ(l.large_forbidden[2].output, 1.0);
  EXPECT_TRUE(std::isnan(l.nan_forbidden[0].output));
  EXPECT_EQ(l.nan_forbidden[1].output, 1.0);
  EXPECT_TRUE(l.holds);
}

TEST(LessonMasks, OnlyTheDecodersSelfAttentionIsCausal) {
  const MaskLesson l = teach_masks();
  ASSERT_EQ(l.in_use.size(), 3u);
  EXPECT_EQ(l.in_use[0].mask.to_string(3), "   0   0   0\n   0   0   0\n   0   0   0\n");
  EXPECT_EQ(l.in_use[1].where, "decoder self-attention");
  for (int64_t row = 0; row < 4; ++row) {
    for (int64_t key = 0; key < 4; ++key) {
      EXPECT_EQ(l.in_use[1].mask.sees(row, key), key <= row);
    }
  }
}

TEST(LessonMasks, AWidenedMaskBreaksTheVerdict) {
  EXPECT_FALSE(teach_masks({.widen_head = 0, .widen_row = 0}).holds);
  EXPECT_TRUE(teach_masks({.widen_head = 1, .widen_row = 0}).holds);  // there is no such head
}

TEST(LessonMasks, HalfPrecision) {
  EXPECT_EQ(rounded_to_half(0.0), 0.0);
  EXPECT_EQ(rounded_to_half(1.0), 1.0);
  EXPECT_EQ(rounded_to_half(1.0 + 0x1p-11), 1.0);               // a tie, to even
  EXPECT_EQ(rounded_to_half(1.0 + 3 * 0x1p-11), 1.0 + 0x1p-9);  // a tie, to even
  EXPECT_EQ(rounded_to_half(0.1), 0.0999755859375);
  EXPECT_EQ(rounded_to_half(-65519.0), -65504.0);
  EXPECT_EQ(rounded_to_half(65520.0), kInfinity);
  EXPECT_EQ(rounded_to_half(0x1p-24), 0x1p-24);  // the smallest
  EXPECT_EQ(rounded_to_half(0x1p-26), 0.0);
  EXPECT_EQ(rounded_to_half(-kInfinity), -kInfinity);
  EXPECT_TRUE(std::isnan(rounded_to_half(std::nan(""))));
}

}  // namespace
}  // namespace tril::lesson_masks_test
