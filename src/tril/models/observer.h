// Observer: sees the tensors of a model as they are computed.
#pragma once

#include <span>

#include "tril/models/config.h"
#include "tril/ops/attention.h"
#include "tril/tensor/mask.h"
#include "tril/tensor/tensor.h"

namespace tril {

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

}  // namespace tril
