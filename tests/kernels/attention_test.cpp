// Attention against the textbook formula, its bits, and what it may not let through.
#include "tril/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "support/property.h"
#include "support/testing.h"
#include "tril/base/cpu.h"
#include "tril/kernels/attention.h"
#include "tril/kernels/reference/attention.h"
#include "tril/nn/cache.h"
#include "tril/tensor/mask.h"

namespace tril {
namespace {

using testing::activations;
using testing::activations_of;
using testing::device;
using testing::doubles_of;
using testing::equal_bits;
using testing::floats_of;
using testing::gamma;
using testing::placement;
using testing::raised_by;
using testing::random_floats;
using testing::random_tensor;
using testing::rounded_to;
using testing::same_bits;
using testing::tensor_of;
using testing::unit;
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

  std::optional<float> own_scale{};  // absent: the usual one

  float scale() const {
    return own_scale.value_or(1.0f / std::sqrt(static_cast<float>(n.head_dim)));
  }
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
  options.scale = c.own_scale;
  if (!c.bias.empty()) {
    const auto offsets = static_cast<int64_t>(c.bias.size()) / c.n.heads;
    options.bias = tensor_of(arena, {c.n.heads, offsets}, c.bias);
    options.bias_zero = c.bias_zero;
    options.positions = c.positions;
  }
  return options;
}

Outcome run(const Case& c, int threads, int widen_head = -1, int64_t widen_row = -1) {
  Context context(threads, placement());
  ops::AttentionOptions options = options_of(c, context.arena);
  options.widen_head = widen_head;
  options.widen_row = widen_row;
  const Tensor q = activations_of(context, c.q_shape(), c.q);
  const Tensor k = activations_of(context, c.k_shape(), c.k);
  const Tensor v = activations_of(context, c.k_shape(), c.v);
  const Tensor dout = activations_of(context, c.q_shape(), c.dout);
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
  c.q = rounded_to(activations(), random_floats(random, c.n.query * heads * head_dim));
  c.k = rounded_to(activations(), random_floats(random, c.n.key * kv_heads * head_dim));
  c.v = rounded_to(activations(), random_floats(random, c.n.key * kv_heads * head_dim));
  c.dout = rounded_to(activations(), random_floats(random, c.n.query * heads * head_dim));
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
                               ? *rc::gen::element<int64_t>(47, 48, 64, 80, 128, 130, 136)
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
//
// On CUDA 2^x is right to 2^-22, which is four units, and its argument is a score times log2e,
// rounded: that adds ln 2 times a unit of each. With bf16, weights are rounded once before they are
// summed and multiplied (2 u in all: above and below the bar), gradients of scores once, and every
// result once; what tensor cores add up is cut off rather than rounded and aligned to the largest
// of 17 terms, for which three units a term are enough. Products of errors are of the order of u
// times the bound: 16 u of it make up for them.
struct Bounds {
  std::vector<double> out, dq, dk, dv;
};

// The error of a sum of products, relative to the sum of their absolute values.
double chain(int64_t terms) {
  return activations() == DType::bf16 ? gamma(3 * (terms + 16)) : gamma(terms);
}

Bounds bounds_of(const Case& c) {
  const reference::AttentionSizes& n = c.n;
  const auto q = doubles_of(c.q), k = doubles_of(c.k), v = doubles_of(c.v),
             dout = doubles_of(c.dout);
  std::vector<double> table;
  const auto bias = c.bias_in_double(table);
  const double scale = c.scale();
  const bool on_cpu = device() == Device::cpu;
  const double u = activations() == DType::bf16 ? unit(DType::bf16) : 0.0;
  const double slack = 1.0 + 16.0 * u;
  const int64_t per_block = on_cpu ? 4 : 8;  // roundings when a block joins the others
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
        const double argument_error = on_cpu ? 0.0 : gamma(4) * magnitude;
        score_error =
            std::max(score_error, (chain(n.head_dim) + gamma(2)) * magnitude + argument_error);
      }
      const int64_t keys = sees.hi - sees.lo;
      // Beside the sum over the keys: subtraction, exponential (1.05 ulps are 2.1 units), rescaling
      // at each of at most keys/64 + 2 blocks, division and product.
      const double relative =
          std::expm1(2.0 * score_error) + gamma(keys + 8 + per_block * (keys / 64 + 2)) + 2.0 * u;
      double out_error_times_dout = 0.0;
      double d_magnitude = 0.0;
      for (int64_t d = 0; d < n.head_dim; ++d) {
        double magnitude = 0.0;
        for (int64_t j = sees.lo; j < sees.hi; ++j) {
          magnitude += w[static_cast<size_t>(i * n.key + j)] * std::fabs(v[at_k(j, d)]);
        }
        b.out[at_q(i, d)] = slack * (relative + chain(keys) + gamma(2) + u) * magnitude;
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
        const double ds_error = (relative + chain(n.head_dim) + gamma(6) + u) * ds_magnitude +
                                weight * scale * out_error_times_dout;
        const int64_t group = n.heads / n.kv_heads;
        const double over_keys = chain(keys) + u;
        const double over_rows = chain(n.query * group) + u;
        for (int64_t d = 0; d < n.head_dim; ++d) {
          b.dq[at_q(i, d)] +=
              slack * (ds_error + over_keys * ds_magnitude) * std::fabs(k[at_k(j, d)]);
          b.dk[at_k(j, d)] +=
              slack * (ds_error + over_rows * ds_magnitude) * std::fabs(q[at_q(i, d)]);
          b.dv[at_k(j, d)] +=
              slack * (relative + u + over_rows) * weight * std::fabs(dout[at_q(i, d)]);
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

// Heads of 64 and 128 without a bias: on CUDA, sequences of more than 128 keys go another way than
// those beside them. Tiles of 128 rows begin and end anywhere, and so do their halves of 64.
constexpr Kind kAllKinds[] = {Kind::full, Kind::causal, Kind::window, Kind::prefix, Kind::cross};
Case long_case(Kind kind, int64_t head_dim) {
  return make_case({{3, 300}, {304, 129}, {433, 128}, {563, 161}}, kind, 2, 1, head_dim, 150, false,
                   static_cast<uint64_t>(head_dim));
}

TEST(Attention, AgreesWithTheTextbookInLongSequences) {
  for (const Kind kind : kAllKinds) {
    for (const int64_t head_dim : {64, 128}) {
      SCOPED_TRACE(::testing::Message() << "kind " << static_cast<int>(kind) << ", " << head_dim);
      expect_right(long_case(kind, head_dim));
    }
  }
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
    Context context(2, placement());
    const Tensor q = activations_of(context, c.q_shape(), c.q);
    const Tensor k = activations_of(context, c.k_shape(), c.k);
    const ops::AttentionResult result = ops::attention(context, q, k, k, c.rows, {});
    ops::attention_gradients(context, q, k, k, result, q, c.rows, {});
    return context.arena.peak_bytes() + context.host.peak_bytes();
  };
  // On CUDA from where there is more than one span, which takes memory of its own.
  const int32_t length = device() == Device::cpu ? 500 : 2500;
  const int64_t shortest = peak(length);
  EXPECT_LE(peak(4 * length), 4 * shortest);
  if (device() == Device::cpu) {
    EXPECT_LE(peak(16 * length), 16 * shortest);
  }
}

// ---- Bits -------------------------------------------------------------------------------------

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

// Rows [begin, end) of one sequence, alone in a cache of which only the keys they may see are
// there, as when decoding. Returns [row, heads, head_dim].
struct CachedRows {
  const Case& c;
  const Segment& segment;
  int64_t begin, end;

  int32_t length() const { return c.rows[static_cast<size_t>(end - 1)].hi - segment.origin; }
  std::vector<float> keys(const std::vector<float>& from) const {
    const int64_t width = c.n.kv_heads * c.n.head_dim;
    const auto first = from.begin() + segment.origin * width;
    return {first, first + length() * width};
  }
  std::vector<Interval> intervals() const {
    std::vector<Interval> result;
    for (int64_t row = begin; row < end; ++row) {
      const Interval& sees = c.rows[static_cast<size_t>(row)];
      result.push_back({0, sees.lo - segment.origin, sees.hi - segment.origin});
    }
    return result;
  }
};

ops::PagedKeys in_pages(Context& context, Cache& cache, const CachedRows& rows) {
  const int32_t slot = cache.open();
  const int64_t width = rows.c.n.kv_heads * rows.c.n.head_dim;
  const int32_t length = rows.length();
  const std::vector<int32_t> slots(static_cast<size_t>(length), slot);
  std::vector<int32_t> positions(static_cast<size_t>(length));
  for (int32_t i = 0; i < length; ++i) positions[static_cast<size_t>(i)] = i;
  cache.extend(slots, positions);
  cache.store(context, 0, cache.places(context, slots, positions),
              tensor_of(context.arena, {length, width}, rows.keys(rows.c.k)),
              tensor_of(context.arena, {length, width}, rows.keys(rows.c.v)));
  const std::vector<int32_t> rows_of(static_cast<size_t>(rows.end - rows.begin), slot);
  return cache.keys_of(cache.view(context, context.mirror<int32_t>(rows_of).host), 0);
}

// Entries in any order, between others that hold NaN.
struct Table {
  std::vector<int32_t> entries, lengths, sequences;
};
ops::PagedKeys in_table(Context& context, Table& table, const CachedRows& rows) {
  const int64_t width = rows.c.n.kv_heads * rows.c.n.head_dim;
  const int64_t length = rows.length(), places = 2 * length + 3, count = rows.end - rows.begin;
  std::vector<int32_t> place(static_cast<size_t>(places));
  for (size_t i = 0; i < place.size(); ++i) place[i] = static_cast<int32_t>(i);
  Random random(static_cast<uint64_t>(length));
  for (size_t i = place.size(); i > 1; --i)
    std::swap(place[i - 1], place[random.below(static_cast<uint32_t>(i))]);
  const auto scattered = [&](const std::vector<float>& from) {
    const std::vector<float> keys = rows.keys(from);
    std::vector<float> all(static_cast<size_t>(places * width),
                           std::numeric_limits<float>::quiet_NaN());
    for (int64_t j = 0; j < length; ++j) {
      std::copy_n(keys.begin() + j * width, width,
                  all.begin() + place[static_cast<size_t>(j)] * width);
    }
    return activations_of(context, {places, rows.c.n.kv_heads, rows.c.n.head_dim}, all).raw();
  };
  ops::PagedKeys keys;
  keys.kv_heads = rows.c.n.kv_heads;
  keys.head_dim = rows.c.n.head_dim;
  keys.entry_stride = width;
  keys.keys = scattered(rows.c.k);
  keys.values = scattered(rows.c.v);
  keys.table_stride = length + 1;  // one more than is read
  for (int64_t row = 0; row < count; ++row) {
    table.entries.insert(table.entries.end(), place.begin(), place.begin() + length);
    table.entries.push_back(1 << 30);
    table.lengths.push_back(static_cast<int32_t>(length));
    table.sequences.push_back(7);
  }
  keys.table = table.entries;
  keys.lengths = table.lengths;
  if (count > 1) keys.sequences = table.sequences;
  return keys;
}

std::vector<float> cached_rows(const CachedRows& rows) {
  const Case& c = rows.c;
  Context context(1, placement());
  Cache cache(1, c.n.kv_heads, c.n.head_dim);
  Table table;
  const ops::PagedKeys keys =
      device() == Device::cpu ? in_pages(context, cache, rows) : in_table(context, table, rows);
  const int64_t width = c.n.heads * c.n.head_dim;
  const Tensor q = activations_of(
      context, {rows.end - rows.begin, c.n.heads, c.n.head_dim},
      std::vector<float>(c.q.begin() + rows.begin * width, c.q.begin() + rows.end * width));
  ops::AttentionOptions options = options_of(c, context.arena);
  if (!c.bias.empty()) {
    options.positions =
        std::span(c.positions)
            .subspan(static_cast<size_t>(rows.begin), static_cast<size_t>(rows.end - rows.begin));
  }
  return floats_of(ops::attention_paged(context, q, keys, rows.intervals(), options));
}

void expect_rows_match_alone(const Case& c, const std::vector<float>& out, int64_t stride) {
  const int64_t width = c.n.heads * c.n.head_dim;
  for (int64_t row = 0; row < c.n.query; row += stride) {
    const Interval& sees = c.rows[static_cast<size_t>(row)];
    if (sees.empty()) continue;
    const auto segment = std::find_if(c.segments.begin(), c.segments.end(),
                                      [&](const Segment& s) { return s.origin == sees.origin; });
    const std::span<const float> expected(out.data() + row * width, static_cast<size_t>(width));
    ASSERT_TRUE(same_bits(cached_rows({c, *segment, row, row + 1}), expected)) << "row " << row;
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

TEST(Attention, ARowAloneHasTheBitsOfALongSequence) {
  for (const Kind kind : kAllKinds) {
    for (const int64_t head_dim : {64, 128}) {
      SCOPED_TRACE(::testing::Message() << "kind " << static_cast<int>(kind) << ", " << head_dim);
      const Case c = long_case(kind, head_dim);
      expect_rows_match_alone(c, run(c, 2).out, kind == Kind::cross ? 37 : 11);
    }
  }
}

TEST(Attention, ARowAloneHasTheBitsOfALongSequenceOverSeveralSpans) {
  for (const int64_t head_dim : {64, 128}) {
    SCOPED_TRACE(::testing::Message() << "head_dim " << head_dim);
    const Case c = make_case({{1, 4300}}, Kind::cross, 1, 1, head_dim, 70, false, 3);
    expect_rows_match_alone(c, run(c, 2).out, 23);
    const Case window = make_case({{0, 2500}}, Kind::window, 1, 1, head_dim, 2200, false, 5);
    expect_rows_match_alone(window, run(window, 2).out, 499);
  }
}

// Scales that are powers of two may be treated in their own way.
TEST(Attention, ARowAloneHasTheBitsOfALongSequenceWithAnyScale) {
  for (const int64_t head_dim : {64, 128}) {
    for (const float scale : {0.3f, 0.25f, 1.0f, 4.0f}) {
      SCOPED_TRACE(::testing::Message() << "head_dim " << head_dim << ", scale " << scale);
      Case c = long_case(Kind::causal, head_dim);
      c.own_scale = scale;
      // Large scores that differ little, so that their roundings show.
      for (size_t i = 0; i < c.q.size(); i += static_cast<size_t>(head_dim)) c.q[i] = 64.0f;
      for (size_t i = 0; i < c.k.size(); i += static_cast<size_t>(head_dim)) c.k[i] = 64.0f;
      expect_rows_match_alone(c, run(c, 2).out, 7);
    }
  }
}

// A long prompt into a cache at once.
TEST(Attention, RowsTogetherInACacheHaveTheBitsOfTheBatch) {
  for (const Kind kind : {Kind::causal, Kind::window, Kind::prefix}) {
    const Case c = make_case({{2, 40}, {45, 150}}, kind, 4, 2, 24, 20, kind == Kind::window, 6);
    const std::vector<float> out = run(c, 2).out;
    const int64_t width = c.n.heads * c.n.head_dim;
    const std::span<const float> expected(out.data() + 40 * width,
                                          static_cast<size_t>(150 * width));
    EXPECT_TRUE(same_bits(cached_rows({c, c.segments[1], 40, 190}), expected));
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

// What the tests of bits would find: a block out of its order.
TEST(Attention, BlocksInAnotherOrderHaveOtherBits) {
  const Case c = make_case({{0, 300}}, Kind::causal, 2, 1, 16, 0, false, 12);
  Context context(1, placement());
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
  Context context(2, placement());
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
  // 3e38: were exponents of products with zero taken for what they are not, it would show.
  for (const float value : {1.0f, 1e30f, 3e38f, kNaN, kInfinity}) {
    RC_ASSERT(forbidden_rows_keep_their_bits(c, before, key, value));
  }
}

TEST(Attention, WhatIsForbiddenCannotLeakInLongSequences) {
  for (const int64_t head_dim : {64, 128}) {
    const Case c = long_case(Kind::causal, head_dim);
    const Outcome before = run(c, 2);
    for (const int64_t key : {3, 100, 302, 303, 304, 440, 565, 726}) {
      for (const float value : {3e38f, kNaN, kInfinity}) {
        EXPECT_TRUE(forbidden_rows_keep_their_bits(c, before, key, value)) << key << " " << value;
      }
    }
  }
}

// Also where a row that has to be kept from it sees several spans.
TEST(Attention, WhatIsForbiddenCannotLeakOverSeveralSpans) {
  const Case c = make_case({{0, 2200}}, Kind::causal, 1, 1, 8, 0, false, 14);
  EXPECT_TRUE(forbidden_rows_keep_their_bits(c, run(c, 2), 2150, kNaN));
}

// The other way round: what a row is made of cannot reach the gradients of keys it may not see.
RC_GTEST_PROP(Attention, KeysAreNotReachedByRowsThatMayNotSeeThem, ()) {
  const Case c = random_case(random_kind(), 120);
  const Outcome before = run(c, 2);
  const int64_t row = *rc::gen::inRange<int64_t>(0, c.n.query);
  const int64_t width = c.n.heads * c.n.head_dim, kv_width = c.n.kv_heads * c.n.head_dim;
  for (const float value : {1.0f, 1e30f, kNaN, kInfinity}) {
    Case changed = c;
    for (int64_t i = row * width; i < (row + 1) * width; ++i) {
      changed.q[static_cast<size_t>(i)] += value;
      changed.dout[static_cast<size_t>(i)] -= value;
    }
    const Outcome after = run(changed, 2);
    for (int64_t key = 0; key < c.n.key; ++key) {
      if (c.rows[static_cast<size_t>(row)].sees(key)) continue;
      const auto of = [&](const std::vector<float>& values) {
        return std::span<const float>(values.data() + key * kv_width,
                                      static_cast<size_t>(kv_width));
      };
      RC_ASSERT(same_bits(of(after.dk), of(before.dk)));
      RC_ASSERT(same_bits(of(after.dv), of(before.dv)));
    }
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
  Context context(1, placement());
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
}  // namespace tril
