#include "gil.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "tril/base/error.h"

namespace tril::python {
namespace {

std::atomic<bool> used{false};
std::atomic<bool> stranded{false};

// Threads without the lock that have not gone to sleep, and who alone may take it at the end.
std::atomic<int> outside{0};
std::atomic<bool> ending{false};
std::atomic<std::thread::id> last{};

// The library's own destructors would join threads that this process does not have.
void leave(int status, void*) {
  std::fflush(nullptr);
  _exit(status);
}

void in_child() {
  if (!used) return;
  stranded = true;
  on_exit(leave, nullptr);
}

bool must_sleep() { return ending && last.load() != std::this_thread::get_id(); }

// For a thread that is counted in `outside`.
[[noreturn]] void sleep_for_ever() {
  --outside;
  for (;;) ::pause();
}

// Lines in flight by their numbers. Never destroyed: threads may still be there at the very end.
struct Lines {
  std::mutex mutex;
  std::map<uint64_t, PendingTranslation> all;
  uint64_t next = 1;
};
Lines& lines() {
  static Lines* const instance = new Lines;
  return *instance;
}

}  // namespace

void begin_use() {
  require(!stranded, ErrorCode::unsupported,
          "this process was forked from one that had already used tril, whose threads it does not "
          "have: start processes with 'spawn' or 'forkserver', or use tril only after the fork");
  if (used.exchange(true)) return;
  pthread_atfork(nullptr, nullptr, in_child);
}

bool is_stranded() { return stranded; }

WithoutGil::WithoutGil() { release(); }

WithoutGil::~WithoutGil() { take(); }

void WithoutGil::release() {
  ++outside;
  thread_ = PyEval_SaveThread();
}

void WithoutGil::take() {
  if (must_sleep()) sleep_for_ever();
  PyEval_RestoreThread(thread_);
  --outside;
}

void WithoutGil::check_signals() {
  with([] {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  });
}

void end_of_interpreter() {
  if (is_stranded()) return;  // the lines and threads that are counted are the parent's
  last = std::this_thread::get_id();
  ending = true;
  const WithoutGil unlocked;
  std::vector<PendingTranslation> left;
  {
    const std::lock_guard lock(lines().mutex);
    for (const auto& [number, line] : lines().all) left.push_back(line);
  }
  PendingTranslation::cancel(left);
  for (const PendingTranslation& line : left) line.wait();
  // A thread that took the lock just before finds out when it releases it and wants it back.
  while (outside > 1) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

InFlight::InFlight(const PendingTranslation& line) {
  Lines& here = lines();
  {
    const std::lock_guard lock(here.mutex);
    if (!must_sleep()) {
      number_ = here.next++;
      here.all.emplace(number_, line);
      return;
    }
  }
  line.cancel();
  sleep_for_ever();
}

InFlight::~InFlight() {
  if (number_ == 0) return;
  Lines& here = lines();
  decltype(here.all)::node_type line;  // destroyed without the mutex
  const std::lock_guard lock(here.mutex);
  line = here.all.extract(number_);
}

}  // namespace tril::python
