// Workers: threads for what must not run on the threads of HTTP, because it takes long.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace tril::serve {

// Clients take turns, so that one with many tasks does not keep the others waiting. No client has
// two threads at a time: where there are more, one with long tasks leaves the others free.
class Workers {
 public:
  explicit Workers(int threads);
  // Tasks that were posted are run first.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Runs a task on one of the threads: after the client's earlier ones, and one of every other
  // client who waits. What it throws is dropped, as nobody waits for it.
  void post(uint64_t client, std::function<void()> task);
  // The same for a task in steps: it returns whether there are more. Between two, the others who
  // wait have their turn.
  void post_steps(uint64_t client, std::function<bool()> step);
  // Waits until nothing is running and nothing waits.
  void wait_idle();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tril::serve
