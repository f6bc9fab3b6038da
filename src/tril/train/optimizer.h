// AdamW over a Transformer's parameters, with clipping by the norm of the whole gradient.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tril/io/safetensors.h"
#include "tril/models/transformer.h"
#include "tril/ops/optimizer.h"
#include "tril/train/frozen.h"

namespace tril {

struct AdamWOptions {
  float beta1 = 0.9f;
  float beta2 = 0.98f;
  float epsilon = 1e-9f;
  float decay = 0.0f;      // weight decay, on matrices only
  double clip_norm = 1.0;  // 0: no clipping
};

// Raises `invalid_argument` for invalid numbers.
void check(const AdamWOptions& options);

class AdamWOptimizer {
 public:
  // Shares the model's weights, and changes those that are not frozen.
  AdamWOptimizer(Transformer& model, const AdamWOptions& options)
      : AdamWOptimizer(model, options, Frozen(model)) {}
  AdamWOptimizer(Transformer& model, const AdamWOptions& options, const Frozen& frozen);

  // Takes the gradients of one micro-batch. They come in order, from index 0; the gradient of the
  // update is their sum in that order. Gradients of an only micro-batch are not copied: the context
  // may not be reset before step(). A second call for the micro-batch that came last leaves the
  // host as the first did, so that it can be part of a step (Queue::step).
  struct MicroBatch {
    int64_t index = 0;
    int64_t count = 1;  // of the update
  };
  void add(const Gradients& gradients, MicroBatch which, Context& context);
  // One update with learning rate `rate` by the gradients that add() was given; the model is ready
  // for use afterwards. Parameters without a gradient keep their value. The gradient's norm is
  // taken before clipping: squares summed in fixed chunks, tensors in the order of their names. If
  // it is not finite nothing changes, and the step does not count: one bad batch cannot destroy a
  // model.
  void step(float rate, Context& context);
  // An update by one batch: add() and step().
  void step(const Gradients& gradients, float rate, Context& context);

  // The norm of the last update, and the number of updates that counted. Waits for the device.
  ops::AdamW::Last last(Context& context) const { return adamw_.last(context); }
  // The same for later, without waiting (Queue::fetch).
  int64_t fetch_last(Context& context) const { return adamw_.fetch_last(context); }
  static ops::AdamW::Last fetched_last(Context& context, int64_t number) {
    return ops::AdamW::fetched_last(context, number);
  }

  // For a checkpoint, by the parameters' names, sorted: "first.NAME" and "second.NAME".
  std::vector<NamedTensor> moments() const;
  // Restores an optimiser after `steps` steps with these moments, sorted by name. Raises
  // `bad_format`, naming the file, if one is missing or has another shape.
  void restore(int64_t steps, std::span<const NamedTensor> moments, const std::string& file);

 private:
  // A parameter's gradient while micro-batches come in.
  struct Gathered {
    static constexpr int64_t kNone = -1;
    Tensor sum{};           // memory for it, allocated when first needed
    int64_t since = kNone;  // the first micro-batch of the update that had a gradient
  };

  std::vector<ops::UpdateTensor> without_frozen_rows() const;

  Transformer model_;
  ops::AdamW adamw_;
  Arena arena_;
  // Of the parameters that are not frozen:
  std::vector<std::string> names_;          // sorted
  std::vector<ops::UpdateTensor> tensors_;  // in their order
  std::vector<Gathered> gathered_;          // likewise
  std::vector<int64_t> frozen_rows_;        // likewise; empty where no parameter has one
  bool packs_ = false;  // weights have packed forms that AdamW does not write itself
};

}  // namespace tril
