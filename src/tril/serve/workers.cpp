#include "tril/serve/workers.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <iterator>
#include <list>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tril::serve {

struct Workers::State {
  using Tasks = std::deque<std::function<void()>>;
  struct Waiting {
    uint64_t client;
    Tasks tasks;
  };

  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by the mutex: clients with tasks, whose turn is next first, and where each is.
  std::list<Waiting> turns;
  std::unordered_map<uint64_t, std::list<Waiting>::iterator> by_client;
  bool ends = false;
  std::vector<std::thread> threads;

  void add(uint64_t client, std::function<void()>&& task) {
    const auto [found, is_new] = by_client.try_emplace(client);
    if (is_new) {
      try {
        turns.push_back({client, {}});
      } catch (...) {
        by_client.erase(found);
        throw;
      }
      found->second = std::prev(turns.end());
    }
    found->second->tasks.push_back(std::move(task));
  }

  // There is one. The client's next turn comes after everybody's who waits now.
  std::function<void()> next() {
    const auto first = turns.begin();
    std::function<void()> task;
    if (!first->tasks.empty()) {  // as it may be if there was no memory for the task
      task = std::move(first->tasks.front());
      first->tasks.pop_front();
    }
    if (first->tasks.empty()) {
      by_client.erase(first->client);
      turns.erase(first);
    } else {
      turns.splice(turns.end(), turns, first);
    }
    return task;
  }

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return ends || !turns.empty(); });
      if (turns.empty()) return;
      {
        const std::function<void()> task = next();
        lock.unlock();
        try {
          if (task) task();
        } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): as the header says
        }
      }
      lock.lock();
    }
  }
};

Workers::Workers(int threads) : state_(std::make_unique<State>()) {
  for (int i = 0; i < threads; ++i) state_->threads.emplace_back([this] { state_->run(); });
}

Workers::~Workers() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ends = true;
  }
  state_->changed.notify_all();
  for (std::thread& thread : state_->threads) thread.join();
}

void Workers::post(uint64_t client, std::function<void()> task) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->add(client, std::move(task));
  }
  state_->changed.notify_one();
}

}  // namespace tril::serve
