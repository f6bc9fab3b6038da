#include "tril/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "threads_support.h"
#include "tril/base/error.h"

namespace tril::parallel_test {
namespace {

TEST(Parallel, RunsEveryTaskOnce) {
  for (const int threads : {1, 2, 5}) {
    const Parallel parallel(threads);
    for (const int64_t tasks : {0, 1, 2, 3, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks));
      parallel(tasks, [&](int64_t task) { ++runs[static_cast<size_t>(task)]; });
      for (const auto& count : runs) ASSERT_EQ(count.load(), 1);
    }
  }
}

TEST(Parallel, NoTwoTasksAtOnceShareAWorker) {
  const Parallel parallel(5);
  std::vector<std::atomic<int>> busy(5);
  std::atomic<int> clashes{0};
  parallel(2000, [&](int64_t, int worker) {
    if (busy[static_cast<size_t>(worker)].fetch_add(1) != 0) ++clashes;
    busy[static_cast<size_t>(worker)].fetch_sub(1);
  });
  EXPECT_EQ(clashes.load(), 0);
}

// A loop is over when its last task is: tasks long enough that helpers are still at theirs when the
// caller has none left.
TEST(Parallel, WaitsForTheLastTask) {
  const Parallel parallel(3);
  for (int i = 0; i < 20; ++i) {
    std::atomic<int> finished{0};
    parallel(3, [&](int64_t task) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1 + 2 * task));
      ++finished;
    });
    ASSERT_EQ(finished.load(), 3);
  }
}

// Many callers at once: one has the helpers, the others do without, and all get everything done.
TEST(Parallel, CallersDoNotDisturbEachOther) {
  std::atomic<int64_t> runs{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      const Parallel parallel(3);
      for (int i = 0; i < 500; ++i) parallel(7, [&](int64_t) { ++runs; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(runs.load(), 4 * 500 * 7);
}

// A machine that is busy with other things slows loops down, it does not make them collapse.
TEST(Parallel, ABusyMachineIsShared) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 2 * Parallel().threads(); ++i) {
    others.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
      }
    });
  }
  const Parallel parallel(2);
  std::atomic<int64_t> runs{0};
  const auto started = std::chrono::steady_clock::now();
  for (int i = 0; i < 2000; ++i) parallel(4, [&](int64_t) { ++runs; });
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - started;
  stop = true;
  for (std::thread& other : others) other.join();
  EXPECT_EQ(runs.load(), 8000);
  // Threads that spin at a barrier lose a slice of the scheduler, milliseconds, at every loop.
  EXPECT_LT(taken.count(), 4.0);
}

TEST(Parallel, LoopsInsideTasksRunInPlace) {
  const Parallel parallel(2);
  std::atomic<int> runs{0};
  parallel(4, [&](int64_t) { parallel(8, [&](int64_t) { ++runs; }); });
  EXPECT_EQ(runs.load(), 32);
}

#if defined(__x86_64__)
// A program that flushes subnormals to zero, or rounds upwards, for its own purposes changes
// nothing in here and finds its settings as it left them.
TEST(Parallel, TasksKeepSubnormalsAndRoundToNearest) {
  const unsigned before = __builtin_ia32_stmxcsr();
  const unsigned odd = before | 0x8040u | 0x4000u;
  for (const int threads : {1, 2}) {
    const Parallel parallel(threads);
    std::atomic<int> wrong{0};
    __builtin_ia32_ldmxcsr(odd);
    parallel(8, [&](int64_t) {
      volatile float small = 1e-38f;
      volatile float half = small * 0.25f;
      volatile float one = 1.0f;
      volatile float rounded = one + 1e-9f;
      if (half == 0.0f || rounded != 1.0f) ++wrong;
    });
    const unsigned after = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before);
    EXPECT_EQ(wrong.load(), 0);
    EXPECT_EQ(after & 0xe040u, odd & 0xe040u);
  }
}
#endif

TEST(Parallel, RejectsAnImpossibleNumber) {
  EXPECT_THROW(Parallel(-1), Error);
  EXPECT_THROW(Parallel(5000), Error);
  EXPECT_GE(Parallel(0).threads(), 1);
}

// More threads than any test before has started: the loop runs on those there are.
TEST(Parallel, RunsEveryTaskWhereNoThreadCanBeStarted) {
  const testing::NoNewThreads none;
  const Parallel parallel(64);
  for (int i = 0; i < 3; ++i) {
    std::vector<std::atomic<int>> runs(500);
    parallel(500, [&](int64_t task) { ++runs[static_cast<size_t>(task)]; });
    for (const auto& count : runs) ASSERT_EQ(count.load(), 1);
  }
}

}  // namespace
}  // namespace tril::parallel_test
