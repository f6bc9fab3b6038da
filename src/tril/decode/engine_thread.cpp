#include "tril/decode/engine_thread.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <semaphore>
#include <thread>
#include <utility>
#include <vector>

#include "tril/base/parallel.h"

namespace tril {
namespace {

// Tasks form an intrusive list, so that running one allocates nothing.
struct Task {
  std::function<void()> run;
  Task* next = nullptr;
  bool owned = true;  // by the list
};

// In order of arrival. Owns those that were posted.
class TaskList {
 public:
  TaskList() = default;
  ~TaskList() {
    while (Task* task = pop()) dispose(task);
  }
  TaskList(const TaskList&) = delete;
  TaskList& operator=(const TaskList&) = delete;

  static void dispose(Task* task) {
    if (task->owned) delete task;
  }
  bool empty() const { return first_ == nullptr; }
  void push(Task* task) {
    *last_ = task;
    last_ = &task->next;
  }
  // Takes over all tasks of a list; this one is empty.
  void take(TaskList& other) {
    if (other.empty()) return;
    first_ = std::exchange(other.first_, nullptr);
    last_ = std::exchange(other.last_, &other.first_);
  }
  Task* pop() {
    Task* task = first_;
    if (task == nullptr) return nullptr;
    first_ = task->next;
    if (first_ == nullptr) last_ = &first_;
    return task;
  }

 private:
  Task* first_ = nullptr;
  Task** last_ = &first_;
};

}  // namespace

struct EngineThread::State {
  std::mutex mutex;
  std::condition_variable changed;
  TaskList tasks;     // guarded by the mutex
  bool ends = false;  // likewise
  // Held by whoever runs tasks and steps: the thread, or one helping caller at a time.
  std::mutex running;
  std::atomic<std::thread::id> runner{};
  std::vector<Engine*> engines;
  size_t turn = 0;  // whose step is next
  std::thread thread;

  bool any_work() const {
    return std::any_of(engines.begin(), engines.end(),
                       [](const Engine* engine) { return !engine->idle(); });
  }

  // Waits if there is nothing to do. False when the thread is to end.
  bool wait_for_work() {
    std::unique_lock lock(mutex);
    if (!any_work()) changed.wait(lock, [&] { return ends || !tasks.empty(); });
    return !tasks.empty() || !ends;
  }

  bool any_tasks() {
    const std::lock_guard lock(mutex);
    return !tasks.empty();
  }
  // Those that were posted before: others wait for the next step, so that however many come, steps
  // are made in between.
  void run_tasks() {
    TaskList posted;
    {
      const std::lock_guard lock(mutex);
      posted.take(tasks);
    }
    while (Task* task = posted.pop()) {
      const bool owned = task->owned;  // if not, it may be destroyed once it has run
      task->run();
      if (owned) delete task;
    }
  }

  void step_next() {
    for (size_t tried = 0; tried < engines.size(); ++tried) {
      turn = (turn + 1) % engines.size();
      if (engines[turn]->idle()) continue;
      try {
        engines[turn]->step();
      } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): its requests were told
      }
      return;
    }
  }

  // The thread's work.
  void run() {
    runner = std::this_thread::get_id();
    while (wait_for_work()) {
      run_tasks();
      step_next();
    }
  }
  // A part of it, if there is no thread.
  template <class F>
  void run_here(const F& work) {
    const std::lock_guard lock(running);
    runner = std::this_thread::get_id();
    run_tasks();
    work();
    runner = std::thread::id();
  }
};

EngineThread::EngineThread() : state_(std::make_shared<State>()) {
  Parallel::prepare();  // a Translator with static lifetime decodes until it is destroyed
  try {
    state_->thread = std::thread([state = state_] { state->run(); });
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): help() does its work
  }
}

EngineThread::~EngineThread() {
  if (!state_->thread.joinable()) {
    while (!is_this_thread() && state_->any_tasks()) state_->run_here([] {});
    return;
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->ends = true;
  }
  state_->changed.notify_one();
  if (is_this_thread()) {
    state_->thread.detach();  // a task held the last reference: it ends by itself
  } else {
    state_->thread.join();
  }
}

std::shared_ptr<EngineThread> EngineThread::of(const Device& device) {
  static std::mutex mutex;
  static auto& threads =
      *new std::map<std::string, std::weak_ptr<EngineThread>>;  // never destroyed
  const std::lock_guard lock(mutex);
  // A process that was forked has none of its parent's threads.
  std::weak_ptr<EngineThread>& known = threads[concat(device, " of process ", ::getpid())];
  std::shared_ptr<EngineThread> thread = known.lock();
  if (thread == nullptr) known = thread = std::make_shared<EngineThread>();
  return thread;
}

void EngineThread::post(std::function<void()> task) {
  auto posted = std::make_unique<Task>(Task{std::move(task)});
  {
    const std::lock_guard lock(state_->mutex);
    state_->tasks.push(posted.release());
  }
  state_->changed.notify_one();
}

void EngineThread::call(const std::function<void()>& task) {
  if (is_this_thread()) return task();
  std::exception_ptr thrown;
  const auto caught = [&] {
    try {
      task();
    } catch (...) {
      thrown = std::current_exception();
    }
  };
  if (state_->thread.joinable()) {
    std::binary_semaphore done(0);
    const auto run = [&] {
      caught();
      done.release();
    };
    Task called{.run = std::cref(run), .owned = false};
    {
      const std::lock_guard lock(state_->mutex);
      state_->tasks.push(&called);
    }
    state_->changed.notify_one();
    done.acquire();
  } else {
    const std::shared_ptr<State> state = state_;  // a task may hold the last reference to this
    state->run_here(caught);
  }
  if (thrown) std::rethrow_exception(thrown);
}

bool EngineThread::help() {
  if (state_->thread.joinable()) return false;
  const std::shared_ptr<State> state = state_;  // likewise
  state->run_here([&] { state->step_next(); });
  return true;
}

bool EngineThread::is_this_thread() const { return std::this_thread::get_id() == state_->runner; }

void EngineThread::add(Engine& engine) { state_->engines.push_back(&engine); }

void EngineThread::remove(Engine& engine) { std::erase(state_->engines, &engine); }

}  // namespace tril
