// Queries, keys and values as one product: the same bits forward, and gradients that are right
// wherever they lie.
#include <cmath>

#include "support/testing.h"
#include "tril/nn/attention.h"

namespace tril::stack_test {
namespace {

using testing::activations;
using testing::activations_of;
using testing::floats_of;
using testing::gamma;
using testing::random_floats;
using testing::rounded_to;
using testing::same_bits;
using testing::unit;

struct Sizes {
  int64_t rows, model, heads, kv_heads, head_dim;
  bool stacks;  // on CUDA in bf16
};
constexpr Sizes kSizes[] = {{70, 128, 2, 1, 64, true},
                            {300, 64, 4, 4, 16, true},
                            {5, 192, 2, 2, 32, true},
                            {70, 40, 2, 2, 20, false}};

// A layer with weights that activations can hold.
struct Layer {
  nn::ParameterSet set;
  nn::MultiHeadAttention attention;

  Layer(const Sizes& n, Context& context)
      : set(testing::placement()),
        attention(set, "a", {n.model, n.heads, n.kv_heads, n.head_dim}, nn::Bias::present,
                  nn::Bias::present) {
    Random random(7);
    for (const nn::Parameter& parameter : set.list()) {
      set_values(parameter.tensor,
                 rounded_to(activations(), random_floats(random, parameter.tensor.size())));
    }
    set.pack(context);
  }
  std::vector<const ops::LinearWeight*> weights() const {
    return {attention.query.weight, attention.key.weight, attention.value.weight};
  }
};

TEST(Stack, IsUsedWhereItCanBe) {
  for (const Sizes& n : kSizes) {
    Context context(1, testing::placement());
    const Layer layer(n, context);
    const auto weights = layer.weights();
    const bool expected = n.stacks && activations() == DType::bf16;
    EXPECT_EQ(ops::are_stacked(context, weights), expected) << n.model;
    const ops::LinearWeight* const turned[] = {weights[1], weights[0]};
    EXPECT_FALSE(ops::are_stacked(context, turned));
    const ops::LinearWeight* const apart[] = {weights[0], weights[2]};
    EXPECT_FALSE(ops::are_stacked(context, apart));
  }
}

TEST(Stack, TogetherOrAloneHasTheSameBits) {
  Random random(8);
  for (const Sizes& n : kSizes) {
    Context context(1, testing::placement());
    const Layer layer(n, context);
    const Tensor x =
        activations_of(context, {n.rows, n.model}, random_floats(random, n.rows * n.model));
    const auto together = layer.attention.queries_keys_values(context, x);
    const Tensor parts[] = {together.queries, together.keys, together.values};
    const auto weights = layer.weights();
    for (size_t i = 0; i < weights.size(); ++i) {
      EXPECT_TRUE(same_bits(floats_of(parts[i]), floats_of(ops::linear(context, x, *weights[i]))))
          << n.model << ", part " << i;
      EXPECT_TRUE(same_bits(floats_of(ops::dense(context, parts[i])), floats_of(parts[i])));
    }
    const auto pair = layer.attention.keys_values(context, x);
    EXPECT_TRUE(same_bits(floats_of(pair.keys), floats_of(together.keys)));
    EXPECT_TRUE(same_bits(floats_of(pair.values), floats_of(together.values)));
  }
}

TEST(Stack, RotatesLikeADenseTensor) {
  Random random(9);
  const Sizes& n = kSizes[0];
  Context context(1, testing::placement());
  const Layer layer(n, context);
  const Tensor x =
      activations_of(context, {n.rows, n.model}, random_floats(random, n.rows * n.model));
  const Tensor q = layer.attention.queries_keys_values(context, x).queries;
  const Tensor table(context.arena, {n.rows, n.head_dim});
  set_values(table, random_floats(random, table.size()));
  std::vector<int32_t> positions;
  for (int32_t row = 0; row < n.rows; ++row) positions.push_back(row);
  const Tensor apart = ops::rotary(context, ops::Turn::forwards, q, positions, table);
  const Tensor dense =
      ops::rotary(context, ops::Turn::forwards, ops::dense(context, q), positions, table);
  EXPECT_TRUE(same_bits(floats_of(apart), floats_of(dense)));
}

// Rotated keys are dense, values are not: attention and its gradients are those of dense tensors.
TEST(Stack, RotatedKeysBesideUnrotatedValues) {
  Random random(11);
  const Sizes& n = kSizes[0];
  Context context(1, testing::placement());
  const Layer layer(n, context);
  const Tensor x =
      activations_of(context, {n.rows, n.model}, random_floats(random, n.rows * n.model));
  const auto [q, k, v] = layer.attention.queries_keys_values(context, x);
  std::vector<Interval> intervals;
  for (int32_t row = 0; row < n.rows; ++row) intervals.push_back(causal_interval(0, row));
  const Tensor dense[] = {ops::dense(context, q), ops::dense(context, k), ops::dense(context, v)};
  const auto expected = ops::attention(context, dense[0], dense[1], dense[2], intervals, {});
  const Tensor dout =
      activations_of(context, expected.out.shape(), random_floats(random, expected.out.size()));
  const auto gradients = ops::attention_gradients(context, dense[0], dense[1], dense[2], expected,
                                                  dout, intervals, {});
  for (const Tensor& keys : {k, dense[1]}) {
    const auto result = ops::attention(context, q, keys, v, intervals, {});
    EXPECT_TRUE(same_bits(floats_of(result.out), floats_of(expected.out)));
    const auto again = ops::attention_gradients(context, q, keys, v, result, dout, intervals, {});
    EXPECT_TRUE(same_bits(floats_of(again.dq), floats_of(gradients.dq)));
    EXPECT_TRUE(same_bits(floats_of(again.dk), floats_of(gradients.dk)));
    EXPECT_TRUE(same_bits(floats_of(again.dv), floats_of(gradients.dv)));
  }
}

// Sums of products in double, and how far a result of the device may be from each.
struct Expected {
  std::vector<double> value, bound, size;  // size: the sum of absolute values

  Expected(int64_t rows, int64_t columns)
      : value(static_cast<size_t>(rows * columns)), bound(value.size()), size(value.size()) {}
  // c += a b, element by element as `at_a` and `at_b` say.
  template <class AtA, class AtB>
  void add_product(int64_t columns, int64_t terms, const AtA& at_a, const AtB& at_b) {
    // Of tensor cores: tests/kernels/linear_test.cpp.
    const double error = activations() == DType::bf16 ? gamma(36 * (terms + 16)) : gamma(terms);
    for (size_t at = 0; at < value.size(); ++at) {
      const auto row = static_cast<int64_t>(at) / columns;
      const auto column = static_cast<int64_t>(at) % columns;
      for (int64_t term = 0; term < terms; ++term) {
        const double product = at_a(row, term) * at_b(term, column);
        value[at] += product;
        bound[at] += error * std::fabs(product);
        size[at] += std::fabs(product);
      }
    }
  }
  // Each of up to `times` roundings of a sum of parts.
  void add_roundings(int times) {
    for (size_t i = 0; i < bound.size(); ++i) {
      bound[i] += times * unit(activations()) * size[i];
    }
  }
};
double at(const std::vector<float>& matrix, int64_t columns, int64_t row, int64_t column) {
  return static_cast<double>(matrix[static_cast<size_t>(row * columns + column)]);
}

TEST(Stack, GradientsAreThoseOfTheParts) {
  Random random(10);
  for (const Sizes& n : kSizes) {
    Context context(1, testing::placement());
    const Layer layer(n, context);
    const Tensor x =
        activations_of(context, {n.rows, n.model}, random_floats(random, n.rows * n.model));
    std::vector<Interval> intervals;
    for (int32_t row = 0; row < n.rows; ++row) intervals.push_back(causal_interval(0, row));
    Tape tape(context);
    tape.watch(x);
    for (const nn::Parameter& parameter : layer.set.list()) tape.watch(parameter.tensor);
    const auto [q, k, v] = layer.attention.queries_keys_values(context, x);
    const Tensor out = autograd::attention(context, q, k, v, intervals, {});
    const Tensor dout = activations_of(context, out.shape(), random_floats(random, out.size()));
    const Gradients gradients = tape.backward(out, dout);

    const std::vector<float> xs = floats_of(x);
    Expected dx(n.rows, n.model);
    const Tensor parts[] = {q, k, v};
    const auto weights = layer.weights();
    for (size_t i = 0; i < weights.size(); ++i) {
      const ops::LinearWeight& linear = *weights[i];
      const std::vector<float> dy = floats_of(gradients.of(parts[i]));
      const std::vector<float> w = floats_of(linear.weight);
      const auto dy_at = [&](int64_t row, int64_t c) { return at(dy, linear.out, row, c); };
      dx.add_product(n.model, linear.out, dy_at,
                     [&](int64_t term, int64_t column) { return at(w, n.model, term, column); });
      Expected dw(linear.out, n.model), db(1, linear.out);
      dw.add_product(
          n.model, n.rows, [&](int64_t row, int64_t term) { return dy_at(term, row); },
          [&](int64_t term, int64_t column) { return at(xs, n.model, term, column); });
      db.add_product(
          linear.out, n.rows, [](int64_t, int64_t) { return 1.0; }, dy_at);
      EXPECT_TRUE(testing::within(floats_of(gradients.of(linear.weight)), dw.value, dw.bound))
          << n.model << ", the weight of part " << i;
      EXPECT_TRUE(testing::within(floats_of(gradients.of(linear.bias)), db.value, db.bound))
          << n.model << ", the bias of part " << i;
    }
    // As one product, or as three rounded ones and two sums of them.
    dx.add_roundings(8);
    EXPECT_TRUE(testing::within(floats_of(gradients.of(x)), dx.value, dx.bound)) << n.model;
  }
}

}  // namespace
}  // namespace tril::stack_test
