// Order-exact models against the kernels they describe: the same bits, on numbers of every kind.
//
// The proof for every input (prove/for_every_input.h) rests on this: what it shows of the models
// holds of the kernels as far as they agree. NaN counts as one value: which of its bit patterns an
// operation gives depends on the order of its operands in the machine's registers.
#include <algorithm>
#include <bit>
#include <cstdlib>

#include "kernels/attention_support.h"
#include "kernels/kernel_support.h"
#include "kernels/model_support.h"
#include "tril/kernels/elementwise.h"
#include "tril/kernels/embedding.h"
#include "tril/kernels/gemm.h"
#include "tril/kernels/gemm_int8.h"
#include "tril/kernels/model/attention.h"
#include "tril/kernels/model/linear.h"
#include "tril/kernels/model/rows.h"
#include "tril/kernels/rotary.h"

namespace tril::model_test {
namespace {

namespace model = kernels::model;
using testing::Guarded;
using namespace testing::models;  // NOLINT: what the tests of models share

TEST(Model, ExponentialAndErrorFunction) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  const Parallel parallel(1);
  // Through the activations, which are the kernels that export them.
  for (const auto kind : {kernels::Activation::relu, kernels::Activation::gelu,
                          kernels::Activation::silu, kernels::Activation::gelu_tanh}) {
    compare_many(static_cast<uint64_t>(kind), [&](Random& random) {
      const int64_t size = between(random, 1, 400);
      Numbers numbers(random);
      const std::vector<float> x = numbers.take(size);
      const std::vector<float> gate = numbers.take(size);
      Guarded y(size);
      Guarded gated(size);
      kernels::activation_forward(parallel, kind, size, x.data(), y.data());
      kernels::gated_forward(parallel, kind, size, gate.data(), x.data(), gated.data());
      std::vector<float> expected;
      std::vector<float> expected_gated;
      for (size_t i = 0; i < x.size(); ++i) {
        expected.push_back(model::activated(kind, x[i]));
        expected_gated.push_back(model::gated(kind, gate[i], x[i]));
      }
      EXPECT_TRUE(same_numbers(y.take(), expected));
      EXPECT_TRUE(same_numbers(gated.take(), expected_gated));
      return size;
    });
  }
}

// Floats of all kinds, evenly spaced by their bits.
TEST(Model, ActivationsOverAllFloats) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  const uint64_t step = std::getenv("TRIL_FULL") != nullptr ? 521 : 4099;
  std::vector<float> x;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += step) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  const Parallel parallel(2);
  for (const auto kind : {kernels::Activation::relu, kernels::Activation::gelu,
                          kernels::Activation::silu, kernels::Activation::gelu_tanh}) {
    std::vector<float> y(x.size());
    kernels::activation_forward(parallel, kind, std::ssize(x), x.data(), y.data());
    std::vector<float> expected;
    for (const float each : x) expected.push_back(model::activated(kind, each));
    EXPECT_TRUE(same_numbers(y, expected)) << static_cast<int>(kind);
  }
}

TEST(Model, Norm) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  const Parallel parallel(1);
  compare_many(1, [&](Random& random) {
    kernels::Norm n;
    n.kind = random.below(2) == 0 ? kernels::NormKind::layer : kernels::NormKind::rms;
    n.rows = between(random, 1, 4);
    n.columns = random.below(8) == 0 ? between(random, 500, 1100) : between(random, 1, 100);
    n.epsilon = random.below(2) == 0 ? 1e-5f : 1e-6f;
    Numbers numbers(random);
    const std::vector<float> x = numbers.take(n.rows * n.columns);
    const std::vector<float> weight = numbers.take(n.columns);
    const std::vector<float> bias = numbers.take(n.columns);
    n.weight = weight.data();
    n.bias = random.below(2) == 0 ? bias.data() : nullptr;
    Guarded y(n.rows * n.columns);
    std::vector<float> stats(static_cast<size_t>(2 * n.rows));
    kernels::norm_forward(parallel, n, x.data(), y.data(), stats.data());
    std::vector<float> expected(x.size());
    for (int64_t row = 0; row < n.rows; ++row) {
      model::norm_row<float>({n.kind, n.columns, n.epsilon, n.weight, n.bias},
                             x.data() + row * n.columns, expected.data() + row * n.columns);
    }
    EXPECT_TRUE(same_numbers(y.take(), expected));
    return told_apart(expected);
  });
}

TEST(Model, Product) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  const Parallel parallel(2);
  compare_many(2, [&](Random& random) {
    const int64_t m = random.below(16) == 0 ? between(random, 40, 100) : between(random, 1, 14);
    const int64_t n = between(random, 1, 150);
    const int64_t k = random.below(8) == 0 ? between(random, 500, 1100) : between(random, 0, 70);
    Numbers numbers(random);
    const std::vector<float> a = numbers.take(m * k);
    const std::vector<float> weight = numbers.take(n * k);
    const std::vector<float> bias = numbers.take(n);
    const bool has_bias = random.below(2) == 0;
    const bool rounds = random.below(2) == 0;
    std::vector<float> panels(static_cast<size_t>(kernels::panel_size(k, n)));
    kernels::pack_panels_transposed(parallel, weight.data(), k, n, panels.data());
    std::vector<BFloat16> rounded(panels.size());
    kernels::round_panels(parallel, panels.data(), kernels::panel_size(k, n), rounded.data());
    Guarded c(m * n);
    const float* added = has_bias ? bias.data() : nullptr;
    if (rounds) {
      const kernels::GemmOf<BFloat16> product{.m = m,
                                              .n = n,
                                              .k = k,
                                              .a = a.data(),
                                              .panels = rounded.data(),
                                              .bias = added,
                                              .c = c.data()};
      kernels::gemm(parallel, product);
    } else {
      kernels::gemm(parallel, {.m = m,
                               .n = n,
                               .k = k,
                               .a = a.data(),
                               .panels = panels.data(),
                               .bias = added,
                               .c = c.data()});
    }
    std::vector<float> expected(static_cast<size_t>(m * n));
    model::product<float>(
        a.data(), m, k, n,
        [&](int64_t j, int64_t i) {
          const float w = weight[static_cast<size_t>(j * k + i)];
          return rounds ? model::round_to_bf16(w) : w;
        },
        expected.data());
    if (has_bias) {
      model::add_bias<float>(
          m, n, [&](int64_t j) { return bias[static_cast<size_t>(j)]; }, expected.data());
    }
    EXPECT_TRUE(same_numbers(c.take(), expected));
    return told_apart(expected);
  });
}

// A row that is all zero, too small for a scale, nearly so, or near the largest numbers.
void make_extreme(std::span<float> row, Random& random) {
  constexpr int kPowers[] = {-122, -121, -120, 119, 120};
  const uint32_t which = random.below(std::size(kPowers) + 1);
  for (float& x : row) {
    x = which == std::size(kPowers) ? 0.0f
                                    : std::ldexp(random.uniform(-1.0f, 1.0f), kPowers[which]);
  }
}

TEST(Model, Int8Product) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  const Parallel parallel(2);
  const testing::KeepTarget keep;
  const std::vector<Target> targets = available_targets();
  compare_many(3, [&](Random& random) {
    // They have an instruction of their own on some processors.
    use_target(targets[random.below(static_cast<uint32_t>(targets.size()))]);
    const int64_t m = between(random, 1, 14);
    const int64_t n = between(random, 1, 150);
    const int64_t k = random.below(8) == 0 ? between(random, 500, 2100) : between(random, 0, 70);
    Numbers numbers(random);
    std::vector<float> x = numbers.take(m * k);
    if (random.below(8) == 0) make_extreme(std::span(x).first(static_cast<size_t>(k)), random);
    std::vector<float> weight(static_cast<size_t>(n * k));
    for (float& w : weight) {
      w = std::ldexp(random.uniform(-1.0f, 1.0f), static_cast<int>(random.below(9)));
    }
    if (random.below(8) == 0) make_extreme(std::span(weight).first(static_cast<size_t>(k)), random);
    const std::vector<float> bias = numbers.take(n);
    const bool has_bias = random.below(2) == 0;
    std::vector<int8_t> panels(static_cast<size_t>(kernels::int8_panel_size(k, n)));
    std::vector<float> scales(static_cast<size_t>(n));
    std::vector<int32_t> sums(static_cast<size_t>(n));
    kernels::pack_int8(parallel, weight.data(), n, k, {panels.data(), scales.data(), sums.data()});
    std::vector<uint8_t> a(static_cast<size_t>(m * kernels::int8_padded(k)));
    std::vector<float> a_scales(static_cast<size_t>(m));
    kernels::quantize_rows(parallel, x.data(), m, k, a.data(), a_scales.data());
    Guarded c(m * n);
    const kernels::GemmInt8 product{m,
                                    n,
                                    k,
                                    a.data(),
                                    a_scales.data(),
                                    panels.data(),
                                    scales.data(),
                                    sums.data(),
                                    has_bias ? bias.data() : nullptr,
                                    c.data()};
    kernels::gemm_int8(parallel, {&product, 1});

    // The packed weight is made by the same rule.
    const model::Int8Rows<float> rows = model::quantized(x.data(), m, k);
    const model::Int8Rows<float> packed = model::quantized(weight.data(), n, k);
    std::vector<float> expected(static_cast<size_t>(m * n));
    model::int8_product<float>(
        rows, m, k, n,
        [&](int64_t j, int64_t i) { return packed.values[static_cast<size_t>(j * k + i)]; },
        [&](int64_t j) { return packed.scales[static_cast<size_t>(j)]; }, expected.data());
    if (has_bias) {
      model::add_bias<float>(
          m, n, [&](int64_t j) { return bias[static_cast<size_t>(j)]; }, expected.data());
    }
    EXPECT_TRUE(same_numbers(c.take(), expected));
    return told_apart(expected);
  });
}

TEST(Model, Embedding) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  const Parallel parallel(1);
  compare_many(4, [&](Random& random) {
    const int64_t rows = between(random, 1, 6);
    const int64_t columns = between(random, 1, 70);
    const int64_t entries = 5;
    Numbers numbers(random);
    const std::vector<float> table = numbers.take(entries * columns);
    const std::vector<float> positions = numbers.take(entries * columns);
    std::vector<int32_t> ids;
    std::vector<int32_t> places;
    for (int64_t row = 0; row < rows; ++row) {
      ids.push_back(static_cast<int32_t>(random.below(entries)));
      places.push_back(static_cast<int32_t>(random.below(entries)));
    }
    const bool placed = random.below(2) == 0;
    const float scale = numbers.next();
    Guarded out(rows * columns);
    kernels::embedding_forward(parallel,
                               {.rows = rows,
                                .columns = columns,
                                .scale = scale,
                                .ids = ids.data(),
                                .table = table.data(),
                                .position_ids = placed ? places.data() : nullptr,
                                .position_table = placed ? positions.data() : nullptr},
                               out.data());
    std::vector<float> expected;
    for (size_t row = 0; row < ids.size(); ++row) {
      for (int64_t c = 0; c < columns; ++c) {
        expected.push_back(model::embedded(
            table[static_cast<size_t>(ids[row] * columns + c)], scale,
            placed ? &positions[static_cast<size_t>(places[row] * columns + c)] : nullptr));
      }
    }
    EXPECT_TRUE(same_numbers(out.take(), expected));
    return rows * columns;
  });
}

TEST(Model, RotaryAndSum) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  const Parallel parallel(1);
  compare_many(5, [&](Random& random) {
    const int64_t rows = between(random, 1, 5);
    const int64_t heads = between(random, 1, 3);
    const int64_t head_dim = 2 * between(random, 1, 36);
    const int64_t size = rows * heads * head_dim;
    std::vector<float> table(static_cast<size_t>(50 * head_dim));
    kernels::fill_rotary_table(50, kernels::rotary_frequencies(head_dim, 10000.0),
                               kernels::Angles::exact, table.data());
    std::vector<int32_t> positions;
    for (int64_t row = 0; row < rows; ++row) {
      positions.push_back(static_cast<int32_t>(random.below(50)));
    }
    Numbers numbers(random);
    const std::vector<float> x = numbers.take(size);
    const std::vector<float> other = numbers.take(size);
    Guarded y(size);
    kernels::rotary(parallel, {rows, heads, head_dim, positions.data(), table.data()},
                    kernels::Turn::forwards, x.data(), y.data());
    std::vector<float> expected(x.size());
    for (int64_t row = 0; row < rows; ++row) {
      const float* cosines = table.data() + positions[static_cast<size_t>(row)] * head_dim;
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t at = (row * heads + head) * head_dim;
        model::rotated_head<float>(head_dim, cosines, cosines + head_dim / 2, x.data() + at,
                                   expected.data() + at);
      }
    }
    EXPECT_TRUE(same_numbers(y.take(), expected));
    Guarded sum(size);
    kernels::add(parallel, size, x.data(), other.data(), sum.data());
    for (size_t i = 0; i < x.size(); ++i) expected[i] = model::add(x[i], other[i]);
    EXPECT_TRUE(same_numbers(sum.take(), expected));
    return size;
  });
}

std::vector<float> modelled_attention(const testing::Case& c) {
  std::vector<float> out(c.q.size(), 0.0f);
  const int64_t offsets = static_cast<int64_t>(c.bias.size()) / c.n.heads;
  for (int64_t row = 0; row < c.n.query; ++row) {
    const Interval& interval = c.rows[static_cast<size_t>(row)];
    if (interval.empty()) continue;
    for (int64_t head = 0; head < c.n.heads; ++head) {
      const int64_t at = (row * c.n.heads + head) * c.n.head_dim;
      const PackedKeys keys{c, interval.origin, head / (c.n.heads / c.n.kv_heads)};
      model::attention_row<float>(
          {.head_dim = c.n.head_dim,
           .scale = c.scale(),
           .lo = interval.lo - interval.origin,
           .hi = interval.hi - interval.origin,
           .q = c.q.data() + at,
           .bias = c.bias.empty() ? nullptr : c.bias.data() + head * offsets,
           .bias_zero = c.bias_zero,
           .position = c.positions.empty() ? 0 : c.positions[static_cast<size_t>(row)]},
          keys, out.data() + at);
    }
  }
  return out;
}

TEST(Model, Attention) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  compare_many(6, [&](Random& random) {
    const testing::Case c = wild_case(random);
    const std::vector<float> expected = modelled_attention(c);
    EXPECT_TRUE(same_numbers(testing::run(c, 2).out, expected));
    return told_apart(expected);
  });
}

// Three spans: their merging.
TEST(Model, AttentionOfLongRows) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  Random random(7);
  const int32_t length = 2 * static_cast<int32_t>(kernels::kKeySpan) + 100;
  testing::Case c = testing::make_case({{0, length}}, testing::Kind::causal, 1, 1, 4, 1, false, 7);
  for (size_t i = 0; i < c.q.size(); ++i) c.q[i] *= 8.0f;
  // The last rows, and what they give alone.
  const std::vector<float> out = testing::run(c, 2).out;
  const std::vector<float> expected = modelled_attention(c);
  EXPECT_TRUE(same_numbers(std::span(out).last(400), std::span(expected).last(400)));
}

}  // namespace
}  // namespace tril::model_test
