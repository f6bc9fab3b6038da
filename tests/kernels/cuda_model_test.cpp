// Order-exact models of CUDA's forward kernels against the kernels: the same bits, in fp32 and in
// bf16, on numbers of every kind; NaN counts as one value (model_test.cpp does this for the CPU).
//
// Where a kernel uses what only a GPU computes, its model gets that from the GPU, one operation at
// a time (cuda_cases.h).
#include "kernels/cuda_cases.h"
#include "kernels/kernel_support.h"
#include "kernels/model_support.h"
#include "kernels/rows_support.h"
#include "tril/kernels/model/cuda_attention.h"
#include "tril/kernels/model/cuda_linear.h"
#include "tril/kernels/model/cuda_rows.h"
#include "tril/kernels/model/linear.h"
#include "tril/ops/attention.h"
#include "tril/ops/linear.h"
#include "tril/ops/rows.h"

namespace tril::cuda_model_test {
namespace {

namespace model = kernels::model;
using kernels::Activation;
using testing::activations_of;
using testing::Cases;
using testing::context_here;
using testing::floats_of;
using testing::here;
using testing::models::between;
using testing::models::Numbers;
using testing::models::outputs_wanted;
using testing::models::same_numbers;
using testing::models::told_apart;

constexpr const char* kOnCuda = "models of CUDA's kernels";
bool elsewhere() { return testing::device() == Device::cpu; }
bool in_bf16() { return testing::activations() == DType::bf16; }

// As a kernel stores its results here.
float stored(float x) { return in_bf16() ? model::round_to_bf16(x) : x; }
Cases stored(const Cases& x) { return in_bf16() ? round_to_bf16(x) : x; }

// Draws cases until enough outputs were compared. compare(random) returns how many those were.
template <class F>
void compare_many(uint64_t seed, int64_t least_cases, const F& compare) {
  Random random(seed);
  int64_t compared = 0;
  for (int64_t cases = 0;
       (compared < outputs_wanted() || cases < least_cases) && !::testing::Test::HasFailure();
       ++cases) {
    compared += compare(random);
  }
}

constexpr Activation kActivations[] = {Activation::relu, Activation::gelu, Activation::silu,
                                       Activation::gelu_tanh};

void compare_activations(Activation kind, const std::vector<float>& x,
                         const std::vector<float>& gate) {
  Context& context = context_here();
  const Shape shape{1, std::ssize(x)};
  const Tensor on_device = activations_of(context, shape, x);
  const Tensor y = ops::activation(context, kind, on_device);
  EXPECT_TRUE(same_numbers(floats_of(y), stored(model::cuda_activated(kind, Cases{x})).of))
      << static_cast<int>(kind);
  const Tensor gated = ops::gated(context, kind, activations_of(context, shape, gate), on_device);
  EXPECT_TRUE(
      same_numbers(floats_of(gated), stored(model::cuda_gated(kind, Cases{gate}, Cases{x})).of))
      << static_cast<int>(kind);
}

TEST(CudaModel, Activations) {
  if (elsewhere()) GTEST_SKIP() << kOnCuda;
  for (const Activation kind : kActivations) {
    compare_many(static_cast<uint64_t>(kind), 50, [&](Random& random) {
      const int64_t size = between(random, 2, 5000);
      const std::vector<float> x = here(Numbers(random).take(size));
      compare_activations(kind, x, here(Numbers(random).take(size)));
      return told_apart(x);
    });
  }
}

// Floats of all kinds, evenly spaced by their bits.
TEST(CudaModel, ActivationsOverAllFloats) {
  if (elsewhere()) GTEST_SKIP() << kOnCuda;
  const uint64_t step = std::getenv("TRIL_FULL") != nullptr ? 521 : 4099;
  std::vector<float> x;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += step) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  x = here(std::move(x));
  for (const Activation kind : kActivations) compare_activations(kind, x, x);
}

TEST(CudaModel, Norm) {
  if (elsewhere()) GTEST_SKIP() << kOnCuda;
  compare_many(1, 300, [&](Random& random) {
    const auto kind = random.below(2) == 0 ? kernels::NormKind::layer : kernels::NormKind::rms;
    const int64_t rows = between(random, 1, random.below(8) == 0 ? 1100 : 6);
    int64_t columns = random.below(8) == 0 ? between(random, 500, 1100) : between(random, 1, 100);
    if (random.below(2) == 0) columns = (columns + 7) / 8 * 8;  // whole packs, as models have
    const float epsilon = random.below(2) == 0 ? 1e-5f : 1e-6f;
    Numbers numbers(random);
    const std::vector<float> x = here(numbers.take(rows * columns));
    const std::vector<float> weight = numbers.take(columns);
    const std::vector<float> bias = numbers.take(columns);
    const bool has_bias = random.below(2) == 0;
    Context& context = context_here();
    const auto vector = [&](const std::vector<float>& values) {
      return testing::tensor_of(context.arena, {columns}, values);
    };
    const Tensor given = activations_of(context, {rows, columns}, x);
    const ops::NormResult result = ops::norm(context, kind, epsilon, given, vector(weight),
                                             has_bias ? vector(bias) : Tensor());
    const model::NormOf<float> n{kind, columns, epsilon, weight.data(),
                                 has_bias ? bias.data() : nullptr};
    std::vector<float> expected(x.size());
    for (int64_t row = 0; row < rows; ++row) {
      model::cuda_norm_row(n, x.data() + row * columns, expected.data() + row * columns);
    }
    for (float& y : expected) y = stored(y);
    EXPECT_TRUE(same_numbers(floats_of(result.y), expected))
        << rows << " rows of " << columns << " columns";
    return told_apart(expected);
  });
}

// A sum and its norm in one kernel have the bits of the two.
TEST(CudaModel, SumAndNormOfIt) {
  if (elsewhere()) GTEST_SKIP() << kOnCuda;
  compare_many(2, 200, [&](Random& random) {
    const int64_t rows = between(random, 1, 6);
    const int64_t columns = between(random, 1, 600);
    Numbers numbers(random);
    const std::vector<float> x = here(numbers.take(rows * columns));
    const std::vector<float> f = here(numbers.take(rows * columns));
    const std::vector<float> weight = numbers.take(columns);
    Context& context = context_here();
    const Tensor a = activations_of(context, {rows, columns}, x);
    const Tensor b = activations_of(context, {rows, columns}, f);
    const Tensor w = testing::tensor_of(context.arena, {columns}, weight);
    const Tensor sum = ops::add(context, a, b);
    const ops::ResidualNorm both =
        ops::residual_norm(context, kernels::NormKind::layer, 1e-5f, a, b, {}, w, {});
    std::vector<float> expected_sum, expected(x.size());
    for (size_t i = 0; i < x.size(); ++i) expected_sum.push_back(stored(model::add(x[i], f[i])));
    const model::NormOf<float> n{kernels::NormKind::layer, columns, 1e-5f, weight.data(), nullptr};
    for (int64_t row = 0; row < rows; ++row) {
      model::cuda_norm_row(n, expected_sum.data() + row * columns, expected.data() + row * columns);
    }
    for (float& y : expected) y = stored(y);
    EXPECT_TRUE(same_numbers(floats_of(sum), expected_sum));
    EXPECT_TRUE(same_numbers(floats_of(both.s), expected_sum));
    EXPECT_TRUE(same_numbers(floats_of(both.y), expected)) << rows << " rows of " << columns;
    return told_apart(expected);
  });
}

TEST(CudaModel, Embedding) {
  if (elsewhere()) GTEST_SKIP() << kOnCuda;
  compare_many(3, 200, [&](Random& random) {
    const int64_t rows = between(random, 1, 100);
    const int64_t columns = between(random, 1, 70);
    const int64_t entries = 5;
    Numbers numbers(random);
    const std::vector<float> table = here(numbers.take(entries * columns));
    const std::vector<float> positions = numbers.take(entries * columns);
    std::vector<int32_t> ids, places;
    for (int64_t row = 0; row < rows; ++row) {
      ids.push_back(static_cast<int32_t>(random.below(entries)));
      places.push_back(static_cast<int32_t>(random.below(entries)));
    }
    const bool placed = random.below(2) == 0;
    Context& context = context_here();
    ops::Lookup lookup;
    lookup.ids = ids;
    lookup.table = testing::tensor_of(context.arena, {entries, columns}, table);
    lookup.scale = numbers.next();
    if (placed) {
      lookup.position_ids = places;
      lookup.positions = testing::tensor_of(context.arena, {entries, columns}, positions);
    }
    std::vector<float> expected;
    for (size_t row = 0; row < ids.size(); ++row) {
      for (int64_t c = 0; c < columns; ++c) {
        const auto at = [&](int32_t entry) { return static_cast<size_t>(entry * columns + c); };
        expected.push_back(stored(model::embedded(table[at(ids[row])], lookup.scale,
                                                  placed ? &positions[at(places[row])] : nullptr)));
      }
    }
    EXPECT_TRUE(same_numbers(floats_of(ops::embedding(context, lookup)), expected));
    return told_apart(expected);
  });
}

TEST(CudaModel, Rotary) {
  if (elsewhere()) GTEST_SKIP() << kOnCuda;
  compare_many(4, 200, [&](Random& random) {
    const int64_t rows = between(random, 1, 60);
    const int64_t heads = between(random, 1, 3);
    const int64_t head_dim = 2 * between(random, 1, 36);
    std::vector<float> table(static_cast<size_t>(50 * head_dim));
    kernels::fill_rotary_table(50, kernels::rotary_frequencies(head_dim, 10000.0),
                               kernels::Angles::exact, table.data());
    std::vector<int32_t> positions;
    for (int64_t row = 0; row < rows; ++row) {
      positions.push_back(static_cast<int32_t>(random.below(50)));
    }
    const std::vector<float> x = here(Numbers(random).take(rows * heads * head_dim));
    Context& context = context_here();
    const Tensor y = ops::rotary(context, ops::Turn::forwards,
                                 activations_of(context, {rows, heads, head_dim}, x), positions,
                                 testing::tensor_of(context.arena, {50, head_dim}, table));
    std::vector<float> expected(x.size());
    for (int64_t row = 0; row < rows; ++row) {
      const float* cosines = table.data() + positions[static_cast<size_t>(row)] * head_dim;
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t at = (row * heads + head) * head_dim;
        model::rotated_head<float>(head_dim, cosines, cosines + head_dim / 2, x.data() + at,
                                   expected.data() + at);
      }
    }
    for (float& value : expected) value = stored(value);
    EXPECT_TRUE(same_numbers(floats_of(y), expected));
    return told_apart(expected);
  });
}

// ---- products
struct ProductCase {
  int64_t m = 0, n = 0, k = 0;
  std::vector<float> x, weight, bias;
};
// Of every size that another kernel takes: up to 64 rows, up to 256, and more; the last go to
// cuBLASLt if n and k are multiples of eight.
ProductCase product_case(Random& random) {
  ProductCase c;
  const uint32_t size = random.below(16);
  c.m = size == 0   ? between(random, 257, 600)
        : size <= 2 ? between(random, 60, 260)
                    : between(random, 1, 20);
  c.n = between(random, 1, 150);
  c.k = size > 2 && random.below(8) == 0 ? between(random, 500, 1100) : between(random, 0, 130);
  if (random.below(2) == 0) {
    c.n = (c.n + 7) / 8 * 8;
    c.k = (c.k + 7) / 8 * 8;
  }
  Numbers numbers(random);
  c.x = here(numbers.take(c.m * c.k));
  c.weight = here(numbers.take(c.n * c.k));
  c.bias = here(numbers.take(c.n));
  return c;
}
// Each output is a case.
Cases modelled_product(const ProductCase& c, bool has_bias) {
  std::vector<Cases> x(static_cast<size_t>(c.k)), w(static_cast<size_t>(c.k));
  Cases bias;
  for (int64_t row = 0; row < c.m; ++row) {
    for (int64_t column = 0; column < c.n; ++column) {
      for (int64_t k = 0; k < c.k; ++k) {
        const auto at = static_cast<size_t>(k);
        x[at].of.push_back(c.x[static_cast<size_t>(row * c.k + k)]);
        w[at].of.push_back(c.weight[static_cast<size_t>(column * c.k + k)]);
      }
      bias.of.push_back(has_bias ? c.bias[static_cast<size_t>(column)] : 0.0f);
    }
  }
  Cases sum;
  const auto weight = [&](int64_t, int64_t k) { return w[static_cast<size_t>(k)]; };
  if (in_bf16()) {
    model::tensor_core_product(x.data(), 1, c.k, 1, weight, &sum);
  } else {
    model::product(x.data(), 1, c.k, 1, weight, &sum);
  }
  sum.of.resize(bias.of.size(), sum.of[0]);  // zero where there are no terms
  if (has_bias)
    model::add_bias(
        1, 1, [&](int64_t) { return bias; }, &sum);
  return sum;
}

TEST(CudaModel, Product) {
  if (elsewhere()) GTEST_SKIP() << kOnCuda;
  compare_many(5, 300, [&](Random& random) {
    const ProductCase c = product_case(random);
    const bool has_bias = random.below(2) == 0;
    Context& context = context_here();
    ops::LinearWeight linear =
        ops::linear_weight(testing::tensor_of(context.arena, {c.n, c.k}, c.weight),
                           has_bias ? testing::tensor_of(context.arena, {c.n}, c.bias) : Tensor());
    testing::pack(context, linear, context.arena);
    const Tensor x = activations_of(context, {c.m, c.k}, c.x);
    const Cases expected = modelled_product(c, has_bias);
    const Tensor sums = ops::linear(context, x, linear, ops::LinearOutput::sums);
    EXPECT_TRUE(same_numbers(floats_of(sums), expected.of)) << c.m << ", " << c.n << ", " << c.k;
    const Tensor y = ops::linear(context, x, linear);
    EXPECT_TRUE(same_numbers(floats_of(y), stored(expected).of))
        << c.m << ", " << c.n << ", " << c.k;
    if (ops::has_linear_relu(context, linear)) {
      const Cases relu = stored(model::cuda_activated(Activation::relu, stored(expected)));
      EXPECT_TRUE(same_numbers(floats_of(ops::linear_relu(context, x, linear)), relu.of))
          << c.m << ", " << c.n << ", " << c.k;
    }
    return told_apart(expected.of);
  });
}

// ---- attention
// A batch of equal sequences: a row of it is one case for every sequence and head.
struct EqualSequences {
  testing::Case c;
  int64_t rows = 0;  // of a sequence

  EqualSequences(Random& random, testing::Kind kind, int32_t sequences, int32_t length,
                 int64_t kv_heads, int64_t group, int64_t head_dim, int32_t extent, bool has_bias) {
    std::vector<Segment> segments;
    for (int32_t i = 0; i < sequences; ++i) segments.push_back({2 + i * (length + 1), length});
    c = testing::make_case(segments, kind, kv_heads * group, kv_heads, head_dim, extent, has_bias,
                           random.below(1u << 30));
    rows = kind == testing::Kind::cross ? extent : length;
    testing::models::make_wild(c, random);
    for (auto* values : {&c.q, &c.k, &c.v}) *values = here(std::move(*values));
  }

  // f(sequence, head) for every case.
  template <class F>
  Cases cases(const F& f) const {
    Cases result;
    for (int64_t i = 0; i < std::ssize(c.segments); ++i) {
      for (int64_t head = 0; head < c.n.heads; ++head) result.of.push_back(f(i, head));
    }
    return result;
  }
  int64_t key_at(int64_t sequence, int64_t head, int64_t key, int64_t d) const {
    const int64_t entry = c.segments[static_cast<size_t>(sequence)].origin + key;
    return (entry * c.n.kv_heads + head / (c.n.heads / c.n.kv_heads)) * c.n.head_dim + d;
  }
  // Of row `row` of every sequence.
  int64_t row_at(int64_t sequence, int64_t head, int64_t row, int64_t d) const {
    return ((sequence * rows + row) * c.n.heads + head) * c.n.head_dim + d;
  }
  Cases key(int64_t key, int64_t d) const {
    return cases(
        [&](int64_t i, int64_t head) { return c.k[static_cast<size_t>(key_at(i, head, key, d))]; });
  }
  Cases value(int64_t key, int64_t d) const {
    return cases(
        [&](int64_t i, int64_t head) { return c.v[static_cast<size_t>(key_at(i, head, key, d))]; });
  }
  std::vector<Cases> of_row(const std::vector<float>& values, int64_t row) const {
    std::vector<Cases> result;
    for (int64_t d = 0; d < c.n.head_dim; ++d) {
      result.push_back(cases([&](int64_t i, int64_t head) {
        return values[static_cast<size_t>(row_at(i, head, row, d))];
      }));
    }
    return result;
  }
  // By offset from the row's position, from -length on.
  std::vector<Cases> bias() const {
    std::vector<Cases> result;
    if (c.bias.empty()) return result;
    const int64_t offsets = std::ssize(c.bias) / c.n.heads;
    for (int64_t offset = -reach(); offset <= reach(); ++offset) {
      result.push_back(cases([&](int64_t, int64_t head) {
        return c.bias[static_cast<size_t>(head * offsets + c.bias_zero + offset)];
      }));
    }
    return result;
  }
  int64_t reach() const { return std::max<int64_t>(rows, c.segments[0].length); }

  // The outputs and, behind them, what the backward pass gets: the largest score and 1 / sum.
  std::vector<Cases> modelled(int64_t row) const {
    const Interval& interval = c.rows[static_cast<size_t>(row)];
    const std::vector<Cases> q = of_row(c.q, row);
    const std::vector<Cases> table = bias();
    const model::AttentionRow<Cases> args{.head_dim = c.n.head_dim,
                                          .scale = c.scale(),
                                          .lo = interval.lo - interval.origin,
                                          .hi = interval.hi - interval.origin,
                                          .q = q.data(),
                                          .bias = table.empty() ? nullptr : table.data(),
                                          .bias_zero = reach(),
                                          .position = c.positions[static_cast<size_t>(row)]};
    std::vector<Cases> out(q.size() + 2);
    Cases* stats = out.data() + q.size();
    if (in_bf16()) {
      model::tensor_core_attention_row(args, *this, out.data(), stats);
    } else {
      model::cuda_attention_row(args, *this, out.data(), stats);
    }
    return out;
  }
  // The same of a row of the kernel's stats [row, heads, 2].
  Cases of_stats(const std::vector<float>& stats, int64_t row, int64_t which) const {
    return cases([&](int64_t i, int64_t head) {
      return stats[static_cast<size_t>(((i * rows + row) * c.n.heads + head) * 2 + which)];
    });
  }
  // In one pass, as in training; the kernels for tiles of rows and for long sequences.
  struct Together {
    std::vector<float> out, stats;
  };
  Together together() const {
    Context& context = context_here();
    const auto upload = [&](const Shape& shape, const std::vector<float>& values) {
      return activations_of(context, shape, values);
    };
    const ops::AttentionResult result =
        ops::attention(context, upload(c.q_shape(), c.q), upload(c.k_shape(), c.k),
                       upload(c.k_shape(), c.v), c.rows, testing::options_of(c, context.arena));
    return {floats_of(result.out), floats_of(result.stats)};
  }
};

// Compares these rows; returns how many outputs those were.
int64_t compare_rows(const EqualSequences& all, const std::vector<int64_t>& rows) {
  const EqualSequences::Together together = all.together();
  int64_t compared = 0;
  for (const int64_t row : rows) {
    const std::vector<Cases> expected = all.modelled(row);
    const std::vector<Cases> given = all.of_row(together.out, row);
    // The row of the first sequence in a cache, as in decoding.
    const std::vector<float> cached = testing::cached_rows(all.c, all.c.segments[0], row, row + 1);
    for (int64_t d = 0; d < all.c.n.head_dim; ++d) {
      const auto at = static_cast<size_t>(d);
      EXPECT_TRUE(same_numbers(given[at].of, expected[at].of))
          << "column " << d << " of row " << row << ", " << all.c.segments[0].length << " keys, "
          << all.c.n.head_dim << " columns";
      std::vector<float> alone;
      for (int64_t head = 0; head < all.c.n.heads; ++head) {
        alone.push_back(cached[static_cast<size_t>(all.row_at(0, head, 0, d))]);
      }
      EXPECT_TRUE(same_numbers(alone, std::span(expected[at].of).first(alone.size())))
          << "column " << d << " of row " << row << " in a cache";
      compared += told_apart(expected[at].of);
    }
    // A sum of bf16 weights is often exact, and what is rounded differently seldom shows in a bf16
    // output: here it does. A largest score of zero has no sign.
    const auto width = static_cast<size_t>(all.c.n.head_dim);
    const auto unsigned_zero = [](const Cases& x) { return add(x, Cases{{0.0f}}); };
    EXPECT_TRUE(same_numbers(unsigned_zero(all.of_stats(together.stats, row, 0)).of,
                             unsigned_zero(expected[width]).of))
        << "the largest score of row " << row;
    EXPECT_TRUE(same_numbers(all.of_stats(together.stats, row, 1).of, expected[width + 1].of))
        << "the sum of row " << row;
    if (::testing::Test::HasFailure()) break;
  }
  return compared;
}

TEST(CudaModel, Attention) {
  if (elsewhere()) GTEST_SKIP() << kOnCuda;
  compare_many(6, 60, [&](Random& random) {
    const auto kind = testing::kAllKinds[random.below(std::size(testing::kAllKinds))];
    const bool several_blocks = random.below(4) == 0;
    const auto length = static_cast<int32_t>(between(random, 1, several_blocks ? 150 : 40));
    constexpr int64_t kWideHeads[] = {47, 48, 64, 80, 128, 130};
    const int64_t head_dim = random.below(8) == 0 ? kWideHeads[random.below(std::size(kWideHeads))]
                                                  : between(random, 1, 40);
    const EqualSequences all(random, kind, several_blocks ? 24 : 80, length, between(random, 1, 2),
                             between(random, 1, 2), head_dim,
                             static_cast<int32_t>(between(random, 1, 20)), random.below(2) == 0);
    std::vector<int64_t> rows{all.rows - 1};
    if (all.rows > 1) rows.push_back(between(random, 0, all.rows - 2));
    return compare_rows(all, rows);
  });
}

// Sequences of more than 128 keys and heads of 64 or 128 columns without a bias have a kernel of
// their own in bf16.
TEST(CudaModel, AttentionOfLongSequences) {
  if (elsewhere()) GTEST_SKIP() << kOnCuda;
  Random random(7);
  for (const int64_t head_dim : {64, 128}) {
    for (const auto kind : {testing::Kind::causal, testing::Kind::window, testing::Kind::full}) {
      const EqualSequences all(random, kind, 20, 200, 1, 2, head_dim, 140, false);
      compare_rows(all, {63, 140, 199});
    }
  }
}

// Three spans: their merging, and a row that ends with a span.
TEST(CudaModel, AttentionOverSpans) {
  if (elsewhere()) GTEST_SKIP() << kOnCuda;
  Random random(8);
  const int32_t length = 2 * static_cast<int32_t>(kernels::cuda::kKeySpan) + 100;
  EqualSequences all(random, testing::Kind::causal, 2, length, 1, 1, 4, 1, false);
  for (auto* values : {&all.c.q, &all.c.k, &all.c.v}) {
    *values = here(testing::random_floats(random, std::ssize(*values)));
  }
  for (float& q : all.c.q) q *= 8.0f;
  compare_rows(all, {2047, 2048, 4095, length - 1});
}

}  // namespace
}  // namespace tril::cuda_model_test
