#include "tril/base/parallel.h"

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "tril/base/error.h"
#include "tril/base/rounding.h"

namespace tril {
namespace {

// How often a waiting thread looks for work before it sleeps: some tens of microseconds, about the
// time between two kernels of a step.
constexpr int kSpins = 1000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Set when the process ends: loops then run on their callers' threads.
std::atomic<bool> pool_has_ended = false;

// Set in a thread while it runs tasks: loops inside a task run in place.
thread_local bool inside_task = false;

// The process's helper threads. They wait for a loop, take tasks from it until there are none, and
// wait again: spinning briefly, then sleeping, so that they cost nothing on a busy machine. The
// caller works too, and at the end waits only for helpers that have joined: one that never woke up,
// because the machine is busy, delays nobody.
class Pool {
 public:
  ~Pool() {
    if (::getpid() != process_) {  // forked: the helpers are the parent's
      pool_has_ended = true;
      for (std::thread& helper : helpers_) helper.detach();
      return;
    }
    {
      const std::lock_guard lock(mutex_);  // waits for the loop that is running
      pool_has_ended = true;
    }
    stop_.store(true);
    announce();
    for (std::thread& helper : helpers_) helper.join();
  }

  // Returns false when another loop is running: the caller then works alone.
  bool run(int threads, int64_t tasks, const void* body, Parallel::Body call) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || pool_has_ended) return false;
    if (static_cast<int>(helpers_.size()) < threads - 1) start_helpers(threads - 1);
    threads_ = threads;
    tasks_ = tasks;
    body_ = body;
    call_ = call;
    next_.store(0, std::memory_order_relaxed);
    state_.store(kOpen, std::memory_order_release);
    announce();
    work(0);
    // No helper can join any more; those that did are on their last task.
    state_.fetch_and(~kOpen, std::memory_order_acq_rel);
    for (int spin = 0; state_.load(std::memory_order_acquire) != 0; ++spin) {
      if (spin < kSpins) {
        pause();
      } else {
        std::this_thread::yield();
      }
    }
    return true;
  }

 private:
  static constexpr uint32_t kOpen = 1u << 31;  // the lower bits count the helpers that have joined
  static constexpr uint64_t kLoopsPerRetry = 10'000;

  // Starts as many helpers as the system allows; a loop needs none. After a refusal, the next loops
  // do not ask again, because asking takes longer than a small loop.
  void start_helpers(int helpers) {
    if (refused_ && refusals_++ % kLoopsPerRetry != 0) return;
    refused_ = false;
    while (!refused_ && static_cast<int>(helpers_.size()) < helpers) {
      const int number = static_cast<int>(helpers_.size()) + 1;
      try {
        helpers_.emplace_back([this, number] { help(number); });
      } catch (const std::system_error&) {
        refused_ = true;
      }
    }
  }

  void announce() {
    announced_.fetch_add(1, std::memory_order_release);
    announced_.notify_all();
  }

  void work(int worker) {
    const StandardRounding rounding;
    inside_task = true;
    for (;;) {
      const int64_t task = next_.fetch_add(1, std::memory_order_relaxed);
      if (task >= tasks_) break;
      call_(body_, task, worker);
    }
    inside_task = false;
  }

  // Joins, unless the loop is over.
  bool join() {
    uint32_t state = state_.load(std::memory_order_acquire);
    while ((state & kOpen) != 0) {
      if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) return true;
    }
    return false;
  }

  void help(int number) {
    uint32_t seen = 0;
    for (;;) {
      for (int spin = 0; announced_.load(std::memory_order_acquire) == seen && spin < kSpins;
           ++spin) {
        pause();
      }
      announced_.wait(seen, std::memory_order_acquire);
      seen = announced_.load(std::memory_order_acquire);
      if (stop_.load()) return;
      if (!join()) continue;
      if (number < threads_) work(number);
      state_.fetch_sub(1, std::memory_order_acq_rel);
    }
  }

  const pid_t process_ = ::getpid();
  std::mutex mutex_;
  std::vector<std::thread> helpers_;
  bool refused_ = false;   // the system would not start another
  uint64_t refusals_ = 0;  // loops since then that did not ask again
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<uint32_t> announced_{0};
  alignas(64) std::atomic<uint32_t> state_{0};
  alignas(64) std::atomic<int64_t> next_{0};
  // The loop: written while no helper has joined, read by those that have.
  alignas(64) int threads_ = 0;
  int64_t tasks_ = 0;
  const void* body_ = nullptr;
  Parallel::Body call_ = nullptr;
};

Pool& pool() {
  static Pool instance;
  return instance;
}

// Cores this process may run on, according to its affinity and its control group's quota.
int usable_cores() {
  cpu_set_t set;
  int cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0.0;
  if (file >> quota >> period && quota != "max" && period > 0.0) {
    const int limit = static_cast<int>(std::lround(std::strtod(quota.c_str(), nullptr) / period));
    if (limit >= 1 && limit < cores) cores = limit;
  }
  return cores < 1 ? 1 : (cores > 1024 ? 1024 : cores);
}

}  // namespace

Parallel::Parallel(int threads) : threads_(threads == 0 ? usable_cores() : threads) {
  require(threads_ >= 1 && threads_ <= 1024, ErrorCode::invalid_argument, "threads: ", threads,
          " is not between 1 and 1024 (0 takes all cores)");
}

void Parallel::prepare() { pool(); }

void Parallel::run(int64_t tasks, const void* body, Body call) const {
  const auto team = static_cast<int>(tasks < threads_ ? tasks : threads_);
  if (team > 1 && !inside_task && !pool_has_ended && pool().run(team, tasks, body, call)) return;
  const StandardRounding rounding;
  for (int64_t task = 0; task < tasks; ++task) call(body, task, 0);
}

}  // namespace tril
