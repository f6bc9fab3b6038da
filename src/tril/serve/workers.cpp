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
  struct Client {
    uint64_t id;
    std::deque<std::function<bool()>> tasks{};  // the first one's next step is the next to be run
  };
  using Clients = std::list<Client>;

  std::mutex mutex;
  std::condition_variable changed, idle;
  // Guarded by the mutex: clients with tasks, whose turn is next first; those who have a thread;
  // and where each is.
  Clients turns, running;
  std::unordered_map<uint64_t, Clients::iterator> by_client;
  bool ends = false;
  std::vector<std::thread> threads;

  void add(uint64_t client, std::function<bool()>&& task) {
    const auto [found, is_new] = by_client.try_emplace(client);
    if (is_new) {
      try {
        turns.push_back({client});
      } catch (...) {
        by_client.erase(found);
        throw;
      }
      found->second = std::prev(turns.end());
    }
    found->second->tasks.push_back(std::move(task));
  }

  // Its turn is over: the next comes after everybody's who waits now.
  void give_up_thread(Clients::iterator client) {
    if (client->tasks.empty()) {
      by_client.erase(client->id);
      running.erase(client);
    } else {
      turns.splice(turns.end(), running, client);
    }
    if (turns.empty() && running.empty()) idle.notify_all();
  }

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return ends || !turns.empty(); });
      if (turns.empty()) return;
      const auto client = turns.begin();
      running.splice(running.end(), turns, client);
      std::function<bool()> done;
      if (!client->tasks.empty()) {  // as it may be if there was no memory for the task
        const std::function<bool()>& task = client->tasks.front();
        lock.unlock();
        const bool goes_on = step(task);
        lock.lock();
        if (!goes_on) {
          done = std::move(client->tasks.front());
          client->tasks.pop_front();
        }
      }
      // What a task holds goes before its client is done, and without the lock.
      lock.unlock();
      done = nullptr;
      lock.lock();
      give_up_thread(client);
    }
  }

  static bool step(const std::function<bool()>& task) {
    try {
      return task();
    } catch (const std::exception&) {  // as the header says
      return false;
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
  post_steps(client, [task = std::move(task)] {
    task();
    return false;
  });
}

void Workers::post_steps(uint64_t client, std::function<bool()> step) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->add(client, std::move(step));
  }
  state_->changed.notify_one();
}

void Workers::wait_idle() {
  std::unique_lock lock(state_->mutex);
  state_->idle.wait(lock, [&] { return state_->turns.empty() && state_->running.empty(); });
}

}  // namespace tril::serve
