// The bits of attention: whatever the threads, the batch, the place in it, or the way through a
// cache.
#include <algorithm>

#include "kernels/attention_support.h"
#include "tril/base/cpu.h"

namespace tril::attention_bits_test {
namespace {

using testing::activations;
using testing::activations_of;
using testing::cached_rows;
using testing::Case;
using testing::device;
using testing::expect_rows_match_alone;
using testing::floats_of;
using testing::Kind;
using testing::make_case;
using testing::Outcome;
using testing::raised_by;
using testing::random_case;
using testing::random_kind;
using testing::run;
using testing::same_bits;
using testing::Told;

RC_GTEST_PROP(Attention, ThreadsDoNotMatter, ()) {
  const Case c = random_case(random_kind(), 200);
  const Outcome one = run(c, 1);
  RC_ASSERT(one == run(c, 2));
  RC_ASSERT(one == run(c, 5));
}

RC_GTEST_PROP(Attention, TargetsDoNotMatter, ()) {
  if (device() != Device::cpu) return;  // instruction sets are the processor's
  const Case c = random_case(random_kind(), 200);
  const Target before = current_target();
  const Outcome expected = run(c, 2);
  bool same = true;
  for (const Target target : available_targets()) {
    use_target(target);
    same = same && expected == run(c, 2);
  }
  use_target(before);
  RC_ASSERT(same);
}

RC_GTEST_PROP(Attention, ARowAloneInACacheHasTheBitsOfTheBatch, ()) {
  const Case c = random_case(random_kind(), 150);
  expect_rows_match_alone(c, run(c, 2).out, 7);
  RC_ASSERT(!::testing::Test::HasFailure());
}

// Windows that begin anywhere: blocks are counted from the origin, not from the first key that a
// tile of rows sees.
TEST(Attention, ARowAloneHasTheBitsOfTheBatchInAWindow) {
  const Case c = make_case({{3, 300}, {304, 131}}, Kind::window, 2, 1, 12, 100, false, 8);
  expect_rows_match_alone(c, run(c, 2).out, 1);
}

TEST(Attention, ARowAloneHasTheBitsOfTheBatchOverSeveralSpans) {
  const Case c = make_case({{0, 2100}, {2100, 50}}, Kind::causal, 2, 1, 20, 0, false, 4);
  expect_rows_match_alone(c, run(c, 2).out, 97);
  const Case wide = make_case({{0, 4200}}, Kind::cross, 1, 1, 8, 3, false, 3);
  expect_rows_match_alone(wide, run(wide, 2).out, 1);
}

// A long prompt into a cache at once.
TEST(Attention, RowsTogetherInACacheHaveTheBitsOfTheBatch) {
  for (const Kind kind : {Kind::causal, Kind::window, Kind::prefix}) {
    const Case c = make_case({{2, 40}, {45, 150}}, kind, 4, 2, 24, 20, kind == Kind::window, 6);
    const std::vector<float> out = run(c, 2).out;
    const int64_t width = c.n.heads * c.n.head_dim;
    const std::span<const float> expected(out.data() + 40 * width,
                                          static_cast<size_t>(150 * width));
    EXPECT_TRUE(same_bits(cached_rows(c, c.segments[1], 40, 190), expected));
  }
}

// A step of many sentences: as above, but each row is treated as a sequence of its own.
TEST(Attention, ManyRowsInACacheHaveTheBitsOfTheBatch) {
  for (const int head_dim : {24, 32, 64, 128}) {
    for (const int length : {110, 125, 150, 180, 330}) {
      const Kind kind = length == 180 ? Kind::window : Kind::causal;
      const Case c = make_case({{0, length}}, kind, 8, 2, head_dim, 40, length == 150, 9);
      const std::vector<float> out = run(c, 2).out;
      // Of 100 rows, the first sees little where the sequence is short.
      const int64_t begin = length - 100, width = c.n.heads * c.n.head_dim;
      for (const int64_t end : {begin + 4, int64_t{length}}) {
        const std::span<const float> expected(out.data() + begin * width,
                                              static_cast<size_t>((end - begin) * width));
        EXPECT_TRUE(same_bits(cached_rows(c, c.segments[0], begin, end, Told::apart), expected))
            << head_dim << " columns, rows to " << end << " of " << length;
      }
    }
  }
}

// None of them sees more than this many keys.
TEST(Attention, ManyRowsOfFewKeysHaveTheBitsOfTheBatch) {
  for (const int keys : {1, 16, 17, 40, 48, 49, 64}) {
    const Case c = make_case({{0, keys}}, Kind::cross, 8, 8, 64, 200, false, 10);
    const std::vector<float> out = run(c, 2).out;
    const std::span<const float> expected(out.data(), size_t{200} * 8 * 64);
    EXPECT_TRUE(same_bits(cached_rows(c, c.segments[0], 0, 200, Told::apart), expected)) << keys;
  }
}

// A sequence has the same bits alone, where it lies elsewhere, and next to others.
RC_GTEST_PROP(Attention, ASequenceAloneHasTheBitsOfTheBatch, ()) {
  const Case c = random_case(random_kind(), 150);
  const Outcome together = run(c, 2);
  const size_t chosen = *rc::gen::inRange<size_t>(0, c.segments.size());
  const Segment segment = c.segments[chosen];
  const auto is_of = [&](const Interval& row) {
    return !row.empty() && row.origin == segment.origin;
  };
  const auto begin = std::find_if(c.rows.begin(), c.rows.end(), is_of) - c.rows.begin();
  const auto rows = std::count_if(c.rows.begin(), c.rows.end(), is_of);
  const int64_t width = c.n.heads * c.n.head_dim, kv_width = c.n.kv_heads * c.n.head_dim;
  const auto part = [](const auto& from, int64_t first, int64_t count, int64_t each) {
    return std::vector(from.begin() + first * each, from.begin() + (first + count) * each);
  };
  Case alone = c;
  alone.n.query = rows;
  alone.n.key = segment.length;
  alone.rows = part(c.rows, begin, rows, 1);
  for (Interval& row : alone.rows) {
    row = {0, row.lo - segment.origin, row.hi - segment.origin};
  }
  alone.positions = part(c.positions, begin, rows, 1);
  alone.q = part(c.q, begin, rows, width);
  alone.dout = part(c.dout, begin, rows, width);
  alone.k = part(c.k, segment.origin, segment.length, kv_width);
  alone.v = part(c.v, segment.origin, segment.length, kv_width);
  const Outcome expected{part(together.out, begin, rows, width),
                         part(together.dq, begin, rows, width),
                         part(together.dk, segment.origin, segment.length, kv_width),
                         part(together.dv, segment.origin, segment.length, kv_width)};
  const Outcome actual = run(alone, 2);
  RC_ASSERT(same_bits(actual.out, expected.out));
  RC_ASSERT(same_bits(actual.dq, expected.dq));
  RC_ASSERT(same_bits(actual.dk, expected.dk));
  RC_ASSERT(same_bits(actual.dv, expected.dv));
}

// What the tests of bits would find: a block out of order.
TEST(Attention, BlocksInAnotherOrderHaveOtherBits) {
  const Case c = make_case({{0, 300}}, Kind::causal, 2, 1, 16, 0, false, 12);
  Context context(1, testing::placement());
  const Tensor q = activations_of(context, c.q_shape(), c.q);
  const Tensor k = activations_of(context, c.k_shape(), c.k);
  const Tensor v = activations_of(context, c.k_shape(), c.v);
  const auto out = [&] { return floats_of(ops::attention(context, q, k, v, c.rows, {}).out); };
  const std::vector<float> before = out();
  EXPECT_TRUE(same_bits(out(), before));
  context.hooks.order_by_batch = true;
  EXPECT_FALSE(same_bits(out(), before));
}

// One plan for a whole step, with its own lists on a device.
TEST(Attention, APlanServesAllLayersOfAStep) {
  const Case c = make_case({{1, 30}, {40, 100}, {140, 7}}, Kind::causal, 4, 2, 20, 0, false, 31);
  const Outcome expected = run(c, 2);
  Context context(2, testing::placement());
  const Tensor q = activations_of(context, c.q_shape(), c.q);
  const Tensor k = activations_of(context, c.k_shape(), c.k);
  const Tensor v = activations_of(context, c.k_shape(), c.v);
  const Tensor dout = activations_of(context, c.q_shape(), c.dout);
  const ops::AttentionPlan plan = ops::plan_attention(context, context.mirror(std::span(c.rows)));
  for (int layer = 0; layer < 2; ++layer) {
    const ops::AttentionResult result = ops::attention(context, q, k, v, plan, {});
    const auto g = ops::attention_gradients(context, q, k, v, result, dout, plan, {});
    EXPECT_TRUE(same_bits(floats_of(result.out), expected.out));
    EXPECT_TRUE(same_bits(floats_of(g.dq), expected.dq));
    EXPECT_TRUE(same_bits(floats_of(g.dk), expected.dk));
    EXPECT_TRUE(same_bits(floats_of(g.dv), expected.dv));
  }
  const Tensor few = activations_of(context, {140, 2, 20}, std::vector<float>(140 * 40));
  EXPECT_EQ(raised_by([&] { ops::attention(context, q, few, few, plan, {}); }).text,
            "mask: row 130 sees [140, 141) of a sequence from 140, but there are 140 keys");
}

}  // namespace
}  // namespace tril::attention_bits_test
