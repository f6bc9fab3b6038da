#include "tril/base/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tril::rng_test {
namespace {

// Known answers of the authors' Random123 library, file kat_vectors, philox4x32-10.
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (Words4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(0xffffffffffffffffu, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (Words4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822u, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Words4{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, StreamsDifferAndRepeat) {
  Random a(1, 0), again(1, 0), other(1, 1);
  int equal = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint32_t word = a.bits();
    EXPECT_EQ(word, again.bits());
    equal += word == other.bits() ? 1 : 0;
  }
  EXPECT_LE(equal, 1);
}

TEST(Random, BelowIsUniformWithoutBias) {
  Random random(3);
  std::vector<int> counts(7);
  constexpr int kDraws = 70000;
  for (int i = 0; i < kDraws; ++i) ++counts[random.below(7)];
  for (const int count : counts) {
    // Six standard deviations of a binomial with p = 1/7.
    EXPECT_NEAR(count, kDraws / 7, 6.0 * std::sqrt(kDraws * (1.0 / 7) * (6.0 / 7)));
  }
}

TEST(Random, NormalHasItsMoments) {
  Random random(4);
  constexpr int kDraws = 100000;
  double sum = 0.0, squares = 0.0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0.0, 6.0 / std::sqrt(kDraws));
  EXPECT_NEAR(squares / kDraws, 1.0, 6.0 * std::sqrt(2.0 / kDraws));
}

}  // namespace
}  // namespace tril::rng_test
