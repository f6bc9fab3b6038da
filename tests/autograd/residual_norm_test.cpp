// A residual sum and its norm as one function have the bits of the separate operations.
#include "support/testing.h"
#include "tril/autograd/functions.h"

namespace tril::residual_norm_test {
namespace {

using ops::NormKind;
using testing::activations_of;
using testing::random_floats;
using testing::same_bits;

constexpr float kEpsilon = 1e-5f;

struct Case {
  NormKind kind = NormKind::layer;
  int64_t rows = 0, columns = 0;
  float probability = 0.0f;
  std::vector<float> x, f, weight, bias, dy;
  std::vector<int32_t> sentences, positions;

  Case(Random& random, NormKind which, int64_t row_count, int64_t column_count, float drops)
      : kind(which), rows(row_count), columns(column_count), probability(drops) {
    for (std::vector<float>* part : {&x, &f, &dy}) *part = random_floats(random, rows * columns);
    weight = random_floats(random, columns);
    bias = random_floats(random, columns);
    for (int64_t row = 0; row < rows; ++row) {
      sentences.push_back(static_cast<int32_t>(random.below(1u << 30)));
      positions.push_back(static_cast<int32_t>(random.below(500)));
    }
  }
  ops::DropoutKey key() const {
    return {.probability = probability,
            .seed = 12345,
            .step = 6,
            .site = 7,
            .sentences = sentences,
            .positions = positions};
  }
};

struct Result {
  std::vector<float> y, dx, df, dweight, dbias;
};

enum class As { one, three };

// x and f have other uses too, so that gradients are accumulated.
Result run(const Case& c, As as) {
  Context context(2, testing::placement());
  const Tensor x = activations_of(context, {c.rows, c.columns}, c.x);
  const Tensor f = activations_of(context, {c.rows, c.columns}, c.f);
  const Tensor dy = activations_of(context, {c.rows, c.columns}, c.dy);
  const Tensor weight = testing::tensor_of(context.arena, {c.columns}, c.weight);
  const Tensor bias =
      c.kind == NormKind::rms ? Tensor() : testing::tensor_of(context.arena, {c.columns}, c.bias);
  Tape tape(context);
  for (const Tensor& input : {x, f, weight}) tape.watch(input);
  if (bias.defined()) tape.watch(bias);
  const auto residual = [&] {
    if (as == As::one) {
      return autograd::residual_norm(context, c.kind, kEpsilon, x, f, c.key(), weight, bias);
    }
    const Tensor dropped = autograd::dropout(context, c.key(), f);
    return autograd::norm(context, c.kind, kEpsilon, autograd::add(context, x, dropped), weight,
                          bias);
  };
  const Tensor y = residual();
  const Tensor whole = autograd::add(context, autograd::add(context, y, x), f);
  const Gradients gradients = tape.backward(whole, dy);
  Result result{to_floats(y),
                to_floats(gradients.of(x)),
                to_floats(gradients.of(f)),
                to_floats(gradients.of(weight)),
                {}};
  if (bias.defined()) result.dbias = to_floats(gradients.of(bias));
  return result;
}

TEST(ResidualNorm, HasTheBitsOfTheThree) {
  Random random(1);
  for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
    for (const float probability : {0.0f, 0.1f, 0.5f}) {
      for (const int64_t columns : {1, 7, 64, 100, 256, 512, 520, 1024, 1100, 2048}) {
        const Case c(random, kind, columns == 64 ? 200 : 9, columns, probability);
        const Result one = run(c, As::one);
        const Result three = run(c, As::three);
        const auto where = concat(columns, " columns, dropout ", probability);
        EXPECT_TRUE(same_bits(one.y, three.y)) << "y, " << where;
        EXPECT_TRUE(same_bits(one.dx, three.dx)) << "dx, " << where;
        EXPECT_TRUE(same_bits(one.df, three.df)) << "df, " << where;
        EXPECT_TRUE(same_bits(one.dweight, three.dweight)) << "dweight, " << where;
        EXPECT_TRUE(same_bits(one.dbias, three.dbias)) << "dbias, " << where;
      }
    }
  }
}

// What the operation keeps for the backward pass equals the results of the separate ones.
TEST(ResidualNorm, KeepsTheSumAndTheBits) {
  Random random(2);
  for (const int64_t columns : {12, 512}) {
    const Case c(random, NormKind::layer, 30, columns, 0.3f);
    Context context(2, testing::placement());
    const Tensor x = activations_of(context, {c.rows, c.columns}, c.x);
    const Tensor f = activations_of(context, {c.rows, c.columns}, c.f);
    const Tensor weight = testing::tensor_of(context.arena, {c.columns}, c.weight);
    const Tensor bias = testing::tensor_of(context.arena, {c.columns}, c.bias);
    const ops::ResidualNorm one =
        ops::residual_norm(context, c.kind, kEpsilon, x, f, c.key(), weight, bias);
    const ops::Dropped dropped = ops::dropout(context, c.key(), f);
    const Tensor s = ops::add(context, x, dropped.y);
    EXPECT_TRUE(same_bits(one.s, s)) << columns;
    EXPECT_TRUE(same_bits(one.stats, ops::norm(context, c.kind, kEpsilon, s, weight, bias).stats));
    std::vector<uint8_t> kept(static_cast<size_t>(one.kept.size())), expected(kept.size());
    copy(Device::cpu, kept.data(), context.device(), one.kept.raw(), one.kept.size());
    copy(Device::cpu, expected.data(), context.device(), dropped.kept.raw(), one.kept.size());
    EXPECT_EQ(kept, expected) << columns;
  }
}

TEST(ResidualNorm, SaysWhatIsWrong) {
  Context context(1, testing::placement());
  const Tensor x = activations_of(context, {2, 3}, std::vector<float>(6));
  const Tensor f = activations_of(context, {3, 2}, std::vector<float>(6));
  const Tensor weight = testing::tensor_of(context.arena, {3}, std::vector<float>(3));
  const auto call = [&](const Tensor& other, float probability) {
    return testing::raised_by([&] {
      ops::residual_norm(context, NormKind::rms, kEpsilon, x, other,
                         {.probability = probability, .sentences = {}, .positions = {}}, weight,
                         {});
    });
  };
  EXPECT_EQ(call(f, 0.0f).text, "residual norm: [2, 3] and [3, 2] differ");
  EXPECT_EQ(call(x, 0.5f).text, "dropout: 2 rows, but keys for 0");
}

}  // namespace
}  // namespace tril::residual_norm_test
