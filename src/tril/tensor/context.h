// Context: what every operation is given besides its tensors.
//
// It belongs to one caller: two threads may use the same weights, each with its own context.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "tril/base/dtype.h"
#include "tril/base/expression.h"
#include "tril/base/parallel.h"
#include "tril/device/queue.h"
#include "tril/tensor/arena.h"
#include "tril/tensor/placement.h"

namespace tril {

class Recording;

// Deliberate faults, for tests that must be able to fail. None in ordinary use.
struct TestHooks {
  static constexpr int kAllHeads = -2;
  // One key too many: the decoder's masked self-attention adds a key at the end of the interval of
  // row `widen_row` (-1: of every row) in head `widen_head` (-1: in none, kAllHeads: in all, a mask
  // that is off by one) of layer `widen_layer` (-1: of every layer).
  int widen_head = -1;
  int widen_layer = -1;
  int64_t widen_row = -1;
  // One key too few: the token at position `narrow_position` (-1: no token) does not see itself, in
  // all heads of the decoder's layer `narrow_layer` (-1: of every layer), in training and inference
  // alike: both are then the same function, with a mask that is too narrow.
  int64_t narrow_position = -1;
  int narrow_layer = -1;
  // The decoder's keys and values go into the cache one position early, where they overwrite those
  // of the token before. A call that begins with a sequence's first token stores them in the right
  // place.
  bool shift_cache = false;
  // Attention takes the blocks of a span in descending order when a call has several query rows:
  // a sum whose order depends on the batch.
  bool order_by_batch = false;
  // In a call that continues sequences in the cache: the bias by distance is that of keys one
  // position further back; scales of attention and output that a model has of its own are left out.
  bool shift_bias = false;
  bool skip_scales = false;
  // For expressions only (ops/expressions.h), where a call has several rows: products add up their
  // terms in two halves, as threads might that share a sum; attention does not rescale its sums
  // when it meets a larger score.
  bool split_sums = false;
  bool skip_rescaling = false;
  // Likewise: forbidden keys beside permitted ones are multiplied by a weight of zero instead of
  // being left out.
  bool multiply_forbidden = false;
  // Likewise, in the backward pass alone: the head of widen_head is widened there and not in the
  // forward pass; sums over tokens are made in two halves; the row after one that has a label is
  // learnt from, too, with the same label.
  bool widen_only_backward = false;
  bool split_gradients = false;
  bool learn_from_next = false;
};

// For contexts whose numbers are expressions: what the tokens stand for, whose kernels make them,
// and how many operations were made.
struct ExpressionInputs {
  std::vector<Reach> tokens{};  // by token: where in the input it stands; beyond: nowhere
  OperationOrder order = OperationOrder::cpu;
  std::atomic<int64_t> operations{0};

  Reach reach_of(int32_t token) const {
    return static_cast<size_t>(token) < tokens.size() ? tokens[static_cast<size_t>(token)]
                                                      : Reach{};
  }
};

// An array that the host knows and kernels read: ids, positions, intervals. A span of host memory
// is uploaded where it is needed. This is a view: the memory belongs to Context::mirror(), or to
// the caller.
template <class T>
struct Mirrored {
  std::span<const T> host;
  const T* device = nullptr;  // null: not uploaded yet

  Mirrored() = default;
  Mirrored(std::span<const T> known, const T* on_device = nullptr)  // NOLINT: a view, as a span is
      : host(known), device(on_device) {}
  Mirrored(std::span<T> known) : host(known) {}  // NOLINT
  template <size_t kCount>
  Mirrored(const T (&known)[kCount]) : host(known) {}     // NOLINT
  Mirrored(const std::vector<T>& known) : host(known) {}  // NOLINT

  int64_t size() const { return static_cast<int64_t>(host.size()); }
  bool empty() const { return host.empty(); }
  const T& operator[](int64_t i) const { return host[static_cast<size_t>(i)]; }
  auto begin() const { return host.begin(); }
  auto end() const { return host.end(); }
};

struct Context {
  // Raises `unsupported` on a processor without the instructions tril needs, `device` without a
  // usable GPU.
  explicit Context(int threads = 0, const Placement& placement = {});

  // Ends a step: every tensor made since the last reset is stale afterwards. Raises while a tape
  // records: what it holds lies in these arenas.
  void reset();

  Device device() const { return queue.device(); }
  Placement placement() const { return {device(), activations}; }

  // A copy for the host and the device, both valid until the step ends.
  template <class T>
  Mirrored<T> mirror(std::span<const T> values) {
    auto* copy = host.allocate_array<T>(static_cast<int64_t>(values.size()));
    std::copy(values.begin(), values.end(), copy);
    const std::span<const T> kept(copy, values.size());
    return {kept, uploaded(kept)};
  }
  // The address of these values on the device, until the step ends; on the CPU, their own.
  template <class T>
  const T* uploaded(std::span<const T> values) {
    return static_cast<const T*>(
        queue.upload(values.data(), static_cast<int64_t>(values.size() * sizeof(T))));
  }
  template <class T>
  const T* on_device(const Mirrored<T>& values) {
    return values.device != nullptr || values.empty() ? values.device : uploaded(values.host);
  }
  template <class T>
  const T* uploaded(const T& value) {
    return uploaded(std::span<const T>(&value, 1));
  }

  // For operations on a device: launcher(stream, args) enqueues a kernel (Queue::launch).
  template <class Args>
  void launch(Launcher<Args> launcher, const std::type_identity_t<Args>& args) {
    end_chain();
    queue.launch(launcher, args);
  }
  // The same for kernels that follow the rule of chains (kernels/cuda/launch.cuh): in a chain of a
  // CUDA graph they may overlap. They write only activations of this step, and entries of the cache
  // that no kernel of the chain has read; neither weights nor tables, unless end_chain() follows.
  template <class Args>
  void launch_in_chain(Launcher<Args> launcher, const std::type_identity_t<Args>& args) {
    queue.launch(launcher, args, in_chain_ ? Begins::in_chain : Begins::alone);
  }
  // Copies within the device's memory, or on the CPU. They may write anything, so they end a chain.
  void copy(const Copy& args) {
    end_chain();
    queue.copy(args);
  }
  void copy_rows(const CopyRows& args) {
    end_chain();
    queue.copy_rows(args);
  }
  // Begins a chain. To be called right after a launch that waits for everything before it: an
  // ordinary one, or an embedding, which lets the next kernel begin only when it has waited. What
  // was written up to here, no kernel of the chain changes. A chain ends with the step, or with the
  // next launch() or copy.
  void begin_chain() { in_chain_ = tape == nullptr; }
  void end_chain() { in_chain_ = false; }

  // f() enqueues work whose results are not needed before the gradients are read: on a device it
  // runs in a side stream, in parallel with what is enqueued next, until queue.join(). What it
  // allocates stays until the step ends, and what it reads must not change until then; memory of a
  // Scope would be reused too early, so inside one f() runs in the main stream.
  template <class F>
  void aside(Lane lane, const F& f) {
    if (!on_gpu(device()) || arena.in_scope()) return f();
    const Arena::Hold hold(arena);
    const Queue::Aside there(queue, lane);
    f();
  }

  Arena arena;  // on the device: activations and gradients of the step, scratch inside operations
  Arena host;  // in host memory: what only the host reads, such as the tape, plans and lists of ids
  Queue queue;
  DType activations;  // the type of activations
  // The type of sums that are not rounded to that of activations, such as logits.
  DType sums() const { return activations == DType::expression ? activations : DType::f32; }
  std::shared_ptr<ExpressionInputs> expressions;  // null unless activations are expressions
  // Products on CUDA (kernels/cuda/gemm.h), created for the first one.
  std::shared_ptr<void> products;
  Parallel parallel;
  Recording* tape = nullptr;  // set while a Tape records on this context (autograd/tape.h)
  TestHooks hooks;

 private:
  bool in_chain_ = false;
};

}  // namespace tril
