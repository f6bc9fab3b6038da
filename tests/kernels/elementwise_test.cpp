#include "tril/kernels/elementwise.h"

#include "kernels/kernel_support.h"

namespace tril {
namespace {

using kernels::kSquareChunk;
using testing::Guarded;
using testing::random_floats;
using testing::same_bits;

// One task does 16,384 elements: the large size gives every thread something.
constexpr int64_t kManyTasks = 5 * 16384 + 77;

TEST(Add, IsOneRoundingOfEachPairInPlaceToo) {
  Random random(1);
  for (const int64_t size : {int64_t{0}, int64_t{1}, int64_t{15}, int64_t{133}, kManyTasks}) {
    const std::vector<float> a = random_floats(random, size);
    const std::vector<float> b = random_floats(random, size);
    std::vector<float> expected;
    for (int64_t i = 0; i < size; ++i) expected.push_back(a[i] + b[i]);
    EXPECT_TRUE(testing::same_everywhere([&](const Parallel& parallel) {
      Guarded out(size);
      kernels::add(parallel, size, a.data(), b.data(), out.data());
      EXPECT_TRUE(same_bits(out.take(), expected));
      return out.take();
    }));
    std::vector<float> in_place = a;
    kernels::add(Parallel(2), size, in_place.data(), b.data(), in_place.data());
    EXPECT_TRUE(same_bits(in_place, expected));
    in_place = b;
    kernels::add(Parallel(2), size, a.data(), in_place.data(), in_place.data());
    EXPECT_TRUE(same_bits(in_place, expected));
  }
}

TEST(FillZero, WritesEveryElement) {
  for (const int64_t size : {int64_t{0}, int64_t{1}, int64_t{133}, kManyTasks}) {
    EXPECT_TRUE(testing::same_everywhere([&](const Parallel& parallel) {
      Guarded out(size);
      kernels::fill(parallel, size, 0.0f, out.data());
      EXPECT_TRUE(same_bits(out.take(), std::vector<float>(size)));
      return out.take();
    }));
  }
}

// Chunks of 4,096 over 16 lanes, fused, then added ascending in double.
TEST(SumOfSquares, FollowsItsOrderBitForBit) {
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
}  // namespace tril
