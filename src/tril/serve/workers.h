// Workers: threads for what must not run on the threads of HTTP, because it takes long.
#pragma once

#include <functional>
#include <memory>

namespace tril::serve {

class Workers {
 public:
  explicit Workers(int threads);
  // Tasks that were posted are run first.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Runs a task on one of the threads, in the order they are posted. It may not throw.
  void post(std::function<void()> task);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tril::serve
