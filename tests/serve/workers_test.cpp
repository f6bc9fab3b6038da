// Workers: whose turn it is.
#include "tril/serve/workers.h"

#include <gtest/gtest.h>

#include <future>
#include <mutex>
#include <stdexcept>
#include <string>

namespace tril::workers_test {
namespace {

using serve::Workers;

// Keeps a thread until it is let go.
class Block {
 public:
  void put(Workers& workers, uint64_t client) {
    workers.post(client, [this] {
      reached_.set_value();
      released_.get_future().wait();
    });
    reached_.get_future().wait();
  }
  void release() { released_.set_value(); }

 private:
  std::promise<void> reached_, released_;
};

// What was run, in order.
class Order {
 public:
  void add(char name) {
    const std::lock_guard lock(mutex_);
    names_ += name;
  }
  std::string names() const {
    const std::lock_guard lock(mutex_);
    return names_;
  }
  // A task that is done in so many steps.
  std::function<bool()> steps(char name, int count) {
    return [this, name, count]() mutable {
      add(name);
      return --count > 0;
    };
  }

 private:
  mutable std::mutex mutex_;
  std::string names_;
};

TEST(Workers, ClientsTakeTurns) {
  Order order;
  Workers workers(1);
  Block block;
  block.put(workers, 9);
  for (const char name : {'a', 'b', 'c'}) workers.post(1, [&, name] { order.add(name); });
  workers.post(2, [&] { order.add('x'); });
  workers.post(1, [] { throw std::runtime_error("nobody waits for it"); });
  block.release();
  workers.wait_idle();
  EXPECT_EQ(order.names(), "axbc");
}

TEST(Workers, BetweenStepsOthersHaveTheirTurn) {
  Order order;
  Workers workers(1);
  Block block;
  block.put(workers, 9);
  workers.post_steps(1, order.steps('a', 4));
  workers.post(1, [&] { order.add('b'); });  // after the client's earlier one
  workers.post_steps(2, order.steps('x', 2));
  workers.post(3, [&] { order.add('y'); });
  block.release();
  workers.wait_idle();
  EXPECT_EQ(order.names(), "axyaxaab");
}

TEST(Workers, NoClientHasTwoThreads) {
  Order order;
  Workers workers(2);
  Block block;
  block.put(workers, 1);
  workers.post(1, [&] { order.add('a'); });
  std::promise<void> done;
  workers.post(2, [&] {
    order.add('x');
    done.set_value();
  });
  done.get_future().wait();
  EXPECT_EQ(order.names(), "x");
  block.release();
  workers.wait_idle();
  EXPECT_EQ(order.names(), "xa");
}

// Tasks that were posted are run before the end, however many threads and clients there are.
TEST(Workers, RunEverythingOnce) {
  for (const int threads : {1, 2, 5}) {
    std::atomic<int> runs = 0;
    {
      Workers workers(threads);
      for (uint64_t i = 0; i < 1000; ++i) {
        workers.post_steps(i % 7, [&runs, left = 3]() mutable {
          ++runs;
          return --left > 0;
        });
      }
    }
    EXPECT_EQ(runs, 3000);
  }
}

}  // namespace
}  // namespace tril::workers_test
