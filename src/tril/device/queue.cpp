#include "tril/device/queue.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <vector>

#include "tril/base/error.h"
#include "tril/device/cuda.h"

namespace tril {
namespace {

constexpr int64_t kSmallestBlock = int64_t{1} << 20;
constexpr int64_t kSmallestFetch = 128;
// Buffers for uploads: one is filled while the device reads the others. Three, so that the host can
// prepare a long step while the device runs the long step before and a short one waits between
// them: micro-batch, change of the weights, micro-batch.
constexpr int kBuffers = 3;
constexpr int kRunsBeforeGraph = 2;  // equal ones: by then every address repeats
constexpr size_t kMostSteps = 256;
constexpr size_t kLanes = 3;

void enqueue_copy(Stream stream, const Copy& copy) {
  cuda::copy_async(stream, copy.to, copy.from, copy.bytes);
}
void enqueue_rows(Stream stream, const CopyRows& copy) {
  cuda::copy_rows_async(stream, copy.to, copy.from, copy.step, copy.bytes, copy.rows);
}

int64_t padded(int64_t bytes) {
  return (bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
}

}  // namespace

struct Queue::State {
  // Uploaded data: a block on the device, and kBuffers of pinned memory with the same layout.
  struct Block {
    char* on_device = nullptr;
    char* pinned[kBuffers] = {};
    int64_t bytes = 0;
  };
  // A step, identified by its trace.
  struct Step {
    int seen = 0;
    int64_t last = 0;  // when it last ran
    void* graph = nullptr;
  };
  enum class Mode { direct, walking, capturing };

  // A side stream.
  struct Branch {
    Stream stream{};
    void* reached = nullptr;  // after what was enqueued into it last
    bool behind = true;       // it must wait for everything in the first lane
    bool apart = false;       // it has work that the first lane does not wait for yet
  };

  int gpu = 0;
  Stream stream{};  // the first lane
  std::array<Branch, kLanes - 1> branches{};
  Lane lane = Lane::first;  // where work is enqueued
  void* forked = nullptr;
  void* events[kBuffers] = {};  // when the device has read the buffer
  std::vector<Block> blocks;
  size_t block = 0;  // the one being filled
  int64_t mark = 0;
  int buffer = 0;
  Mode mode = Mode::direct;
  Trace trace{};
  bool repeats = false;  // some step has come often enough
  std::map<Trace, Step> steps;
  int64_t clock = 0;  // steps so far

  explicit State(int gpu_index)
      : gpu(gpu_index),
        stream(cuda::make_stream(gpu, cuda::Urgency::urgent)),
        forked(cuda::make_event(gpu)) {
    for (Branch& branch : branches) {
      branch.stream = cuda::make_stream(gpu, cuda::Urgency::spare);
      branch.reached = cuda::make_event(gpu);
    }
    for (void*& event : events) event = cuda::make_event(gpu);
  }
  ~State() {
    for (auto& [trace_of, step] : steps) {
      if (step.graph != nullptr) cuda::drop_graph(step.graph);
    }
    free_blocks();
    for (void* event : events) cuda::drop_event(event);
    cuda::drop_event(forked);
    for (const Branch& branch : branches) {
      cuda::drop_event(branch.reached);
      cuda::drop_stream(branch.stream);
    }
    cuda::drop_stream(stream);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void free_blocks() {
    for (const Block& each : blocks) {
      cuda::release(gpu, each.on_device);
      for (char* pinned : each.pinned) cuda::release_pinned(gpu, pinned);
    }
    blocks.clear();
  }
  void add_block(int64_t bytes) {
    Block added;
    added.bytes = bytes;
    added.on_device = static_cast<char*>(cuda::allocate(gpu, bytes));
    for (char*& pinned : added.pinned) {
      pinned = static_cast<char*>(cuda::allocate_pinned(gpu, bytes));
    }
    blocks.push_back(added);
  }
  // Makes room for another step.
  void forget_oldest() {
    const auto oldest = std::min_element(
        steps.begin(), steps.end(),
        [](const auto& a, const auto& b) { return a.second.last < b.second.last; });
    if (oldest->second.graph != nullptr) {
      cuda::wait(stream);  // it may be running
      cuda::drop_graph(oldest->second.graph);
    }
    steps.erase(oldest);
  }
  Branch& branch_of(Lane which) { return branches[static_cast<size_t>(which) - 1]; }
  // The lane for what is enqueued now. A side lane waits for the first only when something is
  // enqueued into it: an empty lane costs nothing.
  Stream current() {
    if (lane == Lane::first) return stream;
    Branch& branch = branch_of(lane);
    if (!branch.behind && mode != Mode::walking) {
      cuda::record(forked, stream);
      cuda::let_wait(branch.stream, forked);
      branch.behind = true;
      branch.apart = true;
    }
    return branch.stream;
  }
  // Makes the current lane wait for the others.
  void join() {
    if (mode == Mode::walking) return;
    const Stream here = current();
    for (Branch& branch : branches) {
      if (!branch.apart || branch.stream.handle == here.handle) continue;
      cuda::record(branch.reached, branch.stream);
      cuda::let_wait(here, branch.reached);
      if (lane == Lane::first) branch.apart = false;
    }
  }
  // Copies everything uploaded since reset(), one copy per block, and then launches the graph.
  void run(void* graph) {
    for (size_t i = 0; i <= block && i < blocks.size(); ++i) {
      const int64_t bytes = i == block ? mark : blocks[i].bytes;
      if (bytes > 0) {
        cuda::copy_async(stream, blocks[i].on_device, blocks[i].pinned[buffer], bytes);
      }
    }
    cuda::record(events[buffer], stream);
    cuda::launch_graph(graph, stream);
  }
};

Queue::Queue(Device device) : device_(device) {
  check_usable(device);
  if (device != Device::cpu) state_ = std::make_unique<State>(device.index);
}
Queue::~Queue() {
  if (state_ && !fetched_.empty()) cuda::settle(state_->stream);  // kernels write there, too
  for (const Fetch& place : fetched_) {
    if (place.event == nullptr) continue;
    cuda::drop_event(place.event);
    cuda::release_pinned(device_.index, place.pinned);
  }
}

void Queue::make_current() const {
  if (state_) cuda::use(state_->gpu);
}

Stream Queue::stream() const { return state_ ? state_->current() : Stream{}; }

Queue::Aside::Aside(Queue& queue, Lane lane) : queue_(queue), before_(queue.lane()) {
  if (!queue.state_ || before_ != Lane::first) return;
  State& s = *queue.state_;
  s.branch_of(lane).behind = false;
  s.lane = lane;
  s.trace.change(lane);
}
Queue::Aside::~Aside() {
  if (!queue_.state_ || queue_.lane() == before_) return;
  queue_.state_->lane = before_;
  queue_.state_->trace.change(before_);
}
Lane Queue::lane() const { return state_ ? state_->lane : Lane::first; }

void Queue::join() {
  if (!state_) return;
  state_->trace.join(state_->lane);
  state_->join();
}

const void* Queue::upload(const void* from, int64_t bytes) {
  if (!state_ || bytes == 0) return from;
  State& s = *state_;
  while (s.block < s.blocks.size() && s.mark + padded(bytes) > s.blocks[s.block].bytes) {
    ++s.block;
    s.mark = 0;
  }
  if (s.block == s.blocks.size()) s.add_block(std::max(padded(bytes), kSmallestBlock));
  const State::Block& block = s.blocks[s.block];
  char* pinned = block.pinned[s.buffer] + s.mark;
  char* on_device = block.on_device + s.mark;
  std::memcpy(pinned, from, static_cast<size_t>(bytes));
  s.mark += padded(bytes);
  s.trace.upload(on_device, bytes, s.lane);
  if (s.mode == State::Mode::direct) cuda::copy_async(s.current(), on_device, pinned, bytes);
  return on_device;
}

void Queue::reset() {
  if (!state_) return;
  State& s = *state_;
  s.join();
  // Also while a step is walked: the previous buffer may belong to a step that was launched. While
  // one is captured, the buffer belongs to the walk, and the device does not read it.
  if (s.mode != State::Mode::capturing) cuda::record(s.events[s.buffer], s.stream);
  if (s.blocks.size() > 1) {
    cuda::wait(s.stream);
    int64_t total = 0;
    for (const State::Block& block : s.blocks) total += block.bytes;
    s.free_blocks();
    s.add_block(total);
  }
  s.buffer = (s.buffer + 1) % kBuffers;
  cuda::wait_for(s.events[s.buffer]);
  s.block = 0;
  s.mark = 0;
}

bool Queue::launches(const Identity& launch, Begins begins) {
  State& s = *state_;
  s.trace.launch(launch, s.lane, begins);
  if (s.mode == State::Mode::walking) return false;
  make_current();
  return true;
}
void Queue::launched() { cuda::check_launch(state_->stream); }

void Queue::copy(const Copy& args) {
  if (state_) return launch(enqueue_copy, args);
  std::memcpy(args.to, args.from, static_cast<size_t>(args.bytes));
}

void Queue::copy_rows(const CopyRows& args) {
  if (state_) return launch(enqueue_rows, args);
  for (int64_t row = 0; row < args.rows; ++row) {
    std::memcpy(static_cast<char*>(args.to) + row * args.bytes,
                static_cast<const char*>(args.from) + row * args.step,
                static_cast<size_t>(args.bytes));
  }
}

void Queue::wait() {
  if (!state_) return;
  state_->join();
  cuda::wait(state_->stream);
}

void Queue::download(const void* from, int64_t bytes, void* to) {
  if (!state_) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
  require(state_->mode == State::Mode::direct, ErrorCode::internal, "queue: a step may not wait");
  state_->join();
  cuda::copy_async(state_->stream, to, from, bytes);
  cuda::wait(state_->stream);
}

void Queue::step(const std::function<void()>& body) {
  if (!state_) return body();
  State& s = *state_;
  require(s.mode == State::Mode::direct, ErrorCode::internal, "queue: a step within a step");
  s.join();
  struct Direct {  // whatever happens
    State& state;
    ~Direct() { state.mode = State::Mode::direct; }
  } const direct{s};
  // If any step has come often enough to be kept, this one is walked first: the trace tells which
  // it is.
  if (s.repeats) {
    s.mode = State::Mode::walking;
    s.trace = {};
    body();
    const auto walked = s.steps.find(s.trace);
    const bool known = walked != s.steps.end() && walked->second.seen >= kRunsBeforeGraph;
    if (known && walked->second.graph == nullptr) {
      s.mode = State::Mode::capturing;
      s.trace = {};
      cuda::begin_capture(s.stream);
      try {
        body();
        s.join();
      } catch (...) {
        cuda::abandon_capture(s.stream);
        for (State::Branch& branch : s.branches) branch.apart = false;  // nothing was enqueued
        throw;
      }
      void* const graph = cuda::end_capture(s.stream);
      if (s.trace != walked->first) {
        cuda::drop_graph(graph);
        fail(ErrorCode::internal, "queue: a step differed when it was kept");
      }
      walked->second.graph = graph;
    }
    if (known) {
      walked->second.last = ++s.clock;
      return s.run(walked->second.graph);
    }
  }
  s.mode = State::Mode::direct;
  s.trace = {};
  body();
  s.join();
  if (s.steps.size() >= kMostSteps && !s.steps.contains(s.trace)) s.forget_oldest();
  State::Step& step = s.steps[s.trace];
  step.last = ++s.clock;
  s.repeats = ++step.seen >= kRunsBeforeGraph || s.repeats;
}

bool Queue::captures() const { return state_ && state_->mode == State::Mode::capturing; }

Queue::Fetch& Queue::take_place(int64_t bytes) {
  const auto free = std::find_if(fetched_.begin(), fetched_.end(), [&](const Fetch& place) {
    return place.number < 0 || (!place.kept && place.number <= fetches_ - kMostFetches);
  });
  Fetch& place = free != fetched_.end() ? *free : fetched_.emplace_back();
  place.number = fetches_++;
  place.kept = false;
  if (!state_) {
    place.bytes.resize(static_cast<size_t>(bytes));
    return place;
  }
  if (place.event == nullptr) place.event = cuda::make_event(device_.index);
  if (place.room < bytes) {
    cuda::wait_for(place.event);  // the fetch that used the smaller memory
    cuda::release_pinned(device_.index, place.pinned);
    place.pinned = nullptr;
    place.room = 0;
    const int64_t room = std::max(kSmallestFetch, bytes);
    place.pinned = cuda::allocate_pinned(device_.index, room);
    place.room = room;
  }
  return place;
}

Queue::Fetch& Queue::place_of(int64_t number) {
  const auto place = std::find_if(fetched_.begin(), fetched_.end(),
                                  [&](const Fetch& each) { return each.number == number; });
  require(number >= 0 && place != fetched_.end(), ErrorCode::internal, "queue: fetch ", number,
          " was not kept");
  return *place;
}

int64_t Queue::fetch(const void* from, int64_t bytes) {
  Fetch& place = take_place(bytes);
  if (!state_) {
    std::memcpy(place.bytes.data(), from, static_cast<size_t>(bytes));
    return place.number;
  }
  state_->join();
  cuda::copy_async(state_->stream, place.pinned, from, bytes);
  cuda::record(place.event, state_->stream);
  return place.number;
}

void Queue::keep(int64_t number) { place_of(number).kept = true; }

Queue::Delivery Queue::expect(int64_t bytes) {
  Fetch& place = take_place(bytes);
  place.kept = true;
  return {place.number, state_ ? place.pinned : place.bytes.data()};
}

void Queue::deliver(int64_t number) {
  const Fetch& place = place_of(number);
  if (!state_) return;
  state_->join();
  cuda::record(place.event, state_->stream);
}

void Queue::forget(int64_t number) {
  for (Fetch& place : fetched_) {
    if (place.number == number) place.number = -1;
  }
}

void Queue::fetched(int64_t number, void* to, int64_t bytes) {
  Fetch& place = place_of(number);
  place.number = -1;
  if (state_) cuda::wait_for(place.event);
  std::memcpy(to, state_ ? place.pinned : place.bytes.data(), static_cast<size_t>(bytes));
}

int64_t Queue::graphs() const {
  if (!state_) return 0;
  return std::count_if(state_->steps.begin(), state_->steps.end(),
                       [](const auto& step) { return step.second.graph != nullptr; });
}

}  // namespace tril
