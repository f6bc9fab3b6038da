// Recording: what a Recording (tape.h) consists of. The differentiable functions of
// autograd/functions.h record themselves in it, and their rules pass gradients on to it.
//
// Everything it holds lies in the context's arenas.
#pragma once

#include <array>
#include <new>
#include <span>
#include <type_traits>

#include "tril/autograd/tape.h"
#include "tril/tensor/context.h"
#include "tril/tensor/tensor.h"

namespace tril {

namespace detail {

// What a tape knows about one tensor, found by its address. Open addressing, in the arena.
struct GradientEntry {
  const void* address = nullptr;
  int64_t size = 0;
  Tensor gradient;          // undefined: no contribution yet
  bool shared = false;      // its memory is also another tensor's: never add into it
  Lane lane = Lane::first;  // where it is computed (device/queue.h): join to read it elsewhere
};

class GradientTable {
 public:
  explicit GradientTable(Arena& host) : host_(&host), ticket_(host.ticket()) {}
  bool holds(const void* address) const;
  GradientEntry* find(const void* address, int64_t size) const;
  GradientEntry* find(const Tensor& tensor) const { return find(tensor.address(), tensor.size()); }
  GradientEntry& insert(const Tensor& tensor);

 private:
  GradientEntry& place(const void* address) const;
  void grow();

  void check_current() const;

  Arena* host_;
  Ticket ticket_;
  GradientEntry* entries_ = nullptr;
  int64_t capacity_ = 0;  // a power of two
  int64_t count_ = 0;
};

}  // namespace detail

class Recording {
 public:
  explicit Recording(Context& context);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // Asks for the gradient of a tensor that no recorded function made: a parameter, an input.
  void watch(const Tensor& tensor) { table_.insert(tensor); }
  // Raises for a slice of a tracked tensor: its gradient would be lost.
  bool tracks(const Tensor& tensor) const;

  // Walks back from a scalar, whose own gradient is 1. Once per tape; it ends the recording, so
  // that the context may be used without a tape, reset, or given another one.
  Gradients backward(const Tensor& scalar);
  // The same from any recorded tensor, given its gradient.
  Gradients backward(const Tensor& tensor, const Tensor& gradient);

  // For the functions of autograd/: `rule(tape, gradient)` passes the gradient of `output` on to
  // the inputs with accumulate(). It is kept in the arena, so it may own nothing. Gradients of
  // parameters and others that nothing waits for may be computed and accumulated aside
  // (Context::aside).
  template <class Rule>
  void record(const Tensor& output, const Rule& rule) {
    record_all({&output, 1}, [rule](Recording& tape, std::span<const Tensor> gradients) {
      rule(tape, gradients[0]);
    });
  }
  // The same for a function with several outputs: `rule(tape, gradients)` gets one gradient per
  // output, undefined for outputs that nothing depends on.
  static constexpr size_t kMostOutputs = 4;
  template <class Rule>
  void record_all(std::span<const Tensor> outputs, const Rule& rule) {
    static_assert(std::is_trivially_destructible_v<Rule>, "a rule may hold only plain values");
    struct Recorded : Node {
      explicit Recorded(const Rule& r) : rule(r) {}
      Rule rule;
    };
    require(!outputs.empty() && outputs.size() <= kMostOutputs, ErrorCode::internal,
            "tape: a function of ", outputs.size(), " outputs");
    auto* node = new (context_.host.allocate(sizeof(Recorded))) Recorded(rule);
    for (const Tensor& output : outputs) {
      table_.insert(output);
      node->outputs[node->count++] = output;
    }
    node->before = last_;
    node->call = [](const Node* self, Recording& tape, std::span<const Tensor> gradients) {
      static_cast<const Recorded*>(self)->rule(tape, gradients);
    };
    last_ = node;
  }

  // Adds to the gradient of `input` if it is tracked. fresh: the tape may keep the memory and add
  // into it; shared: something else reads it too.
  enum class Ownership { fresh, shared };
  void accumulate(const Tensor& input, const Tensor& gradient,
                  Ownership ownership = Ownership::fresh);

  // The gradient of `input` so far, for the caller to add to in place, in its lane: undefined where
  // there is none, or something else reads it.
  Tensor to_add_to(const Tensor& input);

  Context& context() { return context_; }
  // Tells tapes apart, for things that belong to one.
  uint64_t serial() const { return serial_; }

 private:
  struct Node {
    std::array<Tensor, kMostOutputs> outputs{};
    size_t count = 0;
    Node* before = nullptr;
    void (*call)(const Node* self, Recording& tape, std::span<const Tensor> gradients) = nullptr;
  };

  void take_into_lane(detail::GradientEntry& entry);

  Context& context_;
  detail::GradientTable table_;
  Node* last_ = nullptr;
  uint64_t serial_;
  bool walked_ = false;
};

}  // namespace tril
