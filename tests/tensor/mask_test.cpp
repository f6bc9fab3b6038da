#include "tril/tensor/mask.h"

#include "support/property.h"
#include "support/testing.h"

namespace tril::mask_test {
namespace {

using testing::raised_by;

constexpr Segment kThree[] = {{0, 3}};

TEST(Mask, PrintsTheTextbookMatrix) {
  EXPECT_EQ(Mask::causal(kThree).to_string(3),
            "   0  -∞  -∞\n"
            "   0   0  -∞\n"
            "   0   0   0\n");
}

TEST(Mask, EveryKindIsItsInterval) {
  const Segment packed[] = {{0, 2}, {2, 4}};
  const auto rows = [](const Mask& mask) {
    return std::vector<Interval>(mask.rows().begin(), mask.rows().end());
  };
  EXPECT_EQ(
      rows(Mask::full(packed)),
      (std::vector<Interval>{{0, 0, 2}, {0, 0, 2}, {2, 2, 6}, {2, 2, 6}, {2, 2, 6}, {2, 2, 6}}));
  EXPECT_EQ(
      rows(Mask::causal(packed)),
      (std::vector<Interval>{{0, 0, 1}, {0, 0, 2}, {2, 2, 3}, {2, 2, 4}, {2, 2, 5}, {2, 2, 6}}));
  EXPECT_EQ(
      rows(Mask::window(packed, 2)),
      (std::vector<Interval>{{0, 0, 1}, {0, 0, 2}, {2, 2, 3}, {2, 2, 4}, {2, 3, 5}, {2, 4, 6}}));
  EXPECT_EQ(
      rows(Mask::prefix(packed, 3)),
      (std::vector<Interval>{{0, 0, 2}, {0, 0, 2}, {2, 2, 5}, {2, 2, 5}, {2, 2, 5}, {2, 2, 6}}));
  EXPECT_EQ(rows(Mask::cross(2, {5, 3})), (std::vector<Interval>{{5, 5, 8}, {5, 5, 8}}));
}

// Combining masks is intersecting intervals: the same as the and of the matrices.
RC_GTEST_PROP(Mask, CombiningIsTheAndOfTheMatrices, ()) {
  const auto length = *rc::gen::inRange(1, 20);
  const auto width = *rc::gen::inRange(1, 25);
  const auto prefix = *rc::gen::inRange(0, 25);
  const Segment segments[] = {{0, length}, {length, length}};
  const Mask a = Mask::window(segments, width);
  const Mask b = Mask::prefix(segments, prefix);
  const Mask both = a & b;
  for (int64_t row = 0; row < 2 * length; ++row) {
    for (int64_t key = 0; key < 2 * length; ++key) {
      RC_ASSERT(both.sees(row, key) == (a.sees(row, key) && b.sees(row, key)));
    }
  }
}

RC_GTEST_PROP(Mask, ParsingAMatrixGivesItBackOrSaysItIsNoInterval, ()) {
  const auto rows = *rc::gen::inRange<int64_t>(0, 8);
  const auto keys = *rc::gen::inRange<int64_t>(1, 8);
  const auto allowed = *rc::gen::container<std::vector<uint8_t>>(static_cast<size_t>(rows * keys),
                                                                 rc::gen::inRange<uint8_t>(0, 2));
  bool interval = true;
  for (int64_t row = 0; row < rows; ++row) {
    int changes = 0;
    uint8_t before = 0;
    for (int64_t key = 0; key < keys; ++key) {
      const uint8_t now = allowed[static_cast<size_t>(row * keys + key)];
      changes += now != before && now == 1 ? 1 : 0;
      before = now;
    }
    interval = interval && changes <= 1;
  }
  try {
    const Mask mask = Mask::parse(allowed, rows, keys);
    RC_ASSERT(interval);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t key = 0; key < keys; ++key) {
        RC_ASSERT(mask.sees(row, key) == (allowed[static_cast<size_t>(row * keys + key)] != 0));
      }
    }
  } catch (const Error& error) {
    RC_ASSERT(!interval);
    RC_ASSERT(std::string(error.what()).find("is no interval") != std::string::npos);
  }
}

TEST(Mask, ParsesTextAndNamesWhatIsWrong) {
  EXPECT_EQ(Mask::parse("1 0 0\n1 1 0\n\n1 1 1\n").to_string(3), Mask::causal(kThree).to_string(3));
  EXPECT_EQ(raised_by([] { Mask::parse("1 0 1\n"); }).text,
            "mask: row 0 is no interval: it sees keys 0 to 0, then not 1, then 2 again; tril's "
            "masks are one interval of keys per row");
  EXPECT_EQ(raised_by([] { Mask::parse("1 0\n1\n"); }).text,
            "mask: line 2 has 1 entries, the lines before have 2");
  EXPECT_EQ(raised_by([] { Mask::parse("1 x\n"); }).text,
            "mask: line 1 holds 'x'; entries are 0 and 1");
}

TEST(Mask, ChecksCausality) {
  const int32_t positions[] = {0, 1, 2};
  const int32_t none[] = {0, 0, 0};
  const int32_t two[] = {2, 2, 2};
  EXPECT_NO_THROW(check_causal(Mask::causal(kThree).rows(), positions, none));
  EXPECT_EQ(raised_by([&] { check_causal(Mask::full(kThree).rows(), positions, none); }).text,
            "mask: row 0 at position 0 sees keys up to 2, the future begins at 1");
  EXPECT_NO_THROW(check_causal(Mask::prefix(kThree, 2).rows(), positions, two));
  EXPECT_THROW(check_causal(Mask::prefix(kThree, 2).rows(), positions, none), Error);
}

TEST(Mask, ChecksBounds) {
  EXPECT_THROW(check_within(Mask::causal(kThree).rows(), 2), Error);
  EXPECT_NO_THROW(check_within(Mask::causal(kThree).rows(), 3));
  EXPECT_THROW(Mask::causal(kThree) & Mask::cross(2, {0, 3}), Error);
  EXPECT_THROW(Mask::window(kThree, 0), Error);
  const Segment broken[] = {{-1, 3}};
  EXPECT_THROW(Mask::full(broken), Error);
  EXPECT_THROW(Mask::cross(1, {INT32_MAX, 5}), Error);
  EXPECT_THROW(Mask::parse({}, INT64_MAX, 3), Error);
}

}  // namespace
}  // namespace tril::mask_test
