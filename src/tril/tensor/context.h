// Context: what every operation is given beside its tensors.
//
// It belongs to one caller: two threads may use the same weights, each with a context of its own.
#pragma once

#include "tril/base/parallel.h"
#include "tril/tensor/arena.h"

namespace tril {

class Tape;

// Deliberate faults, for tests that must be able to fail. None in ordinary use.
struct TestHooks {
  static constexpr int kAllHeads = -2;
  // Adds one key at the end of the interval of `widen_row` (-1: of every row) in head `widen_head`
  // (or kAllHeads: a mask that is off by one) of every masked self-attention of the decoder's layer
  // `widen_layer` (-1: of every layer). -1 in widen_head turns it off.
  int widen_head = -1;
  int widen_layer = -1;
  int64_t widen_row = -1;
  // Takes the last key, its own, from the interval of the token at `narrow_position` (-1: of none)
  // in all heads of the decoder's layer `narrow_layer` (-1: of every layer), in any call: both ways
  // are then the same function, of a mask that is too narrow.
  int64_t narrow_position = -1;
  int narrow_layer = -1;
  // The decoder's keys and values go into the cache one position early, over those of the token
  // before; but those of a call that begins with a sequence's first token, where they belong.
  bool shift_cache = false;
  // Attention takes the blocks of a span in descending order when a call has several query rows:
  // a sum whose order depends on the batch.
  bool order_by_batch = false;
};

struct Context {
  // Raises `unsupported` on a processor without the instructions tril needs.
  explicit Context(int threads = 0, Device device = Device::cpu);

  // Ends a step: every tensor made since the last reset is stale afterwards. Raises while a tape
  // records: what it holds lies in these arenas.
  void reset();

  Arena arena;  // on the device: activations and gradients of the step, scratch inside operations
  Arena host;   // beside it: what only the host reads, such as the tape, plans and lists of ids
  Parallel parallel;
  Tape* tape = nullptr;  // set while a Tape records on this context (autograd/tape.h)
  TestHooks hooks;
};

}  // namespace tril
