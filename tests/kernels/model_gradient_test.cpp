// Order-exact models of gradients and of the loss against the kernels they describe: the same bits,
// on numbers of every kind. See model_test.cpp.
#include "kernels/kernel_support.h"
#include "kernels/model_support.h"
#include "tril/kernels/cross_entropy.h"
#include "tril/kernels/elementwise.h"
#include "tril/kernels/embedding.h"
#include "tril/kernels/gemm.h"
#include "tril/kernels/model/attention_gradient.h"
#include "tril/kernels/model/cross_entropy.h"
#include "tril/kernels/model/linear.h"
#include "tril/kernels/model/linear_gradient.h"
#include "tril/kernels/rotary.h"

namespace tril::model_gradient_test {
namespace {

namespace model = kernels::model;
using testing::Guarded;
using namespace testing::models;  // NOLINT: what the tests of models share

constexpr kernels::Activation kActivations[] = {
    kernels::Activation::relu, kernels::Activation::gelu, kernels::Activation::silu,
    kernels::Activation::gelu_tanh};

// Mostly a few tokens, sometimes more than one slice of a sum over tokens.
int64_t some_tokens(Random& random) {
  return random.below(12) == 0 ? between(random, 500, 1100) : between(random, 1, 20);
}

TEST(ModelGradient, Activations) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  const Parallel parallel(1);
  for (const auto kind : kActivations) {
    compare_many(10 + static_cast<uint64_t>(kind), [&](Random& random) {
      const int64_t size = between(random, 1, 400);
      Numbers numbers(random);
      const std::vector<float> x = numbers.take(size);
      const std::vector<float> gate = numbers.take(size);
      const std::vector<float> dy = numbers.take(size);
      Guarded dx(size), dgate(size), gated_dx(size);
      kernels::activation_backward(parallel, kind, size, x.data(), dy.data(), dx.data());
      kernels::gated_backward(parallel, kind, size, gate.data(), x.data(), dy.data(), dgate.data(),
                              gated_dx.data());
      std::vector<float> expected, expected_gate, expected_gated;
      for (size_t i = 0; i < x.size(); ++i) {
        expected.push_back(model::activation_gradient(kind, x[i], dy[i]));
        expected_gate.push_back(model::gate_gradient(kind, gate[i], x[i], dy[i]));
        expected_gated.push_back(model::gated_gradient(kind, gate[i], dy[i]));
      }
      EXPECT_TRUE(same_numbers(dx.take(), expected));
      EXPECT_TRUE(same_numbers(dgate.take(), expected_gate));
      EXPECT_TRUE(same_numbers(gated_dx.take(), expected_gated));
      return told_apart(expected);
    });
  }
}

// Floats of all kinds, evenly spaced by their bits.
TEST(ModelGradient, SlopesOverAllFloats) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  const uint64_t step = std::getenv("TRIL_FULL") != nullptr ? 521 : 4099;
  std::vector<float> x;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += step) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  const std::vector<float> dy(x.size(), 1.0f);
  const Parallel parallel(2);
  for (const auto kind : kActivations) {
    std::vector<float> dx(x.size());
    kernels::activation_backward(parallel, kind, std::ssize(x), x.data(), dy.data(), dx.data());
    std::vector<float> expected;
    for (const float each : x) expected.push_back(model::activation_gradient(kind, each, 1.0f));
    EXPECT_TRUE(same_numbers(dx, expected)) << static_cast<int>(kind);
  }
}

TEST(ModelGradient, Norm) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  const Parallel parallel(2);
  compare_many(20, [&](Random& random) {
    kernels::Norm n;
    n.kind = random.below(2) == 0 ? kernels::NormKind::layer : kernels::NormKind::rms;
    n.rows = some_tokens(random);
    n.columns = n.rows > 20 ? between(random, 1, 20) : between(random, 1, 200);
    Numbers numbers(random);
    const std::vector<float> x = numbers.take(n.rows * n.columns);
    const std::vector<float> dy = numbers.take(n.rows * n.columns);
    const std::vector<float> weight = numbers.take(n.columns);
    n.weight = weight.data();
    Guarded y(n.rows * n.columns), stats(2 * n.rows);
    kernels::norm_forward(parallel, n, x.data(), y.data(), stats.data());
    const bool has_bias = random.below(2) == 0;
    Guarded dx(n.rows * n.columns), dweight(n.columns), dbias(n.columns);
    kernels::norm_backward(parallel, n, x.data(), stats.data(), dy.data(), dx.data(),
                           dweight.data(), has_bias ? dbias.data() : nullptr);

    const model::NormOf<float> args{n.kind, n.columns, n.epsilon, n.weight, nullptr};
    std::vector<float> expected_stats(static_cast<size_t>(2 * n.rows)), expected(x.size()),
        expected_weight(weight.size()), expected_bias(weight.size());
    for (int64_t row = 0; row < n.rows; ++row) {
      const int64_t at = row * n.columns;
      model::norm_row(args, x.data() + at, expected.data() + at, expected_stats.data() + 2 * row);
      model::norm_row_gradient(args, x.data() + at, expected_stats.data() + 2 * row, dy.data() + at,
                               expected.data() + at);
    }
    for (int64_t column = 0; column < n.columns; ++column) {
      model::norm_column_gradient(n.rows, n.columns, column, x.data(), expected_stats.data(),
                                  dy.data(), expected_weight.data(),
                                  has_bias ? expected_bias.data() : nullptr);
    }
    EXPECT_TRUE(same_numbers(stats.take(), expected_stats));
    EXPECT_TRUE(same_numbers(dx.take(), expected));
    EXPECT_TRUE(same_numbers(dweight.take(), expected_weight));
    if (has_bias) {
      EXPECT_TRUE(same_numbers(dbias.take(), expected_bias));
    }
    return told_apart(expected_weight) + told_apart(expected_bias);
  });
}

// dy W, as a product with the weight itself.
TEST(ModelGradient, LinearInput) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  const Parallel parallel(2);
  compare_many(21, [&](Random& random) {
    const int64_t rows = between(random, 1, 14);
    const int64_t out = random.below(8) == 0 ? between(random, 500, 1100) : between(random, 0, 70);
    const int64_t in = between(random, 1, 150);
    Numbers numbers(random);
    const std::vector<float> dy = numbers.take(rows * out);
    const std::vector<float> weight = numbers.take(out * in);
    std::vector<float> panels(static_cast<size_t>(kernels::panel_size(out, in)));
    kernels::pack_panels(parallel, weight.data(), out, in, panels.data());
    Guarded dx(rows * in);
    kernels::gemm(
        parallel,
        {.m = rows, .n = in, .k = out, .a = dy.data(), .panels = panels.data(), .c = dx.data()});
    std::vector<float> expected(static_cast<size_t>(rows * in));
    model::product<float>(
        dy.data(), rows, out, in,
        [&](int64_t i, int64_t output) { return weight[static_cast<size_t>(output * in + i)]; },
        expected.data());
    EXPECT_TRUE(same_numbers(dx.take(), expected));
    return told_apart(expected);
  });
}

// The gradients of weight and bias, at once and as one more slice of a sum.
TEST(ModelGradient, LinearWeightAndBias) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  const Parallel parallel(2);
  compare_many(22, [&](Random& random) {
    const bool adds = random.below(3) == 0;
    const int64_t tokens = adds ? between(random, 1, 40) : some_tokens(random);
    const int64_t out = between(random, 1, 40);
    const int64_t in = between(random, 1, 90);
    Numbers numbers(random);
    const std::vector<float> dy = numbers.take(tokens * out);
    const std::vector<float> x = numbers.take(tokens * in);
    std::vector<float> before = numbers.take(out * in);
    std::vector<float> panels(static_cast<size_t>(kernels::panel_size(tokens, in)));
    kernels::pack_panels(parallel, x.data(), tokens, in, panels.data());
    std::vector<float> transposed(dy.size());
    kernels::transpose(parallel, dy.data(), tokens, out, transposed.data());
    const bool in_place = random.below(2) == 0;
    std::vector<float> dw = before;
    kernels::gemm(parallel, {.m = out,
                             .n = in,
                             .k = tokens,
                             .a = in_place ? dy.data() : transposed.data(),
                             .panels = panels.data(),
                             .c = dw.data(),
                             .summation = kernels::Summation::token_slices,
                             .a_transposed = in_place,
                             .adds = adds});
    for (int64_t output = 0; output < out; ++output) {
      model::weight_gradient_row<float>(tokens, out, in, output, dy.data(), x.data(), adds,
                                        before.data() + output * in);
    }
    EXPECT_TRUE(same_numbers(dw, before));
    Guarded db(out);
    kernels::column_sums(parallel, dy.data(), tokens, out, db.data());
    std::vector<float> expected;
    for (int64_t column = 0; column < out; ++column) {
      expected.push_back(model::column_sum(tokens, out, column, dy.data()));
    }
    EXPECT_TRUE(same_numbers(db.take(), expected));
    return told_apart(before);
  });
}

TEST(ModelGradient, BiasAlone) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  const Parallel parallel(2);
  compare_many(23, [&](Random& random) {
    const int64_t tokens = some_tokens(random);
    const int64_t columns = between(random, 200, 400);
    Numbers numbers(random);
    const std::vector<float> dy = numbers.take(tokens * columns);
    Guarded db(columns);
    kernels::column_sums(parallel, dy.data(), tokens, columns, db.data());
    std::vector<float> expected;
    for (int64_t column = 0; column < columns; ++column) {
      expected.push_back(model::column_sum(tokens, columns, column, dy.data()));
    }
    EXPECT_TRUE(same_numbers(db.take(), expected));
    return told_apart(expected);
  });
}

TEST(ModelGradient, Embedding) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  const Parallel parallel(2);
  compare_many(24, [&](Random& random) {
    const int64_t rows = between(random, 1, 30);
    const int64_t columns = between(random, 1, 70);
    const int64_t entries = between(random, 1, 12);
    Numbers numbers(random);
    const std::vector<float> dout = numbers.take(rows * columns);
    const float scale = numbers.next();
    std::vector<int32_t> ids, order(static_cast<size_t>(rows)),
        starts(static_cast<size_t>(entries + 1));
    for (int64_t row = 0; row < rows; ++row) {
      ids.push_back(static_cast<int32_t>(random.below(static_cast<uint32_t>(entries))));
    }
    kernels::sort_by_id(ids.data(), rows, entries, order.data(), starts.data());
    Guarded dtable(entries * columns);
    kernels::embedding_backward(parallel, order.data(), starts.data(), dout.data(), scale, entries,
                                columns, dtable.data());
    // The rows that looked an entry up, ascending, found without the kernel's sorting.
    std::vector<float> expected;
    for (int64_t entry = 0; entry < entries; ++entry) {
      std::vector<int32_t> looked_up;
      for (size_t row = 0; row < ids.size(); ++row) {
        if (ids[row] == entry) looked_up.push_back(static_cast<int32_t>(row));
      }
      for (int64_t c = 0; c < columns; ++c) {
        expected.push_back(model::entry_gradient(looked_up.data(), std::ssize(looked_up),
                                                 dout.data(), columns, c, scale));
      }
    }
    EXPECT_TRUE(same_numbers(dtable.take(), expected));
    return told_apart(expected);
  });
}

TEST(ModelGradient, RotaryAndScale) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  const Parallel parallel(1);
  compare_many(25, [&](Random& random) {
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
    std::vector<float> dy = numbers.take(size);
    Guarded dx(size);
    kernels::rotary(parallel, {rows, heads, head_dim, positions.data(), table.data()},
                    kernels::Turn::backwards, dy.data(), dx.data());
    std::vector<float> expected(dy.size());
    for (int64_t row = 0; row < rows; ++row) {
      const float* cosines = table.data() + positions[static_cast<size_t>(row)] * head_dim;
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t at = (row * heads + head) * head_dim;
        model::rotated_head<float>(head_dim, cosines, cosines + head_dim / 2, dy.data() + at,
                                   expected.data() + at, kernels::Turn::backwards);
      }
    }
    EXPECT_TRUE(same_numbers(dx.take(), expected));
    const float factor = random.below(4) == 0 ? 1.0f : numbers.next();
    for (size_t i = 0; i < dy.size(); ++i) expected[i] = model::multiply(dy[i], factor);
    kernels::scale(parallel, size, &factor, dy.data());
    EXPECT_TRUE(same_numbers(dy, expected));
    return told_apart(expected);
  });
}

struct Label {
  int32_t token;
  bool is(int64_t j) const { return j == token; }
};

TEST(ModelGradient, LossAndItsGradient) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  const Parallel parallel(2);
  compare_many(26, [&](Random& random) {
    const int64_t rows = between(random, 1, 6);
    const int64_t vocab = between(random, 1, 300);
    Numbers numbers(random);
    const std::vector<float> logits = numbers.take(rows * vocab);
    std::vector<int32_t> labels;
    for (int64_t row = 0; row < rows; ++row) {
      labels.push_back(static_cast<int32_t>(between(random, -1, vocab - 1)));
    }
    const kernels::CrossEntropy args{.rows = rows,
                                     .vocab = vocab,
                                     .smoothing = random.below(2) == 0 ? 0.0f : 0.1f,
                                     .factor = random.below(2) == 0 ? 1.0f : numbers.next(),
                                     .labels = labels.data(),
                                     .logits = logits.data()};
    const float dtotal = random.below(2) == 0 ? 1.0f : numbers.next();
    Guarded norms(rows), losses(rows), dlogits(rows * vocab);
    kernels::cross_entropy_forward(parallel, args, norms.data(), losses.data());
    kernels::cross_entropy_backward(parallel, args, norms.data(), &dtotal, dlogits.data());
    const float total = kernels::total_loss(losses.data(), rows, args.factor);

    std::vector<float> expected_norms, expected_losses, expected(logits.size(), 0.0f);
    for (size_t row = 0; row < labels.size(); ++row) {
      const bool counts = labels[row] >= 0;
      const float* x = logits.data() + row * static_cast<size_t>(vocab);
      const float norm = counts ? model::normaliser(x, vocab) : 0.0f;
      const Label label{labels[row]};
      expected_norms.push_back(norm);
      expected_losses.push_back(counts ? model::row_loss(x, vocab, label, args.smoothing, norm)
                                       : 0.0f);
      if (!counts) continue;
      model::row_loss_gradient<float>(x, vocab, label, args.smoothing, args.factor, dtotal, norm,
                                      expected.data() + row * static_cast<size_t>(vocab));
    }
    EXPECT_TRUE(same_numbers(norms.take(), expected_norms));
    const std::vector<float> expected_total = {
        model::total_loss<float>(expected_losses.data(), rows, args.factor)};
    EXPECT_TRUE(same_numbers({&total, 1}, expected_total));
    EXPECT_TRUE(same_numbers(losses.take(), expected_losses));
    EXPECT_TRUE(same_numbers(dlogits.take(), expected));
    return told_apart(expected);
  });
}

struct KeySums {
  const PackedKeys& keys;
  std::vector<float>& dks;
  std::vector<float>& dvs;
  float& dk(int64_t j, int64_t d) const { return dks[static_cast<size_t>(keys.at(j, d))]; }
  float& dv(int64_t j, int64_t d) const { return dvs[static_cast<size_t>(keys.at(j, d))]; }
  float* bias;  // the entry of key 0 in a group's sums, or null
  void add_to_bias(int64_t j, float e) const {
    if (bias != nullptr) bias[j] += e;
  }
};

testing::Outcome modelled_gradients(const testing::Case& c) {
  testing::Outcome result{std::vector<float>(c.q.size()), std::vector<float>(c.q.size()),
                          std::vector<float>(c.k.size()), std::vector<float>(c.v.size()),
                          std::vector<float>(c.bias.size())};
  std::map<int64_t, std::vector<float>> groups;  // of the bias, by origin
  const int64_t offsets = static_cast<int64_t>(c.bias.size()) / c.n.heads;
  for (int64_t task = 0; task < c.n.heads * c.n.query; ++task) {
    const int64_t head = task / c.n.query;
    const int64_t row = task % c.n.query;
    const Interval& interval = c.rows[static_cast<size_t>(row)];
    if (interval.empty()) continue;
    const int64_t at = (row * c.n.heads + head) * c.n.head_dim;
    const PackedKeys keys{c, interval.origin, head / (c.n.heads / c.n.kv_heads)};
    const model::AttentionRow<float> args{
        .head_dim = c.n.head_dim,
        .scale = c.scale(),
        .lo = interval.lo - interval.origin,
        .hi = interval.hi - interval.origin,
        .q = c.q.data() + at,
        .bias = c.bias.empty() ? nullptr : c.bias.data() + head * offsets,
        .bias_zero = c.bias_zero,
        .position = c.positions.empty() ? 0 : c.positions[static_cast<size_t>(row)]};
    float stats[2];
    model::attention_row(args, keys, result.out.data() + at, stats);
    std::vector<float>& group = groups[interval.origin];
    group.resize(c.bias.size());
    float* const bias =
        c.bias.empty() ? nullptr : group.data() + head * offsets + c.bias_zero - args.position;
    model::attention_row_gradient<float>(
        args, keys, {result.out.data() + at, stats, c.dout.data() + at}, result.dq.data() + at,
        KeySums{keys, result.dk, result.dv, bias});
  }
  for (const auto& [origin, sums] : groups) {
    for (size_t i = 0; i < sums.size(); ++i) result.dbias[i] += sums[i];
  }
  return result;
}

TEST(ModelGradient, Attention) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  const auto compare = [&](Random& random) {
    const testing::Case c = wild_case(random);
    const testing::Outcome expected = modelled_gradients(c);
    const testing::Outcome found = testing::run(c, 2);
    EXPECT_TRUE(same_numbers(found.dq, expected.dq));
    EXPECT_TRUE(same_numbers(found.dk, expected.dk));
    EXPECT_TRUE(same_numbers(found.dv, expected.dv));
    EXPECT_TRUE(same_numbers(found.dbias, expected.dbias));
    return told_apart(expected.dk);
  };
  compare_many(27, compare, 100);
}

// The rule about zeros, and nothing but it.
TEST(ModelGradient, OnlyNothingIsLeftOut) {
  using model::GradientExpression;
  const GradientExpression nothing = GradientExpression::nothing();
  const GradientExpression a = weight_leaf(1, 0);
  const GradientExpression b = weight_leaf(1, 1);
  const auto zero = model::constant<GradientExpression>(0.0f);
  const auto same = [](const GradientExpression& x, const GradientExpression& y) {
    return x.number.hash == y.number.hash;
  };
  EXPECT_TRUE(same(model::multiply(nothing, a), nothing));
  EXPECT_TRUE(same(model::multiply(a, nothing), nothing));
  EXPECT_TRUE(same(model::add(nothing, a), a));
  EXPECT_TRUE(same(model::add(a, nothing), a));
  EXPECT_TRUE(same(model::subtract(a, nothing), a));
  EXPECT_FALSE(same(model::subtract(nothing, a), a));
  for (const GradientExpression& x : {a, zero}) {
    EXPECT_TRUE(same(model::fma(nothing, x, b), b));
    EXPECT_TRUE(same(model::fma(x, nothing, b), b));
    EXPECT_TRUE(same(model::fnma(nothing, x, b), b));
    EXPECT_TRUE(same(model::fnma(x, nothing, b), b));
  }
  // An ordinary zero, such as the weight of a forbidden key, is a number like others.
  EXPECT_FALSE(same(nothing, zero));
  EXPECT_FALSE(same(model::add(zero, a), a));
  EXPECT_FALSE(same(model::multiply(zero, a), zero));
  EXPECT_FALSE(same(model::fma(zero, a, b), b));
  EXPECT_FALSE(same(model::fma(a, b, nothing), model::multiply(a, b)));
  // Elsewhere an operation is what it is without the rule.
  EXPECT_TRUE(same(model::fma(a, b, zero), model::fma(a.number, b.number, zero.number)));
  EXPECT_TRUE(same(model::add(a, b), model::add(a.number, b.number)));
}

}  // namespace
}  // namespace tril::model_gradient_test
