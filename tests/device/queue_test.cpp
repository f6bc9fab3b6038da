// Steps that are kept as graphs: whatever comes in whatever order, each runs once, with the data it
// was given.
#include "tril/device/queue.h"

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "support/testing.h"
#include "tril/ops/rows.h"

namespace tril::queue_test {
namespace {

constexpr int64_t kLargest = 1 << 20;

// Adds up on the device what was uploaded in each step.
class Steps : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::device().type != DeviceType::cuda) GTEST_SKIP() << "on the CPU nothing is kept";
    context_ = std::make_unique<Context>(1, testing::placement());
    arena_ = std::make_unique<Arena>(Device::cuda());
    sums_ = Tensor(*arena_, {kLargest});
    set_zero(sums_);
    expected_.assign(kLargest, 0.0f);
  }

  enum class Fault { none, in_first_call, in_second_call };

  // A step that adds `value`, `value` + 1, ... to the first `size` sums.
  void step(int64_t size, int value, Fault fault = Fault::none) {
    std::vector<float> added(static_cast<size_t>(size));
    std::iota(added.begin(), added.end(), static_cast<float>(value));
    calls_ = 0;
    context_->queue.step([&] {
      ++calls_;
      context_->reset();
      const float* there = context_->uploaded(std::span<const float>(added));
      if (fault == Fault::in_first_call || (fault == Fault::in_second_call && calls_ == 2)) {
        throw std::runtime_error("no");
      }
      const Tensor copy(context_->arena, {size});
      context_->copy({there, copy.raw(), size * int64_t{sizeof(float)}});
      slow_down();
      ops::add_into(*context_, copy, sums_.slice(0, size));
    });
    for (size_t i = 0; i < added.size(); ++i) expected_[i] += added[i];
  }
  // Copies within the device, so that the host is many steps ahead of it.
  void slow_down() {
    for (int i = 0; i < slow_copies_; ++i) {
      context_->copy({ballast_.raw(), ballast_.on_device() + ballast_.size() / 2,
                      ballast_.size() / 2 * int64_t{sizeof(float)}});
    }
  }
  void expect_sums(const std::string& when) {
    context_->queue.wait();
    EXPECT_TRUE(testing::same_bits(testing::floats_of(sums_), expected_)) << when;
  }
  int64_t graphs() const { return context_->queue.graphs(); }

  std::unique_ptr<Context> context_;
  std::unique_ptr<Arena> arena_;
  Tensor sums_, ballast_;
  std::vector<float> expected_;
  int calls_ = 0;
  int slow_copies_ = 0;
};

TEST_F(Steps, AStepThatComesAgainBecomesOneGraph) {
  for (int i = 0; i < 6; ++i) {
    step(100, 7 * i);
    expect_sums(concat("step ", i));
    if (i == 0) {
      EXPECT_EQ(graphs(), 0);
    }
  }
  EXPECT_EQ(graphs(), 1);
  EXPECT_EQ(calls_, 1) << "a kept step is walked and no more";
}

TEST_F(Steps, OtherSizesInBetweenAreOtherSteps) {
  const int64_t sizes[] = {100, 100, 100, 100, 100, 37, 100, 5000, 37, 100, 37, 37, 37, 100, 5000};
  int number = 0;
  for (const int64_t size : sizes) {
    step(size, ++number);
    expect_sums(concat("step ", number, " of ", size));
  }
  EXPECT_EQ(graphs(), 2) << "5000 came too seldom";
}

// More than the first block of uploads holds, and then less again.
TEST_F(Steps, UploadsMayBeLarge) {
  int number = 0;
  for (const int64_t size : {10l, 10l, kLargest, 10l, kLargest, kLargest, kLargest, kLargest, 10l,
                             10l, 10l, 10l, kLargest}) {
    step(size, ++number);
    expect_sums(concat("step ", number, " of ", size));
  }
  EXPECT_EQ(graphs(), 2);
}

TEST_F(Steps, AnExceptionLeavesTheQueueUsable) {
  EXPECT_THROW(step(100, 1, Fault::in_first_call), std::runtime_error);  // nothing is known yet
  for (int i = 0; i < 2; ++i) step(100, i);
  expect_sums("before");
  // The second call of a body is a step that is being kept, or one that was walked in vain.
  bool thrown = false;
  for (int i = 0; i < 5 && !thrown; ++i) {
    try {
      step(100, i, Fault::in_second_call);
    } catch (const std::runtime_error&) {
      thrown = true;
    }
    expect_sums("around the second call");
  }
  EXPECT_TRUE(thrown);
  for (int i = 0; i < 4; ++i) step(100, i);
  expect_sums("after the second call");
  EXPECT_EQ(graphs(), 1);
  EXPECT_THROW(step(100, 3, Fault::in_first_call), std::runtime_error);  // while it is walked
  step(100, 4);
  step(37, 5);
  expect_sums("at the end");
  EXPECT_EQ(graphs(), 1);
}

// Without waiting: what a step uploaded must not be overwritten before the device has read it,
// whether the step was launched, walked in vain or run as a graph.
TEST_F(Steps, TheHostMayBeFarAhead) {
  ballast_ = Tensor(*arena_, {int64_t{1} << 26});
  set_zero(ballast_);
  slow_copies_ = 4;
  Random random(5);
  for (int i = 0; i < 150; ++i) {
    // Three sizes that are kept, and now and then one that never comes again.
    const int64_t size = random.below(5) == 0
                             ? 2000 + i
                             : int64_t{100} * (1 + static_cast<int64_t>(random.below(3)));
    step(size, i);
  }
  expect_sums("150 steps");
  EXPECT_GE(graphs(), 3);
}

TEST_F(Steps, NothingWaitsWithinAStep) {
  float got = 0.0f;
  for (int i = 0; i < 4; ++i) step(100, i);
  EXPECT_EQ(
      testing::raised_by([&] {
        context_->queue.step([&] { context_->queue.download(sums_.raw(), sizeof got, &got); });
      }).code,
      ErrorCode::internal);
  step(100, 5);
  expect_sums("after it");
}

// Copies run aside for a while, and what follows them is read after joining: launched one by one,
// and as a graph.
TEST_F(Steps, WhatIsAsideIsThereOnceItIsJoined) {
  ballast_ = Tensor(*arena_, {int64_t{1} << 26});
  set_zero(ballast_);
  slow_copies_ = 4;
  constexpr int64_t kSize = 100;
  enum class Joins { by_itself, before_it_is_read };
  for (const Joins joins : {Joins::before_it_is_read, Joins::by_itself}) {
    for (int i = 0; i < 6; ++i) {
      const std::vector<float> added(kSize, static_cast<float>(i + 1));
      context_->queue.step([&] {
        context_->reset();
        const float* there = context_->uploaded(std::span<const float>(added));
        const Tensor copy(context_->arena, {kSize});
        const auto add = [&] { ops::add_into(*context_, copy, sums_.slice(0, kSize)); };
        context_->aside(Lane::products, [&] {
          EXPECT_EQ(context_->queue.lane(), Lane::products);
          slow_down();
          context_->copy({there, copy.raw(), kSize * int64_t{sizeof(float)}});
          if (joins == Joins::by_itself) add();
        });
        EXPECT_EQ(context_->queue.lane(), Lane::first);
        if (joins == Joins::by_itself) return;
        context_->queue.join();
        add();
      });
      for (size_t at = 0; at < kSize; ++at) expected_[at] += added[at];
      expect_sums(concat("step ", i));
    }
  }
  EXPECT_EQ(graphs(), 2);
}

// From one lane to the next, and back.
TEST_F(Steps, LanesWaitForEachOtherWhereTheyJoin) {
  ballast_ = Tensor(*arena_, {int64_t{1} << 26});
  set_zero(ballast_);
  slow_copies_ = 4;
  constexpr int64_t kSize = 100;
  for (int i = 0; i < 6; ++i) {
    const std::vector<float> added(kSize, static_cast<float>(i + 1));
    context_->queue.step([&] {
      context_->reset();
      const float* there = context_->uploaded(std::span<const float>(added));
      const Tensor first(context_->arena, {kSize}), second(context_->arena, {kSize});
      const auto copy = [&](const void* from, const Tensor& to) {
        slow_down();
        context_->copy({from, to.raw(), kSize * int64_t{sizeof(float)}});
      };
      context_->aside(Lane::products, [&] { copy(there, first); });
      context_->aside(Lane::sums, [&] {
        context_->queue.join();
        copy(first.raw(), second);
      });
      context_->queue.join();
      ops::add_into(*context_, second, sums_.slice(0, kSize));
    });
    for (size_t at = 0; at < kSize; ++at) expected_[at] += added[at];
    expect_sums(concat("step ", i));
  }
  EXPECT_EQ(graphs(), 1);
}

// Scratch memory of a scope would be reused while it is being read: inside a scope nothing runs
// aside, and scopes inside something aside keep what they took.
TEST_F(Steps, NothingIsAsideWithinAScope) {
  {
    const Arena::Scope scratch(context_->arena);
    context_->aside(Lane::sums, [&] { EXPECT_EQ(context_->queue.lane(), Lane::first); });
  }
  void* inner = nullptr;
  context_->aside(Lane::sums, [&] {
    const Arena::Scope scratch(context_->arena);
    inner = context_->arena.allocate(64);
    context_->aside(Lane::products,
                    [&] { EXPECT_EQ(context_->queue.lane(), Lane::sums) << "still"; });
  });
  EXPECT_NE(context_->arena.allocate(64), inner);
}

// The driver refuses to wait for the whole device while a stream is captured: a thread that reads a
// tensor must neither fail nor spoil another thread's capture.
TEST_F(Steps, AnotherThreadMayReadWhileOneIsKept) {
  Arena arena(Device::cuda());
  const std::vector<float> numbers = {1.0f, 2.0f, 3.0f};
  const Tensor other = testing::tensor_of(arena, {3}, numbers);
  std::atomic<bool> done = false;
  int64_t wrong = 0, reads = 0;
  std::thread reader([&] {
    for (; !done; ++reads) wrong += testing::floats_of(other) == numbers ? 0 : 1;
  });
  for (int i = 0; i < 300; ++i) step(1000 + i / 3, i);  // each size is kept when it comes thrice
  done = true;
  reader.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(reads, 10);
  EXPECT_EQ(graphs(), 100);
  expect_sums("300 steps");
}

// On either device.
TEST(Fetch, ComesLaterInTheOrderOfTheQueue) {
  Context context(1, testing::placement());
  Arena arena(testing::device());
  const Tensor value(arena, {1});
  const Tensor one = testing::tensor_of(arena, {1}, std::vector<float>{1.0f});
  set_zero(value);
  std::vector<int64_t> numbers;
  for (int i = 0; i < 2000; ++i) {
    ops::add_into(context, one, value);
    numbers.push_back(context.queue.fetch(value.raw(), sizeof(float)));
  }
  const auto fetched = [&](size_t i) {
    float got = 0.0f;
    context.queue.fetched(numbers[i], &got, sizeof got);
    return got;
  };
  // All are kept, however many come after them, until they are read or forgotten.
  for (const size_t i : {0, 1999, 1000, 500}) EXPECT_EQ(fetched(i), static_cast<float>(i + 1));
  EXPECT_EQ(testing::raised_by([&] { fetched(500); }).code, ErrorCode::internal) << "once";
  context.queue.forget(numbers[9]);
  EXPECT_EQ(testing::raised_by([&] { fetched(9); }).code, ErrorCode::internal) << "forgotten";
  // A fetch that has not been read yet is kept while others come and go.
  for (int i = 0; i < 20; ++i) {
    const int64_t number = context.queue.fetch(one.raw(), sizeof(float));
    float got = 0.0f;
    context.queue.fetched(number, &got, sizeof got);
    EXPECT_EQ(got, 1.0f);
  }
  EXPECT_EQ(fetched(999), 1000.0f);
}

// Of any size.
TEST(Fetch, BringsMuch) {
  Context context(1, testing::placement());
  Arena arena(testing::device());
  for (const int64_t size : {1, 100, 100'000, 7, 200'000}) {
    std::vector<float> values(static_cast<size_t>(size));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    const Tensor tensor = testing::tensor_of(arena, {size}, values);
    std::vector<float> got(values.size());
    const int64_t bytes = size * int64_t{sizeof(float)};
    context.queue.fetched(context.queue.fetch(tensor.raw(), bytes), got.data(), bytes);
    EXPECT_EQ(got, values);
  }
}

}  // namespace
}  // namespace tril::queue_test
