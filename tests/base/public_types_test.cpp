// The types by which public headers do without <memory>, <functional> and <chrono>.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tril/base/function.h"
#include "tril/base/moment.h"
#include "tril/base/shared.h"

namespace tril::public_types_test {
namespace {

TEST(Shared, KeepsWhatItsCopiesOwnUntilTheLastOneGoes) {
  auto owner = std::make_shared<const std::string>("here");
  const std::weak_ptr<const std::string> watched = owner;
  Shared<const std::string> first = std::move(owner);
  {
    const Shared<const std::string> second = first;
    EXPECT_EQ(second, first);
    EXPECT_EQ(second.get(), first.get());
    first = {};
    EXPECT_EQ(first, nullptr);
    EXPECT_FALSE(first);
    EXPECT_EQ(*second, "here");
    EXPECT_EQ(second->size(), 4u);
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());
}

TEST(Shared, MovesAndAssigns) {
  const std::weak_ptr<int> watched = [] {
    Shared<int> a = std::make_shared<int>(1);
    auto owner = std::make_shared<int>(2);
    std::weak_ptr<int> of_b = owner;
    Shared<int> b = std::move(owner);
    const Shared<int>& same = a;
    a = same;
    EXPECT_EQ(*a, 1);
    a = std::move(b);
    EXPECT_EQ(*a, 2);
    EXPECT_EQ(b, nullptr);  // NOLINT: a moved-from one is empty
    EXPECT_FALSE(of_b.expired());
    return of_b;
  }();
  EXPECT_TRUE(watched.expired());
}

TEST(Shared, MadeFromAnEmptyPointerIsEmpty) {
  const Shared<int> empty = std::shared_ptr<int>();
  EXPECT_EQ(empty, nullptr);
  const Shared<int> copy = empty;  // NOLINT: a copy on purpose
  EXPECT_EQ(copy, empty);
}

TEST(Shared, IsCountedByManyThreads) {
  auto owner = std::make_shared<int>(7);
  const std::weak_ptr<int> watched = owner;
  Shared<int> shared = std::move(owner);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([copy = shared] {
      for (int round = 0; round < 10'000; ++round) {
        const Shared<int> another = copy;  // NOLINT: a copy on purpose
        ASSERT_EQ(*another, 7);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  EXPECT_FALSE(watched.expired());
  shared = {};
  EXPECT_TRUE(watched.expired());
}

int twice(int x) { return 2 * x; }

TEST(Function, CallsAnythingThatCanBeCalled) {
  Function<int(int)> function = [](int x) { return x + 1; };
  EXPECT_EQ(function(1), 2);
  function = twice;
  EXPECT_EQ(function(4), 8);
  function = std::function<int(int)>(twice);
  EXPECT_EQ(function(5), 10);
  int calls = 0;
  const Function<void(int)> ignores = [&](int x) { return calls += x; };  // its result is not used
  ignores(3);
  EXPECT_EQ(calls, 3);
  const Function<size_t(std::string &&)> takes = [](std::string&& text) {
    return std::exchange(text, {}).size();
  };
  EXPECT_EQ(takes("four"), 4u);
}

TEST(Function, IsEmptyWhereThereIsNothingToCall) {
  EXPECT_FALSE(Function<void()>());
  EXPECT_FALSE(Function<void()>(nullptr));
  EXPECT_FALSE(Function<void()>(std::function<void()>()));
  int (*none)(int) = nullptr;
  EXPECT_FALSE(Function<int(int)>(none));
  EXPECT_TRUE(Function<int(int)>(twice));
  Function<void()> function = [] {};
  EXPECT_TRUE(function);
  function = nullptr;
  EXPECT_FALSE(function);
}

TEST(Function, CopiesShareWhatTheyCall) {
  auto owner = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = owner;
  {
    Function<int()> first = [owner = std::move(owner)] { return ++*owner; };
    const Function<int()> second = first;
    EXPECT_EQ(first(), 1);
    EXPECT_EQ(second(), 2);
    const Function<int()> moved = std::move(first);
    EXPECT_FALSE(first);  // NOLINT: a moved-from one is empty
    EXPECT_EQ(moved(), 3);
  }
  EXPECT_TRUE(watched.expired());
}

TEST(Function, MayOwnWhatCannotBeCopied) {
  const Function<int()> function = [owned = std::make_unique<int>(5)] { return *owned; };
  EXPECT_EQ(function(), 5);
}

TEST(Moment, IsTheTimePointItIsMadeFrom) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point now = Clock::now();
  EXPECT_EQ(Moment(now).nanoseconds,
            std::chrono::duration_cast<std::chrono::nanoseconds>(now.time_since_epoch()).count());
  const std::chrono::time_point<Clock, std::chrono::seconds> coarse(std::chrono::seconds(3));
  EXPECT_EQ(Moment(coarse).nanoseconds, 3'000'000'000);
  EXPECT_EQ(Moment().nanoseconds, 0);
  const std::chrono::time_point<Clock, std::chrono::duration<double>> parts(
      std::chrono::duration<double>(2.75));
  EXPECT_EQ(Moment(parts).nanoseconds, 2'750'000'000);
  using Hours = std::chrono::time_point<Clock, std::chrono::hours>;
  EXPECT_EQ(Moment(Hours::max()).nanoseconds, INT64_MAX);
  EXPECT_EQ(Moment(Hours::min()).nanoseconds, -INT64_MAX);
}

}  // namespace
}  // namespace tril::public_types_test
