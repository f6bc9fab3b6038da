// Session: what belongs to one caller of a model. Any number of sessions share one Transformer; a
// session belongs to one thread at a time.
//
// A session holds the tensors of the current step, which reset() ends, and the sequences that are
// being decoded: each has a slot, in which forward() keeps what later tokens of the sequence need.
//
//   Session session(model);
//   const int32_t slot = session.open();
//   Rows rows;
//   rows.add_sequence(tokens, {.slot = slot});
//   const Tensor hidden = model.forward(rows, memory, session);
//   session.close(slot);
#pragma once

#include <cstdint>
#include <optional>

#include "tril/device/device.h"

namespace tril {

class Transformer;
struct Context;       // tensor/context.h
struct SessionState;  // models/session_state.h

// Determines the masks of one training step.
struct DropoutStep {
  uint64_t seed = 0;
  uint32_t step = 0;
};

// What the decoder's rows see of their own sequence. `none` is the fault that the mask prevents, to
// demonstrate it: every row sees all of its sequence that its call and the slot hold, in training
// the future too. A token that comes alone has no future, so decoding is unchanged.
enum class Masking { causal, none };

class Session {
 public:
  // A session of a model, on its device; `threads` of the CPU, 0: as many as there are cores.
  // Raises `unsupported` on a processor without the instructions tril needs, `device` without a
  // usable GPU.
  explicit Session(const Transformer& model, int threads = 0);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Device device() const;

  // Ends a step: every tensor made since the last reset is stale afterwards. Slots, and memories
  // encoded without a tape, stay. Raises `invalid_argument` while a tape records.
  void reset();

  // Slots, for calls of forward() without a tape. The rows of a sequence name its slot; each call
  // continues where the last one ended. All but open() raise `invalid_argument` for a slot that is
  // not open.
  int32_t open();                      // of an empty sequence
  int32_t fork(int32_t slot);          // of a sequence that begins like this one; copies nothing
  void close(int32_t slot);            // its number may be reused
  int32_t length(int32_t slot) const;  // tokens so far
  void truncate(int32_t slot, int32_t length);  // forgets all tokens but the first `length`

  // Under a tape, the dropout of config().dropout with these masks: to be set for each step. If
  // absent, and always without a tape: no dropout.
  void set_dropout(const std::optional<DropoutStep>& dropout);
  void set_masking(Masking masking);

  // For the library's own code (models/session_state.h): what a session consists of.
  SessionState& operator*() const { return *state_; }
  SessionState* operator->() const { return state_; }
  operator Context&() const;  // NOLINT: operations take a context

 private:
  SessionState* state_;
};

}  // namespace tril
