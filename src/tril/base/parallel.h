// Threads: one loop over independent tasks, nothing else.
//
// Tasks are handed out in any order to any thread, so a task may write only what no other task
// touches, and no result may depend on the number of threads. There are no reductions: sums over
// tasks are made by their owner, in a fixed order.
// Tasks round to nearest and keep subnormals, whatever mode the calling program has set.
// A loop inside a task runs on the caller's thread alone, and so does one that begins while another
// caller's loop has the helper threads. Exceptions must not leave a task.
// Where the system starts fewer threads than requested, the loop runs on those that started.
// Waiting helpers look for work for some microseconds and then sleep, and a loop never waits for
// one that did not wake up, so a busy machine slows a loop down no more than necessary.
#pragma once

#include <cstdint>

namespace tril {

class Parallel {
 public:
  // 0 uses all cores of this process, according to its affinity and its control group.
  explicit Parallel(int threads = 0);

  int threads() const { return threads_; }

  // Calls f(task) for every task in [0, tasks), or f(task, worker) with worker in [0, threads()):
  // no two tasks running at once have the same worker.
  template <class F>
  void operator()(int64_t tasks, const F& f) const {
    run(tasks, &f, [](const void* body, int64_t task, int worker) {
      const F& call = *static_cast<const F*>(body);
      if constexpr (requires { call(task, worker); }) {
        call(task, worker);
      } else {
        call(task);
      }
    });
  }

  // Creates what all loops share, without starting a thread. Objects with static lifetime that are
  // made after this, and threads that end with them, can run loops until they are destroyed.
  static void prepare();

  using Body = void (*)(const void* body, int64_t task, int worker);

 private:
  void run(int64_t tasks, const void* body, Body call) const;

  int threads_;
};

}  // namespace tril
