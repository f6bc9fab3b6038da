// The projection and its loss in slices of rows are what they would be all at once, in every bit.
#include "support/testing.h"
#include "tril/autograd/functions.h"
#include "tril/kernels/cross_entropy.h"
#include "tril/kernels/gemm.h"

namespace tril {
namespace {

using testing::floats_of;
using testing::random_tensor;
using testing::same_bits;

struct AllAtOnce {
  float loss = 0.0f;
  Tensor dx, dweight, dbias;
};

// Every logit of the batch, kept.
AllAtOnce all_at_once(Context& context, const Tensor& x, const ops::LinearWeight& output,
                      const std::vector<int32_t>& labels, const ops::LossOptions& options) {
  const Tensor logits = ops::linear(context, x, output);
  const kernels::CrossEntropy args{.rows = x.rows(),
                                   .vocab = output.out,
                                   .smoothing = options.smoothing,
                                   .factor = options.factor,
                                   .labels = labels.data(),
                                   .logits = logits.data()};
  std::vector<float> norms(labels.size()), losses(labels.size());
  kernels::cross_entropy_forward(context.parallel, args, norms.data(), losses.data());
  const float one = 1.0f;
  kernels::cross_entropy_backward(context.parallel, args, norms.data(), &one, logits.data());
  return {kernels::total_loss(losses.data(), x.rows(), options.factor),
          ops::linear_input_gradient(context, logits, output),
          ops::linear_weight_gradient(context, logits, x),
          ops::linear_bias_gradient(context, logits)};
}

TEST(ProjectedLoss, InSlicesHasTheBitsOfAllAtOnce) {
  Random random(1);
  for (const int64_t rows : {1, 7, 511, 512, 513, 1024, 1300}) {
    Arena arena;
    Context context(2);
    const int64_t width = rows == 1024 ? 129 : 19;  // wide and narrow inputs are read differently
    const Tensor x = random_tensor(arena, {rows, width}, random);
    const ops::LinearWeight output = ops::linear_weight(random_tensor(arena, {37, width}, random),
                                                        random_tensor(arena, {37}, random));
    std::vector<int32_t> labels;
    for (int64_t row = 0; row < rows; ++row) {
      labels.push_back(static_cast<int32_t>(random.below(38)) - 1);
    }
    const ops::LossOptions options{.smoothing = 0.1f, .factor = 0.37f};
    const AllAtOnce expected = all_at_once(context, x, output, labels, options);
    EXPECT_EQ(ops::projected_loss(context, x, output, labels, options, ops::LossGradients::none)
                  .loss.data()[0],
              expected.loss);
    Tape tape(context);
    for (const Tensor& input : {x, output.weight, output.bias}) tape.watch(input);
    const Tensor loss = autograd::projected_loss(context, x, output, labels, options);
    EXPECT_EQ(loss.data()[0], expected.loss);
    const Gradients gradients = tape.backward(loss);
    EXPECT_TRUE(same_bits(gradients.of(x), expected.dx)) << rows;
    EXPECT_TRUE(same_bits(gradients.of(output.weight), expected.dweight)) << rows;
    EXPECT_TRUE(same_bits(gradients.of(output.bias), expected.dbias)) << rows;
  }
}

TEST(ProjectedLoss, PassesOnTheGradientOfTheLoss) {
  Random random(2);
  Arena arena;
  Context context(1);
  const Tensor x = random_tensor(arena, {3, 8}, random);
  const ops::LinearWeight output = ops::linear_weight(random_tensor(arena, {5, 8}, random));
  const std::vector<int32_t> labels = {1, -1, 4};
  const auto gradient = [&](float of_loss) {
    Tape tape(context);
    tape.watch(x);
    const Tensor loss = autograd::projected_loss(context, x, output, labels, {});
    return floats_of(
        tape.backward(loss, testing::tensor_of(arena, {1}, std::vector<float>{of_loss})).of(x));
  };
  const std::vector<float> once = gradient(1.0f);
  const std::vector<float> twice = gradient(2.0f);
  for (size_t i = 0; i < once.size(); ++i) EXPECT_EQ(twice[i], 2.0f * once[i]);
}

// What is held at once is a slice of the logits, not all of them.
TEST(ProjectedLoss, NeverHoldsAllLogits) {
  Random random(3);
  Arena arena;
  constexpr int64_t kRows = 8 * kernels::kTokenSlice;
  constexpr int64_t kVocab = 1000;
  const Tensor x = random_tensor(arena, {kRows, 4}, random);
  const ops::LinearWeight output = ops::linear_weight(random_tensor(arena, {kVocab, 4}, random));
  const std::vector<int32_t> labels(kRows, 3);
  Context context(1);
  ops::projected_loss(context, x, output, labels, {}, ops::LossGradients::wanted);
  // Logits of a slice and their transpose, and what is small beside them.
  EXPECT_LT(context.arena.peak_bytes(), 3 * kernels::kTokenSlice * kVocab * int64_t{sizeof(float)});
}

}  // namespace
}  // namespace tril
