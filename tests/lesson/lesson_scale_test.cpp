#include "tril/lesson/lesson_scale.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tril/base/error.h"
#include "tril/lesson/lesson_work.h"

namespace tril::lesson_scale_test {
namespace {

TEST(LessonScale, TheDivisionKeepsTheSlope) {
  const ScaleLesson l = teach_scale({.dims = {4, 64, 1024}, .rows = 1024});
  EXPECT_TRUE(l.holds);
  EXPECT_EQ(l.not_finite, 0);
  for (const ScaleRow& row : l.dims) {
    EXPECT_NEAR(row.undivided.spread / std::sqrt(static_cast<double>(row.head_dim)), 1.0, 0.05);
    EXPECT_NEAR(row.divided.spread, 1.0, 0.05);
  }
  EXPECT_GT(l.dims.back().undivided.largest, 0.9);
  EXPECT_LT(l.dims.back().divided.largest, 0.5);
}

TEST(LessonScale, AnotherDivisorIsNoticed) {
  EXPECT_FALSE(teach_scale({.dims = {4, 64, 1024}, .rows = 256, .power = 0.5}).holds);
  EXPECT_FALSE(teach_scale({.dims = {4, 64, 1024}, .rows = 256, .power = 2.0}).holds);
  EXPECT_FALSE(teach_scale({.dims = {1, 2, 4}, .rows = 4096}).holds);  // nothing saturates yet
  EXPECT_THROW(teach_scale({.dims = {}}), Error);
}

TEST(LessonWork, StepsAreConstantAndWorkIsNot) {
  WorkOptions options{.words = {3, 15}, .threads = 1, .peak_gflops = 10.0};
  options.config.model = 32;
  options.config.head_dim = 8;
  options.config.feed_forward = 64;
  options.config.decoder_layers = 1;
  const WorkLesson l = teach_work(options);
  ASSERT_EQ(l.rows.size(), 2u);
  EXPECT_EQ(l.rows[0].parallel.steps, 1);
  EXPECT_EQ(l.rows[1].parallel.steps, 1);
  EXPECT_EQ(l.rows[0].sequential.steps, 4);
  EXPECT_EQ(l.rows[1].sequential.steps, 16);
  EXPECT_EQ(l.rows[1].parallel.positions, 16);
  EXPECT_EQ(l.rows[1].sequential.positions, 16 * 17 / 2);
  // Four times the positions; and attention's pairs, of which there are 136 instead of 10.
  EXPECT_GT(l.rows[1].parallel.gflop, 4.0 * l.rows[0].parallel.gflop);
  EXPECT_LT(l.rows[1].parallel.gflop, 13.6 * l.rows[0].parallel.gflop);
  EXPECT_GT(l.rows[1].parallel.gflop, 0.0);
  options.words = {3};
  EXPECT_THROW(teach_work(options), Error);
}

}  // namespace
}  // namespace tril::lesson_scale_test
