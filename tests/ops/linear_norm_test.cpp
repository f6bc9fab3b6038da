// A product, a residual sum and its norm as one operation have the bits of the operations one after
// the other.
#include "support/testing.h"
#include "tril/ops/rows.h"

namespace tril {
namespace {

using ops::NormKind;
using testing::activations_of;
using testing::floats_of;
using testing::random_floats;
using testing::same_bits;
using testing::tensor_of;

constexpr float kEpsilon = 1e-5f;

// Of the product and of the norm, which is RMS without.
enum class Bias { with, without };

struct Layer {
  Context context{2, testing::placement()};
  Arena arena{testing::device()};
  ops::LinearWeight linear;
  Tensor weight, bias;

  Layer(Random& random, int64_t out, int64_t in, Bias wanted) {
    const bool biased = wanted == Bias::with;
    const Tensor added = biased ? tensor_of(arena, {out}, random_floats(random, out)) : Tensor();
    linear =
        ops::linear_weight(tensor_of(arena, {out, in}, random_floats(random, out * in)), added);
    ops::allocate_packed(arena, context.activations, linear);
    if (linear.forward_panels.defined()) ops::pack_forward(context, linear);
    weight = tensor_of(arena, {out}, random_floats(random, out));
    if (biased) bias = tensor_of(arena, {out}, random_floats(random, out));
  }

  void expect_same(Random& random, int64_t rows) {
    const NormKind kind = bias.defined() ? NormKind::layer : NormKind::rms;
    context.reset();
    const Tensor x =
        activations_of(context, {rows, linear.out}, random_floats(random, rows * linear.out));
    const Tensor h =
        activations_of(context, {rows, linear.in}, random_floats(random, rows * linear.in));
    const auto one =
        floats_of(ops::linear_residual_norm(context, kind, kEpsilon, x, h, linear, weight, bias));
    const Tensor f = ops::linear(context, h, linear);
    const auto two =
        floats_of(ops::residual_norm(context, kind, kEpsilon, x, f, {}, weight, bias).y);
    for (int64_t row = 0; row < rows; ++row) {
      const auto first = static_cast<size_t>(row * linear.out);
      const auto size = static_cast<size_t>(linear.out);
      ASSERT_TRUE(
          same_bits(std::span(one).subspan(first, size), std::span(two).subspan(first, size)))
          << rows << " rows of " << linear.in << " to " << linear.out << ", row " << row;
    }
  }
};

TEST(LinearResidualNorm, HasTheBitsOfItsParts) {
  Random random(1);
  // The last two have no kernel of their own.
  for (const int64_t out : {64, 128, 256, 512, 96, 1024}) {
    for (const int64_t in : {64, 72, 512, 2048}) {
      for (const Bias bias : {Bias::with, Bias::without}) {
        Layer layer(random, out, in, bias);
        for (const int64_t rows : {1, 5, 8, 9, 33, 64, 100, 256}) layer.expect_same(random, rows);
      }
    }
  }
}

TEST(LinearResidualNorm, SaysWhatIsWrong) {
  Random random(1);
  Layer layer(random, 64, 32, Bias::with);
  const Tensor x = activations_of(layer.context, {3, 64}, random_floats(random, 3 * 64));
  const Tensor h = activations_of(layer.context, {2, 32}, random_floats(random, 2 * 32));
  EXPECT_EQ(testing::raised_by([&] {
              ops::linear_residual_norm(layer.context, NormKind::layer, kEpsilon, x, h,
                                        layer.linear, layer.weight, layer.bias);
            }).text,
            "residual norm: [2, 32] times [64, 32] added to [3, 64]");
}

}  // namespace
}  // namespace tril
