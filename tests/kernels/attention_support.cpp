#include "kernels/attention_support.h"

#include <algorithm>

#include "tril/nn/cache.h"

namespace tril::testing {

::testing::AssertionResult same_bits(const Outcome& a, const Outcome& b) {
  const struct {
    const char* name;
    const std::vector<float>&a, &b;
  } parts[] = {{"out", a.out, b.out},
               {"dq", a.dq, b.dq},
               {"dk", a.dk, b.dk},
               {"dv", a.dv, b.dv},
               {"dbias", a.dbias, b.dbias}};
  for (const auto& part : parts) {
    if (const auto result = same_bits(part.a, part.b); !result) {
      return ::testing::AssertionFailure() << part.name << ": " << result.message();
    }
  }
  return ::testing::AssertionSuccess();
}

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

Outcome run(const Case& c, int threads, int widen_head, int64_t widen_row) {
  Context context(threads, testing::placement());
  ops::AttentionOptions options = options_of(c, context.arena);
  options.widen_head = widen_head;
  options.widen_row = widen_row;
  const Tensor q = activations_of(context, c.q_shape(), c.q);
  const Tensor k = activations_of(context, c.k_shape(), c.k);
  const Tensor v = activations_of(context, c.k_shape(), c.v);
  const Tensor dout = activations_of(context, c.q_shape(), c.dout);
  const ops::AttentionResult result = ops::attention(context, q, k, v, c.rows, options);
  const bool of_bias = !c.bias.empty() && ops::has_bias_gradient(testing::placement());
  const ops::AttentionGradients g =
      ops::attention_gradients(context, q, k, v, result, dout, c.rows, options,
                               of_bias ? ops::BiasGradient::wanted : ops::BiasGradient::none);
  return {floats_of(result.out), floats_of(g.dq), floats_of(g.dk), floats_of(g.dv),
          of_bias ? floats_of(g.dbias) : std::vector<float>()};
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
  // Two padding rows at the end, and keys that no row sees.
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

Case long_case(Kind kind, int64_t head_dim) {
  return make_case({{3, 300}, {304, 129}, {433, 128}, {563, 161}}, kind, 2, 1, head_dim, 150, false,
                   static_cast<uint64_t>(head_dim));
}

// ---- rounding -----------------------------------------------------------------------------------
namespace {

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
  std::vector<double> out, dq, dk, dv, dbias;
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
           std::vector<double>(k.size()), std::vector<double>(k.size()),
           std::vector<double>(c.bias.size())};
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
        if (!c.bias.empty()) {
          const int64_t distance = j - sees.origin - c.positions[static_cast<size_t>(i)];
          b.dbias[static_cast<size_t>(h * bias.offsets + c.bias_zero + distance)] +=
              slack * (ds_error + gamma(n.query) * ds_magnitude) / scale;
        }
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

}  // namespace

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
  if (!actual.dbias.empty()) {
    EXPECT_TRUE(within(actual.dbias, g.dbias, bounds.dbias));
  }
}

// ---- in a cache ---------------------------------------------------------------------------------
namespace {

// Rows [begin, end) of one sequence, alone in a cache of which only the keys they may see are
// there, as when decoding. Returns [row, heads, head_dim].
struct CachedRows {
  const Case& c;
  const Segment& segment;
  int64_t begin, end;
  Told told = Told::together;

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
    table.sequences.push_back(rows.told == Told::together ? 7 : static_cast<int32_t>(row));
  }
  keys.table = table.entries;
  keys.lengths = table.lengths;
  if (count > 1) keys.sequences = table.sequences;
  return keys;
}

}  // namespace

std::vector<float> cached_rows(const Case& c, const Segment& segment, int64_t begin, int64_t end,
                               Told told) {
  const CachedRows rows{c, segment, begin, end, told};
  Context context(1, testing::placement());
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
    ASSERT_TRUE(same_bits(cached_rows(c, *segment, row, row + 1), expected)) << "row " << row;
  }
}

// ---- what may not be seen
// -------------------------------------------------------------------------
bool forbidden_rows_keep_their_bits(const Case& c, const Outcome& before, int64_t key, float value,
                                    int widen_head) {
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

bool forbidden_keys_keep_their_bits(const Case& c, const Outcome& before, int64_t row,
                                    float value) {
  Case changed = c;
  const int64_t width = c.n.heads * c.n.head_dim, kv_width = c.n.kv_heads * c.n.head_dim;
  for (int64_t i = row * width; i < (row + 1) * width; ++i) {
    changed.q[static_cast<size_t>(i)] += value;
    changed.dout[static_cast<size_t>(i)] -= value;
  }
  const Outcome after = run(changed, 2);
  for (int64_t key = 0; key < c.n.key; ++key) {
    if (c.rows[static_cast<size_t>(row)].sees(key)) continue;
    const auto of = [&](const std::vector<float>& values) {
      return std::span<const float>(values.data() + key * kv_width, static_cast<size_t>(kv_width));
    };
    if (!equal_bits(of(before.dk), of(after.dk))) return false;
    if (!equal_bits(of(before.dv), of(after.dv))) return false;
  }
  return true;
}

}  // namespace tril::testing
