// Session: what belongs to one caller of a model. Any number of sessions share one Transformer.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "tril/nn/cache.h"
#include "tril/tensor/context.h"
#include "tril/tensor/mask.h"

namespace tril {

enum class Stack { encoder, decoder };

// Places in a model that an Observer sees. Queries and keys come as attention uses them, rotated if
// positions are rotary; `context` is the heads' outputs before their projection.
enum class Site {
  embedded,
  query,
  key,
  value,
  context,
  cross_query,
  cross_key,  // seen in encode(), where they are projected, for the decoder layer
  cross_value,
  cross_context,
  block_output,
  final_output,
  // Tables, not rows: where `embedded` looks up its tokens, and the positions it adds, if any.
  embedding_table,
  position_table,
  // For each sub-layer of a layer, in order. `added` is what it adds to its input; `normed` is the
  // norm's output, which is its input (norm first) or its output (norm last); `sum` is its output
  // with the norm first.
  normed,
  added,
  sum,
  feed_forward_hidden,  // after the activation
};

struct Observation {
  Stack stack;
  int64_t layer;  // -1 outside of layers
  Site site;
  Tensor tensor;        // what the call computed
  ConstTensor table{};  // instead, with embedding_table and position_table: the model's own
  // With query and cross_query: what each row may see.
  std::span<const Interval> intervals{};
  // With query: the arguments of the attention that follows, valid during the call of see().
  const ops::AttentionOptions* options = nullptr;
  // The rows of the call, one entry per row of `tensor`: with cross_key and cross_value, which are
  // projected in encode(), those of the source. Valid during the call of see().
  std::span<const int32_t> tokens{}, slots{}, positions{};
};

// Sees tensors as a model computes them; without one, this costs nothing. It must not change them,
// with one exception: a probe may write into `embedded` to find out what depends on that row.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void see(const Observation& observation) = 0;
  // [row, vocab]: for the hidden states that Transformer::logits() was given, in their order. Also
  // called when log-probabilities or a loss are computed.
  virtual void see_logits(const Tensor& /*logits*/) {}
};

// Determines the masks of one training step; see kernels/dropout.h.
struct DropoutStep {
  uint64_t seed = 0;
  uint32_t step = 0;
};

// What the decoder's rows see of their own sequence. `none` is the fault that the mask prevents, to
// demonstrate it: every row sees all of its sequence that its call and the cache hold, in training
// the future too. A token that comes alone has no future, so decoding is unchanged.
enum class Masking { causal, none };

class Transformer;

// Context::reset() ends a step; slots of the cache and memories encoded without a tape stay.
class Session : public Context {
 public:
  explicit Session(const Transformer& model, int threads = 0);

  // Queue::step(), except with an observer, which must see tensors when they are computed.
  void step(const std::function<void()>& body) {
    if (observer == nullptr) {
      queue.step(body);
    } else {
      body();
    }
  }

  Cache cache;
  // What an engine leaves for the next one (decode/ahead_backend.h).
  std::shared_ptr<void> kept_for_engine;
  Observer* observer = nullptr;
  // Under a tape, the dropout of config().dropout with these masks: to be set for each step. If
  // absent, and always without a tape: no dropout.
  std::optional<DropoutStep> dropout;
  Masking masking = Masking::causal;
};

// Sets a session's observer (null: none) during its lifetime, then restores the previous one.
class ObserverScope {
 public:
  ObserverScope(Session& session, Observer* observer)
      : session_(session), before_(session.observer) {
    session_.observer = observer;
  }
  ~ObserverScope() { session_.observer = before_; }
  ObserverScope(const ObserverScope&) = delete;
  ObserverScope& operator=(const ObserverScope&) = delete;

 private:
  Session& session_;
  Observer* before_;
};

// Sets a session's masking during its lifetime, then restores the previous one.
class MaskingScope {
 public:
  MaskingScope(Session& session, Masking masking) : session_(session), before_(session.masking) {
    session_.masking = masking;
  }
  ~MaskingScope() { session_.masking = before_; }
  MaskingScope(const MaskingScope&) = delete;
  MaskingScope& operator=(const MaskingScope&) = delete;

 private:
  Session& session_;
  Masking before_;
};

}  // namespace tril
