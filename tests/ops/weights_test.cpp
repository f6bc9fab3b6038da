// Lists of weights that follow others, against a plain loop, on either device.
#include "tril/ops/weights.h"

#include "support/testing.h"

namespace tril::weights_test {
namespace {

using testing::floats_of;
using testing::raised_by;
using testing::tensor_of;

// Bit for bit: to + share (from - to), each operation rounded.
TEST(MoveTowards, IsTheFormulaInEveryBit) {
  Context context(2, testing::placement());
  Random random(4);
  const std::vector<int64_t> sizes = {1, 3, 1024, 4096, 4097, 0, 16384, 16385, 70001, 2};
  std::vector<ConstTensor> from;
  std::vector<Tensor> to;
  std::vector<std::vector<float>> targets, expected;
  for (const int64_t size : sizes) {
    targets.push_back(testing::random_floats(random, size));
    expected.push_back(testing::random_floats(random, size));
    from.push_back(tensor_of(context.arena, {size}, targets.back()));
    to.push_back(tensor_of(context.arena, {size}, expected.back()));
  }
  for (const float share : {0.1f, 0.0f, 0.002f, 1.0f, 0.75f}) {
    ops::move_towards(context, share, from, to);
    for (size_t which = 0; which < sizes.size(); ++which) {
      for (size_t i = 0; i < targets[which].size(); ++i) {
        const float difference = targets[which][i] - expected[which][i];
        const float part = share * difference;
        expected[which][i] += part;
      }
      EXPECT_TRUE(testing::same_bits(floats_of(to[which]), expected[which]))
          << "tensor " << which << " of " << sizes[which] << ", share " << share;
    }
  }
  for (size_t which = 0; which < sizes.size(); ++which) {
    EXPECT_TRUE(testing::same_bits(floats_of(from[which]), targets[which])) << which;
  }
}

TEST(MoveTowards, SaysWhatIsWrong) {
  Context context(1, testing::placement());
  const Tensor three = tensor_of(context.arena, {3}, std::vector<float>(3));
  const Tensor four = tensor_of(context.arena, {4}, std::vector<float>(4));
  const std::vector<ConstTensor> one = {three};
  const std::vector<Tensor> other = {four}, two = {three, four};
  EXPECT_EQ(raised_by([&] { ops::move_towards(context, 0.5f, one, two); }).text,
            "average: 1 tensors towards 2");
  EXPECT_EQ(raised_by([&] { ops::move_towards(context, 0.5f, one, other); }).text,
            "average: [3] towards [4]");
}

TEST(CopyWeights, IsTheSameBitsInTheOrderOfTheStep) {
  Context context(1, testing::placement());
  Random random(6);
  const auto values = testing::random_floats(random, 1000);
  const Tensor from = testing::activations_of(context, {10, 100}, values);
  const Tensor to = testing::activations_of(context, {10, 100}, std::vector<float>(1000));
  ops::copy(context, from, to);
  EXPECT_TRUE(testing::same_bits(floats_of(to), floats_of(from)));
  EXPECT_EQ(raised_by([&] { ops::copy(context, from.slice(0, 9), to); }).code,
            ErrorCode::shape_mismatch);
}

}  // namespace
}  // namespace tril::weights_test
