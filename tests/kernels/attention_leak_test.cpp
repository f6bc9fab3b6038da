// What attention must not let through: keys that a row may not see, and rows that do not see a key.
#include <algorithm>

#include "kernels/attention_support.h"

namespace tril::attention_leak_test {
namespace {

using testing::Case;
using testing::forbidden_keys_keep_their_bits;
using testing::forbidden_rows_keep_their_bits;
using testing::Kind;
using testing::kInfinity;
using testing::kNaN;
using testing::make_case;
using testing::Outcome;
using testing::random_case;
using testing::random_kind;
using testing::run;
using testing::same_bits;

RC_GTEST_PROP(Attention, WhatIsForbiddenCannotLeak, ()) {
  const Case c = random_case(random_kind(), 120);
  const Outcome before = run(c, 2);
  const int64_t key = *rc::gen::inRange<int64_t>(0, c.n.key);
  // 3e38 would reveal products with zero whose exponents overflow.
  for (const float value : {1.0f, 1e30f, 3e38f, kNaN, kInfinity}) {
    RC_ASSERT(forbidden_rows_keep_their_bits(c, before, key, value));
  }
}

// Also where a row that has to be kept from it sees several spans.
TEST(Attention, WhatIsForbiddenCannotLeakOverSeveralSpans) {
  const Case c = make_case({{0, 2200}}, Kind::causal, 1, 1, 8, 0, false, 14);
  EXPECT_TRUE(forbidden_rows_keep_their_bits(c, run(c, 2), 2150, kNaN));
}

RC_GTEST_PROP(Attention, KeysAreNotReachedByRowsThatMayNotSeeThem, ()) {
  const Case c = random_case(random_kind(), 120);
  const Outcome before = run(c, 2);
  const int64_t row = *rc::gen::inRange<int64_t>(0, c.n.query);
  for (const float value : {1.0f, 1e30f, kNaN, kInfinity}) {
    RC_ASSERT(forbidden_keys_keep_their_bits(c, before, row, value));
  }
}

// The same test finds a leak when one head's intervals are widened by one key.
TEST(Attention, ALeakInOneHeadIsFound) {
  const Case c = make_case({{0, 30}}, Kind::causal, 4, 2, 9, 0, false, 2);
  const Outcome before = run(c, 2, 3);
  for (const float value : {1.0f, kNaN, kInfinity}) {
    EXPECT_FALSE(forbidden_rows_keep_their_bits(c, before, 17, value, 3));
  }
}

// The hook lets every row see one key more of its sequence, also where that is the first of another
// block, and for gradients of keys as for those of rows.
TEST(Attention, ALeakIsWhatItSays) {
  for (const Kind kind : {Kind::causal, Kind::window, Kind::prefix}) {
    SCOPED_TRACE(static_cast<int>(kind));
    const Case c = make_case({{1, 200}, {203, 65}}, kind, 2, 1, 16, 64, false, 6);
    Case wide = c;
    for (Interval& row : wide.rows) {
      if (row.empty()) continue;
      const auto segment = std::find_if(c.segments.begin(), c.segments.end(),
                                        [&](const Segment& s) { return s.origin == row.origin; });
      row.hi = std::min(row.hi + 1, segment->origin + segment->length);
    }
    constexpr int kAllHeads = -2;
    EXPECT_TRUE(same_bits(run(c, 2, kAllHeads), run(wide, 2)));
  }
}

}  // namespace
}  // namespace tril::attention_leak_test
