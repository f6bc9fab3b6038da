// Queue: the work a device is given, in order, with the small data that the host knows and the
// device reads (token ids, positions, intervals, scalars), and steps that are kept as CUDA graphs.
//
// A step that is repeated is walked by the host each time: its checks are made, its memory is laid
// out, and its uploads are written; but from its third repetition on its kernels are not launched
// one by one. All uploads are copied at once, and then one CUDA graph does the rest. A walk that
// turns out to be a different step (other sizes, other memory, another order) is recognised by its
// trace (trace.h), and runs normally. So code that enqueues a step need not know about graphs.
//
// There are lanes. Nearly everything is in the first, in order. What is enqueued while an Aside
// lives goes into a side stream: in order there, after everything enqueued in the first lane
// before, and in parallel with what is enqueued elsewhere afterwards, until join(). In a graph they
// are branches. On the CPU a queue does nothing. It belongs to one thread at a time; a thread may
// have queues of several GPUs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include "tril/base/stream.h"
#include "tril/device/device.h"
#include "tril/device/identity.h"
#include "tril/device/trace.h"

namespace tril {

// Bytes copied within the device; and rows of `bytes` each, `step` bytes apart, copied to
// consecutive memory.
struct Copy {
  const void* from = nullptr;
  void* to = nullptr;
  int64_t bytes = 0;
};
struct CopyRows {
  const void* from = nullptr;
  int64_t step = 0;
  void* to = nullptr;
  int64_t bytes = 0;
  int64_t rows = 0;
};
// True for the structs of arguments listed in launches.h. A test checks that each of their values
// is part of the identity (tests/device/identity_test.cpp); Queue::launch() accepts no others.
consteval bool is_listed_launch(const Copy*) { return true; }
consteval bool is_listed_launch(const CopyRows*) { return true; }

class Queue {
 public:
  explicit Queue(Device device);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  Device device() const { return device_; }
  // CUDA has a current GPU per thread: makes this queue's GPU current, for queries about kernels.
  // Enqueuing does so by itself.
  void make_current() const;

  // The device address of a copy of these bytes, until reset(). The caller may overwrite its own
  // bytes at once.
  const void* upload(const void* from, int64_t bytes);
  void reset();

  // Enqueues launcher(stream, args) and raises its errors. While the host walks a step that is kept
  // as a graph, it only adds to the trace. Launcher and arguments are the identity of the launch:
  // anything else that the kernel depends on must be uploaded.
  template <class Args>
  void launch(Launcher<Args> launcher, const std::type_identity_t<Args>& args,
              Begins begins = Begins::alone) {
    static_assert(is_listed_launch(static_cast<const Args*>(nullptr)),
                  "arguments that are not in the list of kernels/cuda/launches.h");
    if (!launches(identity_of<Args>(launcher, args), begins)) return;
    Stream to = stream();
    // A graph begins when all its uploads are complete. Kernels launched one by one have no such
    // guarantee, so they never overlap.
    to.overlaps = begins == Begins::in_chain && captures();
    launcher(to, args);
    launched();
  }

  // Work aside. Memory it reads must not be written, and memory it writes neither read nor given to
  // others, before join(): Context::aside() ensures that. Asides do not nest.
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
  // Makes what is enqueued from now on, in this lane, wait for everything enqueued in other lanes.
  // Happens by itself at the end of a step, in reset() and before any wait.
  void join();

  // Within the device, as part of the step.
  void copy(const Copy& args);
  void copy_rows(const CopyRows& args);

  void wait();
  // Waits for everything enqueued, then copies. Not within a step.
  void download(const void* from, int64_t bytes, void* to);

  // Starts a copy to the host, after what is enqueued so far. It is kept until fetched(), which
  // waits for it, or forget(). Not within a step.
  int64_t fetch(const void* from, int64_t bytes);
  void fetched(int64_t number, void* to, int64_t bytes);
  // The same without a copy, which would keep the device waiting between two steps: host memory
  // that a kernel writes itself. The step receives the address as data; deliver() follows once it
  // is enqueued, then fetched().
  struct Delivery {
    int64_t number = 0;
    void* to = nullptr;
  };
  Delivery expect(int64_t bytes);
  void deliver(int64_t number);
  // It will not be read any more. Numbers that were read are ignored.
  void forget(int64_t number);

  // Runs a step. `body` enqueues it, and may be called twice: calling it twice must leave the host
  // as calling it once does. It must not wait for the device.
  void step(const std::function<void()>& body);
  int64_t graphs() const;  // kept so far
  bool captures() const;   // a step that will be kept is being enqueued

 private:
  struct State;
  struct Fetch {
    int64_t number = -1;  // of the fetch; -1: free
    void* event = nullptr;
    void* pinned = nullptr;
    int64_t room = 0;  // of the pinned memory
    std::vector<char> bytes{};
  };

  // Adds the launch to the trace and returns whether to enqueue it now.
  bool launches(const Identity& launch, Begins begins);
  Stream stream() const;  // of the current lane
  void launched();        // raises the error of what was just enqueued

  // A place with room for this many bytes, under the next fetch number.
  Fetch& take_place(int64_t bytes);
  void make_room(Fetch& place, int64_t bytes) const;
  Fetch& place_of(int64_t number);

  Device device_;
  std::unique_ptr<State> state_;
  std::vector<Fetch> fetched_{};
  int64_t fetches_ = 0;
};

}  // namespace tril
