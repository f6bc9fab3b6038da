// Queue: what a device is given to do, in order, with the small things the host knows and the
// device reads (token ids, positions, intervals, scalars), and steps that are kept as graphs.
//
// A step that comes again and again is walked by the host each time: its checks are made, its
// memory is laid out, and what the host knows is written down; but from the third equal time on
// nothing is launched one by one. What the host knows goes over in one copy, and then one graph
// does the rest. A walk that turns out to be another step (other sizes, another order) is found out
// by its trace, and runs as it is. So whoever writes a step need not know of graphs.
//
// There are lanes. Nearly everything is in the first, in order. What is enqueued while an Aside
// lives is in another: in order there, behind all that was enqueued in the first lane before, and
// beside what is enqueued elsewhere afterwards, until join(). In a graph they are branches. On the
// CPU a queue does nothing. It belongs to one thread at a time; a thread may have queues of several
// GPUs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tril/base/stream.h"
#include "tril/device/device.h"

namespace tril {

// What is done beside the rest; two kinds, so that they are beside each other too.
enum class Lane { first, products, sums };

class Queue {
 public:
  explicit Queue(Device device);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  Device device() const { return device_; }
  Stream stream() const;  // of the lane that is enqueued into
  // CUDA has a current GPU per thread: makes it this queue's, for whoever asks CUDA about kernels.
  // What is enqueued here does so by itself.
  void make_current() const;

  // Where the device finds a copy of these bytes, until reset(). The host's may change at once.
  const void* upload(const void* from, int64_t bytes);
  void reset();

  // Whether what follows is to be launched; false while a kept step is walked. `trace` and `place`,
  // where the step's memory ends, tell one launch from another. Call launched() behind it, which
  // raises what went wrong.
  bool launches(const void* trace, const void* place);
  void launched();
  // Whoever launches with memory of its own, neither the step's nor uploaded, says where it is: a
  // step with other weights or another cache is another step.
  void note(const void* memory);
  void note(int64_t size);

  // Work aside. Memory it reads must not be written, and memory it writes neither read nor given to
  // others, before join(): Context::aside() sees to it. Within one another is none.
  class Aside {
   public:
    Aside(Queue& queue, Lane lane);
    ~Aside();
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;

   private:
    Queue& queue_;
    Lane before_;
  };
  Lane lane() const;
  // What is enqueued from now on, here, waits for all that was enqueued in other lanes. A step ends
  // so by itself, and so do reset() and whatever waits.
  void join();

  // Within the device, as part of the step.
  void copy(const void* from, void* to, int64_t bytes);
  // Rows of `bytes` each that lie `step` bytes apart, one behind the other.
  void copy_rows(const void* from, int64_t step, void* to, int64_t bytes, int64_t rows);

  void wait();
  // Waits for all that was enqueued, then copies. Not within a step.
  void download(const void* from, int64_t bytes, void* to);

  // Begins to copy to the host, behind what is enqueued so far; fetched() waits for it, once. What
  // nobody asks for is forgotten when kMostFetches have come after it. Not within a step.
  static constexpr int64_t kMostFetches = 1024;
  int64_t fetch(const void* from, int64_t bytes);
  void fetched(int64_t number, void* to, int64_t bytes);
  // The same without a copy, which would keep the device waiting between two steps: memory of the
  // host for what a kernel writes there itself. The step is given the address as data; deliver()
  // follows once it is enqueued, then fetched().
  struct Delivery {
    int64_t number = 0;
    void* to = nullptr;
  };
  Delivery expect(int64_t bytes);
  void deliver(int64_t number);
  // Nobody will ask for it any more. What is expected is not forgotten otherwise.
  void forget(int64_t number);

  // Runs a step. `body` enqueues it, and may be called twice: what it does on the host must come to
  // the same when it does. It may not wait.
  void step(const std::function<void()>& body);
  int64_t graphs() const;  // kept so far
  bool captures() const;   // a step that will be kept is being enqueued

 private:
  struct State;
  struct Fetch {
    int64_t number = -1;  // whose it is; -1: nobody's
    bool expected = false;
    void* event = nullptr;
    void* pinned = nullptr;
    int64_t room = 0;  // of the pinned memory
    std::vector<char> bytes{};
  };

  // A place for so much, with the next number.
  Fetch& take_place(int64_t bytes);
  Fetch& place_of(int64_t number);

  Device device_;
  std::unique_ptr<State> state_;
  std::vector<Fetch> fetched_{};
  int64_t fetches_ = 0;
};

}  // namespace tril
