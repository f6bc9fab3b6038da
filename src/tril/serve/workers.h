// Workers: threads for what must not run on the threads of HTTP, because it takes long.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace tril::serve {

// Clients take turns, so that one with many tasks does not keep the others waiting.
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

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tril::serve
