// Attention against the textbook formula, its bits, and what it may not let through.
#include "tril/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "support/property.h"
#include "support/testing.h"
#include "tril/base/cpu.h"
#include "tril/kernels/attention.h"
#include "tril/kernels/reference/attention.h"
#include "tril/nn/cache.h"
#include "tril/tensor/mask.h"

namespace tril {
namespace {

using testing::doubles_of;
using testing::equal_bits;
using testing::floats_of;
using testing::gamma;
using testing::raised_by;
using testing::random_floats;
using testing::random_tensor;
using testing::same_bits;
using testing::tensor_of;
using testing::within;

enum class Kind { full, causal, window, prefix, cross };

// A packed batch with everything attention needs.
struct Case {
  reference::AttentionSizes n;
  std::vector<Segment> segments;
  std::vector<Interval> rows;
  std::vector<int32_t> positions;
  std::vector<float> q, k, v, dout;
  std::vector<float> bias;  // may be empty
  int64_t bias_zero = 0;

  float scale() const { return 1.0f / std::sqrt(static_cast<float>(n.head_dim)); }
  Shape q_shape() const { return {n.query, n.heads, n.head_dim}; }
  Shape k_shape() const { return {n.key, n.kv_heads, n.head_dim}; }

  reference::AttentionBias<double> bias_in_double(std::vector<double>& storage) const {
    storage = doubles_of(bias);
    if (bias.empty()) return {};
    return {storage, static_cast<int64_t>(bias.size()) / n.heads, bias_zero, positions};
  }
};

struct Outcome {
  std::vector<float> out, dq, dk, dv;
  bool operator==(const Outcome& other) const {
    return equal_bits(out, other.out) && equal_bits(dq, other.dq) && equal_bits(dk, other.dk) &&
           equal_bits(dv, other.dv);
  }
};

ops::AttentionOptions options_of(const Case& c, Arena& arena) {
  ops::AttentionOptions options;
  if (!c.bias.empty()) {
    const auto offsets = static_cast<int64_t>(c.bias.size()) / c.n.heads;
    options.bias = tensor_of(arena, {c.n.heads, offsets}, c.bias);
    options.bias_zero = c.bias_zero;
    options.positions = c.positions;
  }
  return options;
}

Outcome run(const Case& c, int threads, int widen_head = -1, int64_t widen_row = -1) {
  Context context(threads);
  ops::AttentionOptions options = options_of(c, context.arena);
  options.widen_head = widen_head;
  options.widen_row = widen_row;
  const Tensor q = tensor_of(context.arena, c.q_shape(), c.q);
  const Tensor k = tensor_of(context.arena, c.k_shape(), c.k);
  const Tensor v = tensor_of(context.arena, c.k_shape(), c.v);
  const Tensor dout = tensor_of(context.arena, c.q_shape(), c.dout);
  const ops::AttentionResult result = ops::attention(context, q, k, v, c.rows, options);
  const ops::AttentionGradients g =
      ops::attention_gradients(context, q, k, v, result, dout, c.rows, options);
  return {floats_of(result.out), floats_of(g.dq), floats_of(g.dk), floats_of(g.dv)};
}

Case make_case(std::vector<Segment> segments, Kind kind, int64_t heads, int64_t kv_heads,
               int64_t head_dim, int32_t extent, bool with_bias, uint64_t seed) {
  Case c;
  c.segments = std::move(segments);
  Mask mask;
  for (const Segment& segment : c.segments) {
    const std::span<const Segment> one(&segment, 1);
    switch (kind) {
      case Kind::full: mask.append(Mask::full(one)); break;
      case Kind::causal: mask.append(Mask::causal(one)); break;
      case Kind::window: mask.append(Mask::window(one, extent)); break;
      case Kind::prefix: mask.append(Mask::prefix(one, extent)); break;
      case Kind::cross: mask.append(Mask::cross(extent, segment)); break;
    }
    const auto end = static_cast<int64_t>(mask.rows().size());
    for (int32_t i = 0; static_cast<int64_t>(c.positions.size()) < end; ++i) {
      c.positions.push_back(i);
    }
  }
  c.rows.assign(mask.rows().begin(), mask.rows().end());
  // Two rows of filler at the end, and keys that nobody sees.
  c.rows.resize(c.rows.size() + 2);
  c.positions.resize(c.rows.size());
  const Segment& last = c.segments.back();
  c.n = {static_cast<int64_t>(c.rows.size()), last.origin + last.length + 3, heads, kv_heads,
         head_dim};
  Random random(seed);
  c.q = random_floats(random, c.n.query * heads * head_dim);
  c.k = random_floats(random, c.n.key * kv_heads * head_dim);
  c.v = random_floats(random, c.n.key * kv_heads * head_dim);
  c.dout = random_floats(random, c.n.query * heads * head_dim);
  if (with_bias) {
    const int64_t reach = std::max<int64_t>(c.n.key, c.n.query);
    c.bias_zero = reach;
    c.bias = random_floats(random, heads * (2 * reach + 1));
  }
  return c;
}

// Random lengths that are no multiple of anything, gaps between the sequences included.
Case random_case(Kind kind, int32_t longest) {
  std::vector<Segment> segments;
  int32_t origin = *rc::gen::inRange(0, 5);
  const int count = *rc::gen::inRange(1, 5);
  for (int s = 0; s < count; ++s) {
    const int32_t length = *rc::gen::inRange(1, longest);
    segments.push_back({origin, length});
    origin += length + *rc::gen::inRange(0, 3);
  }
  const int64_t kv_heads = *rc::gen::inRange(1, 4);
  const int64_t heads = kv_heads * *rc::gen::inRange(1, 4);
  const int64_t head_dim = *rc::gen::inRange(0, 3) == 0
                               ? *rc::gen::element<int64_t>(47, 48, 64, 80, 128, 130)
                               : *rc::gen::inRange<int64_t>(1, 40);
  return make_case(segments, kind, heads, kv_heads, head_dim, *rc::gen::inRange(1, longest),
                   *rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<uint64_t>());
}

Kind random_kind() {
  return *rc::gen::element(Kind::full, Kind::causal, Kind::window, Kind::prefix, Kind::cross);
}

// ---- Right ------------------------------------------------------------------------------------

TEST(AttentionReference, GradientsAreTheFiniteDifferences) {
  for (const Kind kind : {Kind::full, Kind::causal, Kind::window, Kind::prefix, Kind::cross}) {
    const Case c = make_case({{1, 4}, {5, 3}}, kind, 4, 2, 3, 2, true, 5);
    std::vector<double> table;
    const auto bias = c.bias_in_double(table);
    const double scale = c.scale();
    std::vector<double> inputs[3] = {doubles_of(c.q), doubles_of(c.k), doubles_of(c.v)};
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
    const std::vector<double>* gradients[3] = {&g.dq, &g.dk, &g.dv};
    // Central differences: the cut-off is of order step^2, rounding of order eps |loss| / step;
    // the step that balances them is the cube root of eps.
    const double step = std::cbrt(std::numeric_limits<double>::epsilon());
    const double bound = 8.0 * step * step * (1.0 + std::fabs(loss()));
    for (int input = 0; input < 3; ++input) {
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

// Bounds on the rounding errors, to first order. A score is a chain of head_dim terms, a factor and
// a bias, so its error is at most e = gamma(head_dim + 2) (|q|·|k| scale + |bias|); a weight, being
// e^(s - max) over a sum of n of them, is relatively off by 2e (score and maximum), the
// exponential's own error and the sum's gamma(n): `relative` below. The rest follows the formulas
// of the reference, absolute value by absolute value.
struct Bounds {
  std::vector<double> out, dq, dk, dv;
};
Bounds bounds_of(const Case& c) {
  const reference::AttentionSizes& n = c.n;
  const auto q = doubles_of(c.q), k = doubles_of(c.k), v = doubles_of(c.v),
             dout = doubles_of(c.dout);
  std::vector<double> table;
  const auto bias = c.bias_in_double(table);
  const double scale = c.scale();
  Bounds b{std::vector<double>(q.size()), std::vector<double>(q.size()),
           std::vector<double>(k.size()), std::vector<double>(k.size())};
  for (int64_t h = 0; h < n.heads; ++h) {
    const int64_t kv = h / (n.heads / n.kv_heads);
    const auto w = reference::attention_weights<double>(n, scale, q, k, c.rows, h, bias);
    const auto at_q = [&](int64_t i, int64_t d) {
      return static_cast<size_t>((i * n.heads + h) * n.head_dim + d);
    };
    const auto at_k = [&](int64_t j, int64_t d) {
      return static_cast<size_t>((j * n.kv_heads + kv) * n.head_dim + d);
    };
    for (int64_t i = 0; i < n.query; ++i) {
      const Interval& sees = c.rows[static_cast<size_t>(i)];
      if (sees.empty()) continue;
      double score_error = 0.0;
      for (int64_t j = sees.lo; j < sees.hi; ++j) {
        double magnitude = bias.table.empty() ? 0.0 : 1.0;
        for (int64_t d = 0; d < n.head_dim; ++d) {
          magnitude += std::fabs(q[at_q(i, d)] * k[at_k(j, d)]) * scale;
        }
        score_error = std::max(score_error, gamma(n.head_dim + 2) * magnitude);
      }
      const int64_t keys = sees.hi - sees.lo;
      // Beside the sum over the keys: subtraction, exponential (1.05 ulps are 2.1 units), rescaling
      // at each of at most keys/64 + 2 blocks, division and product.
      const double relative = std::expm1(2.0 * score_error) + gamma(keys + 8 + 4 * (keys / 64 + 2));
      double out_error_times_dout = 0.0;
      double d_magnitude = 0.0;
      for (int64_t d = 0; d < n.head_dim; ++d) {
        double magnitude = 0.0;
        for (int64_t j = sees.lo; j < sees.hi; ++j) {
          magnitude += w[static_cast<size_t>(i * n.key + j)] * std::fabs(v[at_k(j, d)]);
        }
        b.out[at_q(i, d)] = (relative + gamma(keys + 2)) * magnitude;
        out_error_times_dout += b.out[at_q(i, d)] * std::fabs(dout[at_q(i, d)]);
        d_magnitude += magnitude * std::fabs(dout[at_q(i, d)]);
      }
      for (int64_t j = sees.lo; j < sees.hi; ++j) {
        const double weight = w[static_cast<size_t>(i * n.key + j)];
        double dp_magnitude = 0.0;
        for (int64_t d = 0; d < n.head_dim; ++d) {
          dp_magnitude += std::fabs(dout[at_q(i, d)] * v[at_k(j, d)]);
        }
        const double ds_magnitude = weight * (dp_magnitude + d_magnitude) * scale;
        const double ds_error = (relative + gamma(n.head_dim + 6)) * ds_magnitude +
                                weight * scale * out_error_times_dout;
        for (int64_t d = 0; d < n.head_dim; ++d) {
          const int64_t group = n.heads / n.kv_heads;
          b.dq[at_q(i, d)] += (ds_error + gamma(keys) * ds_magnitude) * std::fabs(k[at_k(j, d)]);
          b.dk[at_k(j, d)] +=
              (ds_error + gamma(n.query * group) * ds_magnitude) * std::fabs(q[at_q(i, d)]);
          b.dv[at_k(j, d)] +=
              (relative + gamma(n.query * group)) * weight * std::fabs(dout[at_q(i, d)]);
        }
      }
    }
  }
  return b;
}

void expect_right(const Case& c) {
  const auto q = doubles_of(c.q), k = doubles_of(c.k), v = doubles_of(c.v),
             dout = doubles_of(c.dout);
  std::vector<double> table;
  const auto bias = c.bias_in_double(table);
  // The kernel's scale, as rounded to fp32.
  const double scale = c.scale();
  const Outcome actual = run(c, 2);
  const Bounds bounds = bounds_of(c);
  EXPECT_TRUE(within(actual.out, reference::attention<double>(c.n, scale, q, k, v, c.rows, bias),
                     bounds.out));
  const auto g = reference::attention_gradients<double>(c.n, scale, q, k, v, dout, c.rows, bias);
  EXPECT_TRUE(within(actual.dq, g.dq, bounds.dq));
  EXPECT_TRUE(within(actual.dk, g.dk, bounds.dk));
  EXPECT_TRUE(within(actual.dv, g.dv, bounds.dv));
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
    Context context(2);
    const Tensor q = tensor_of(context.arena, c.q_shape(), c.q);
    const Tensor k = tensor_of(context.arena, c.k_shape(), c.k);
    const ops::AttentionResult result = ops::attention(context, q, k, k, c.rows, {});
    ops::attention_gradients(context, q, k, k, result, q, c.rows, {});
    return context.arena.peak_bytes() + context.host.peak_bytes();
  };
  const int64_t at_500 = peak(500);
  EXPECT_LE(peak(2000), 4 * at_500);
  EXPECT_LE(peak(8000), 16 * at_500);
}

// ---- Bits -------------------------------------------------------------------------------------

RC_GTEST_PROP(Attention, ThreadsDoNotMatter, ()) {
  const Case c = random_case(random_kind(), 200);
  const Outcome one = run(c, 1);
  RC_ASSERT(one == run(c, 2));
  RC_ASSERT(one == run(c, 5));
}

RC_GTEST_PROP(Attention, TargetsDoNotMatter, ()) {
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

// One row of one sequence, alone, in pages of a cache, as in a decoding step.
std::vector<float> paged_row(const Case& c, const Segment& segment, int64_t row) {
  Context context(1);
  Cache cache(1, c.n.kv_heads, c.n.head_dim);
  const int32_t slot = cache.open();
  const int64_t width = c.n.kv_heads * c.n.head_dim;
  const Interval sees = c.rows[static_cast<size_t>(row)];
  // Only the keys up to the row's own end are there, as when decoding.
  const int32_t length = sees.hi - segment.origin;
  std::vector<int32_t> slots(static_cast<size_t>(length), slot);
  std::vector<int32_t> positions(static_cast<size_t>(length));
  for (int32_t i = 0; i < length; ++i) positions[static_cast<size_t>(i)] = i;
  cache.extend(slots, positions);
  const auto keys_of = [&](const std::vector<float>& from) {
    const auto begin = from.begin() + segment.origin * width;
    return tensor_of(context.arena, {length, width},
                     std::vector<float>(begin, begin + length * width));
  };
  cache.store(context.parallel, 0, slots, positions, keys_of(c.k), keys_of(c.v));
  const auto q_begin = c.q.begin() + row * c.n.heads * c.n.head_dim;
  const Tensor q = tensor_of(context.arena, {1, c.n.heads, c.n.head_dim},
                             std::vector<float>(q_begin, q_begin + c.n.heads * c.n.head_dim));
  ops::AttentionOptions options = options_of(c, context.arena);
  if (!c.bias.empty()) options.positions = options.positions.subspan(static_cast<size_t>(row), 1);
  const Interval from_zero{0, sees.lo - segment.origin, sees.hi - segment.origin};
  const int32_t one_slot[] = {slot};
  return floats_of(ops::attention_paged(context, q, cache.view(context.arena, 0, one_slot),
                                        std::span(&from_zero, 1), options));
}

void expect_rows_match_alone(const Case& c, const std::vector<float>& out, int64_t stride) {
  const int64_t width = c.n.heads * c.n.head_dim;
  for (int64_t row = 0; row < c.n.query; row += stride) {
    const Interval& sees = c.rows[static_cast<size_t>(row)];
    if (sees.empty()) continue;
    const auto segment = std::find_if(c.segments.begin(), c.segments.end(),
                                      [&](const Segment& s) { return s.origin == sees.origin; });
    const std::span<const float> expected(out.data() + row * width, static_cast<size_t>(width));
    ASSERT_TRUE(same_bits(paged_row(c, *segment, row), expected)) << "row " << row;
  }
}

RC_GTEST_PROP(Attention, ARowAloneInACacheHasTheBitsOfTheBatch, ()) {
  const Case c = random_case(random_kind(), 150);
  expect_rows_match_alone(c, run(c, 2).out, 7);
  RC_ASSERT(!::testing::Test::HasFailure());
}

// Windows that begin anywhere: blocks are counted from the origin, not from what a tile of rows
// happens to see.
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

// ---- No leak ----------------------------------------------------------------------------------

// Changes key and value `key` to `value` and says whether every row that may not see it kept the
// bits of its output and of its query's gradient.
bool forbidden_rows_keep_their_bits(const Case& c, const Outcome& before, int64_t key, float value,
                                    int widen_head = -1) {
  Case changed = c;
  const int64_t kv_width = c.n.kv_heads * c.n.head_dim;
  for (int64_t i = 0; i < kv_width; ++i) {
    changed.k[static_cast<size_t>(key * kv_width + i)] += value;
    changed.v[static_cast<size_t>(key * kv_width + i)] -= value;
  }
  const Outcome after = run(changed, 2, widen_head);
  const int64_t width = c.n.heads * c.n.head_dim;
  for (int64_t row = 0; row < c.n.query; ++row) {
    if (c.rows[static_cast<size_t>(row)].sees(key)) continue;
    const auto of = [&](const std::vector<float>& values) {
      return std::span<const float>(values.data() + row * width, static_cast<size_t>(width));
    };
    if (!equal_bits(of(before.out), of(after.out))) return false;
    if (!equal_bits(of(before.dq), of(after.dq))) return false;
  }
  return true;
}

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

RC_GTEST_PROP(Attention, WhatIsForbiddenCannotLeak, ()) {
  const Case c = random_case(random_kind(), 120);
  const Outcome before = run(c, 2);
  const int64_t key = *rc::gen::inRange<int64_t>(0, c.n.key);
  for (const float value : {1.0f, 1e30f, kNaN, kInfinity}) {
    RC_ASSERT(forbidden_rows_keep_their_bits(c, before, key, value));
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

// ---- Bad input --------------------------------------------------------------------------------

TEST(Attention, SaysWhatIsWrong) {
  Context context(1);
  Random random(1);
  Arena& arena = context.arena;
  const Tensor q = random_tensor(arena, {2, 8, 4}, random);
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

  const Tensor k = random_tensor(arena, {4, 8, 4}, random);
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
}  // namespace tril
