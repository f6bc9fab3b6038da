#include "tril/kernels/elementwise.h"

#include "kernels/rows_support.h"
#include "tril/kernels/cuda/launches.h"
#include "tril/ops/rows.h"

namespace tril::elementwise_test {
namespace {

using kernels::kSquareChunk;
using testing::activations_of;
using testing::context_here;
using testing::Guarded;
using testing::here;
using testing::mark_memory;
using testing::random_floats;
using testing::same_bits;
using testing::taken;

// One task does 16,384 elements: the large size gives every thread something.
constexpr int64_t kManyTasks = 5 * 16384 + 77;

TEST(Add, IsOneRoundingOfEachPairInPlaceToo) {
  Random random(1);
  for (const int64_t size : {int64_t{0}, int64_t{1}, int64_t{15}, int64_t{133}, kManyTasks}) {
    const std::vector<float> a = here(random_floats(random, size));
    const std::vector<float> b = here(random_floats(random, size));
    std::vector<float> expected;
    for (int64_t i = 0; i < size; ++i) expected.push_back(a[i] + b[i]);
    expected = here(expected);
    EXPECT_TRUE(testing::same_again([&](Context& context) {
      const Tensor left = activations_of(context, {size}, a);
      const Tensor right = activations_of(context, {size}, b);
      mark_memory(context, 4 * size);
      const std::vector<float> out = taken(ops::add(context, left, right));
      EXPECT_TRUE(same_bits(out, expected));
      ops::add_into(context, left, right);
      EXPECT_TRUE(same_bits(to_floats(right), expected));
      return out;
    }));
  }
}

// Rows of a slice begin anywhere: at addresses that are not multiples of 16.
TEST(Add, OfSlicesHasTheSameBits) {
  Random random(3);
  Context& context = context_here();
  const std::vector<float> a = here(random_floats(random, 40 * 3));
  const Tensor left = activations_of(context, {40, 3}, a);
  const Tensor right = activations_of(context, {40, 3}, a);
  const std::vector<float> whole = to_floats(ops::add(context, left, right));
  for (const int64_t begin : {0, 1, 2, 5}) {
    const Tensor sum = ops::add(context, left.slice(begin, 39), right.slice(begin, 39));
    EXPECT_TRUE(same_bits(to_floats(sum), testing::rows_of(whole, 3, begin, 39 - begin))) << begin;
  }
}

TEST(Scaled, IsOneRoundingOfEachProduct) {
  Random random(4);
  for (const int64_t size : {int64_t{0}, int64_t{1}, int64_t{15}, int64_t{133}, kManyTasks}) {
    const std::vector<float> x = here(random_floats(random, size));
    std::vector<float> expected;
    for (const float each : x) expected.push_back(each * 0.3f);
    expected = here(expected);
    EXPECT_TRUE(testing::same_again([&](Context& context) {
      const Tensor from = activations_of(context, {size}, x);
      mark_memory(context, 4 * size);
      const std::vector<float> out = taken(ops::scaled(context, from, 0.3f));
      EXPECT_TRUE(same_bits(out, expected));
      EXPECT_TRUE(same_bits(to_floats(from), x));
      return out;
    }));
  }
}

// As transformers' T5Attention computes them.
TEST(RelativeBias, BucketsAreThoseOfT5) {
  const std::vector<int64_t> distances = {-1000, -128, -127, -64, -46, -45, -32, -16, -15,
                                          -8,    -7,   -1,   0,   1,   7,   8,   11,  12,
                                          45,    46,   64,   90,  91,  127, 128, 5000};
  const std::vector<int64_t> both = {15, 15, 15, 14, 13, 12, 12, 10, 9,  8,  7,  1,  0,
                                     17, 23, 24, 24, 25, 28, 29, 30, 30, 31, 31, 31, 31};
  const std::vector<int64_t> back = {31, 31, 31, 26, 24, 23, 21, 16, 15, 8, 7, 1, 0,
                                     0,  0,  0,  0,  0,  0,  0,  0,  0,  0, 0, 0, 0};
  for (size_t i = 0; i < distances.size(); ++i) {
    const int64_t d = distances[i];
    EXPECT_EQ(ops::relative_bucket(d, ops::BiasDirections::both, 32, 128), both[i]) << d;
    EXPECT_EQ(ops::relative_bucket(d, ops::BiasDirections::back, 32, 128), back[i]) << d;
  }
}

TEST(RelativeBias, EveryEntryIsThatOfItsBucket) {
  Random random(5);
  Context& context = context_here();
  const std::vector<float> weight = random_floats(random, 7 * 3);
  std::vector<int32_t> bucket_of;
  for (int i = 0; i < 1001; ++i) bucket_of.push_back(static_cast<int32_t>(random.below(7)));
  const Tensor bias(context.arena, {3, 1001});
  ops::relative_bias(context, testing::tensor_of(context.arena, {7, 3}, weight), bucket_of, bias);
  std::vector<float> expected;
  for (size_t head = 0; head < 3; ++head) {
    for (const int32_t bucket : bucket_of) {
      expected.push_back(weight[static_cast<size_t>(bucket) * 3 + head]);
    }
  }
  EXPECT_TRUE(same_bits(to_floats(bias), expected));
  bucket_of[5] = 7;
  EXPECT_NE(testing::raised_by([&] {
              ops::relative_bias(context, testing::tensor_of(context.arena, {7, 3}, weight),
                                 bucket_of, bias);
            }).text.find("none of the 7"),
            std::string::npos);
}

TEST(Add, RefusesOtherShapes) {
  Context& context = context_here();
  const Tensor a = activations_of(context, {2, 3}, std::vector<float>(6));
  const Tensor b = activations_of(context, {3, 2}, std::vector<float>(6));
  EXPECT_EQ(testing::raised_by([&] { ops::add(context, a, b); }).text,
            "add: [2, 3] and [3, 2] differ");
}

TEST(ScaleBy, IsOneRoundingOfEachAndNothingForOne) {
  Random random(4);
  for (const int64_t size : {int64_t{0}, int64_t{1}, int64_t{133}, kManyTasks}) {
    for (const float factor : {1.0f, 0.37f}) {
      const std::vector<float> x = here(random_floats(random, size));
      std::vector<float> expected = x;
      for (float& value : expected) value = value * factor;
      Context& context = context_here();
      const Tensor scaled = activations_of(context, {size}, x);
      const Tensor by = testing::tensor_of(context.arena, {1}, std::vector<float>{factor});
      ops::scale_by(context, by, scaled);
      EXPECT_TRUE(same_bits(to_floats(scaled), here(expected))) << size << " by " << factor;
    }
  }
}

TEST(Filled, WritesEveryElement) {
  for (const int64_t size : {int64_t{0}, int64_t{1}, int64_t{133}, kManyTasks}) {
    for (const float value : {0.0f, 0.5f}) {
      EXPECT_TRUE(testing::same_again([&](Context& context) {
        mark_memory(context, 4 * size);
        const Tensor out = ops::filled(context, {size}, value, context.activations);
        EXPECT_TRUE(same_bits(taken(out), std::vector<float>(static_cast<size_t>(size), value)));
        return to_floats(out);
      }));
    }
  }
}

// Between fp32 and the type of activations, both ways.
TEST(Assign, RoundsOrWidens) {
  Random random(5);
  for (const int64_t size : {int64_t{0}, int64_t{1}, int64_t{133}, kManyTasks}) {
    const std::vector<float> x = random_floats(random, size);
    Context& context = context_here();
    const Tensor from = testing::tensor_of(context.arena, {size}, x);
    mark_memory(context, 8 * size);
    const Tensor rounded(context.arena, {size}, context.activations);
    const Tensor wide(context.arena, {size});
    ops::assign(context, from, rounded);
    ops::assign(context, rounded, wide);
    EXPECT_TRUE(same_bits(taken(rounded), here(x)));
    EXPECT_TRUE(same_bits(taken(wide), here(x)));
  }
}

// Weights as products on CUDA read them.
TEST(RoundPadded, PadsWithZeros) {
  if constexpr (kCudaBuilt) {
    if (testing::device().type != DeviceType::cuda) GTEST_SKIP() << "only CUDA pads weights";
    Random random(6);
    for (const auto& [rows, columns] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {37, 100}, {64, 64}, {65, 72}}) {
      const std::vector<float> x = random_floats(random, rows * columns);
      Context& context = context_here();
      const int64_t to_rows = (rows + 63) / 64 * 64;
      const int64_t to_columns = (columns + 63) / 64 * 64;
      const Tensor from = testing::tensor_of(context.arena, {rows, columns}, x);
      mark_memory(context, 4 * to_rows * to_columns);
      const Tensor to(context.arena, {to_rows, to_columns}, DType::bf16);
      context.launch(kernels::cuda::round_padded, {.from = from.on_device(),
                                                   .rows = rows,
                                                   .columns = columns,
                                                   .to = to.on_device<BFloat16>(),
                                                   .to_rows = to_rows,
                                                   .to_columns = to_columns});
      std::vector<float> expected(static_cast<size_t>(to.size()));
      for (int64_t i = 0; i < rows * columns; ++i) {
        expected[i / columns * to_columns + i % columns] = to_f32(to_bf16(x[i]));
      }
      EXPECT_TRUE(same_bits(taken(to), expected)) << rows << " x " << columns;
    }
  } else {
    GTEST_SKIP() << "built without CUDA";
  }
}

// Chunks of 4,096 over 16 lanes, fused, then added ascending in double.
TEST(SumOfSquares, FollowsItsOrderBitForBit) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << "adamw_test has that of CUDA";
  Random random(2);
  for (const int64_t size : {int64_t{0}, int64_t{1}, int64_t{17}, kSquareChunk - 1, kSquareChunk,
                             kSquareChunk + 1, 7 * kSquareChunk + 129}) {
    const std::vector<float> x = random_floats(random, size);
    double expected = 0.0;
    double exact = 0.0;
    for (int64_t begin = 0; begin < size; begin += kSquareChunk) {
      const std::span<const float> chunk =
          std::span(x).subspan(begin, std::min(kSquareChunk, size - begin));
      expected += static_cast<double>(testing::lane_dot(chunk, chunk));
      for (const float value : chunk)
        exact += static_cast<double>(value) * static_cast<double>(value);
    }
    EXPECT_TRUE(testing::same_everywhere([&](const Parallel& parallel) {
      Guarded partial((size + kSquareChunk - 1) / kSquareChunk);
      const double sum = kernels::sum_of_squares(parallel, size, x.data(), partial.data());
      EXPECT_EQ(sum, expected) << size << " elements";
      return partial.take();
    }));
    // A lane adds at most 256 terms of a chunk, then 4 sums fold 16 lanes; all terms are positive.
    EXPECT_LE(std::fabs(expected - exact), testing::gamma(kSquareChunk / 16 + 4) * exact);
  }
}

}  // namespace
}  // namespace tril::elementwise_test
