#include "tril/decode/engine_thread.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace tril {

struct EngineThread::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;  // guarded by the mutex
  bool ends = false;                        // likewise
  // Used by the thread only.
  std::vector<Engine*> engines;
  size_t turn = 0;  // whose step is next
  std::thread thread;

  bool any_work() const {
    return std::any_of(engines.begin(), engines.end(),
                       [](const Engine* engine) { return !engine->idle(); });
  }

  // Waits if there is nothing to do. False when the thread is to end.
  bool run_tasks() {
    std::deque<std::function<void()>> now;
    {
      std::unique_lock lock(mutex);
      if (!any_work()) changed.wait(lock, [&] { return ends || !tasks.empty(); });
      now.swap(tasks);
      if (now.empty() && ends) return false;
    }
    for (const auto& task : now) task();
    return true;
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
};

EngineThread::EngineThread() : state_(std::make_shared<State>()) {
  state_->thread = std::thread([state = state_] {
    while (state->run_tasks()) state->step_next();
  });
}

EngineThread::~EngineThread() {
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
  static std::map<std::string, std::weak_ptr<EngineThread>> threads;
  const std::lock_guard lock(mutex);
  std::weak_ptr<EngineThread>& known = threads[concat(device)];
  std::shared_ptr<EngineThread> thread = known.lock();
  if (thread == nullptr) known = thread = std::make_shared<EngineThread>();
  return thread;
}

void EngineThread::post(std::function<void()> task) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->tasks.push_back(std::move(task));
  }
  state_->changed.notify_one();
}

void EngineThread::call(const std::function<void()>& task) {
  if (is_this_thread()) return task();
  std::promise<void> done;
  post([&] {
    try {
      task();
      done.set_value();
    } catch (...) {
      done.set_exception(std::current_exception());
    }
  });
  done.get_future().get();
}

bool EngineThread::is_this_thread() const {
  return std::this_thread::get_id() == state_->thread.get_id();
}

void EngineThread::add(Engine& engine) { state_->engines.push_back(&engine); }

void EngineThread::remove(Engine& engine) { std::erase(state_->engines, &engine); }

}  // namespace tril
