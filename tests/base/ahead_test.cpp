#include "tril/base/ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "threads_support.h"

namespace tril::ahead_test {
namespace {

TEST(Ahead, GivesTheValuesInOrderWithAnyThreads) {
  for (const int threads : {0, 1, 3}) {
    Ahead<int64_t> squares([](int64_t n) { return n * n; }, threads, 5);
    for (int64_t n = 0; n < 1000; ++n) ASSERT_EQ(squares.next(), n * n) << threads << " threads";
  }
}

TEST(Ahead, IsNoFurtherAheadThanItsRoom) {
  std::atomic<int64_t> furthest{0};
  Ahead<int64_t> numbers(
      [&](int64_t n) {
        furthest = std::max(furthest.load(), n);
        return n;
      },
      2, 4);
  for (int64_t n = 0; n < 100; ++n) {
    ASSERT_EQ(numbers.next(), n);
    ASSERT_LE(furthest, n + 4 + 1);
  }
}

TEST(Ahead, ThrowsWhereTheValueWouldHaveCome) {
  for (const int threads : {0, 2}) {
    Ahead<int> numbers(
        [](int64_t n) -> int {
          if (n == 7) throw std::runtime_error("seven");
          return static_cast<int>(n);
        },
        threads, 4);
    for (int n = 0; n < 7; ++n) ASSERT_EQ(numbers.next(), n);
    EXPECT_THROW(numbers.next(), std::runtime_error);
  }
}

TEST(Ahead, DoesWithoutThreadsWhereNoneCanBeStarted) {
  const testing::NoNewThreads none;
  Ahead<int64_t> squares([](int64_t n) { return n * n; }, 3, 5);
  for (int64_t n = 0; n < 100; ++n) ASSERT_EQ(squares.next(), n * n);
}

}  // namespace
}  // namespace tril::ahead_test
