// AdamW over a Transformer's parameters, with clipping by the norm of the whole gradient.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tril/io/safetensors.h"
#include "tril/models/transformer.h"
#include "tril/ops/optimizer.h"

namespace tril {

struct AdamWOptions {
  float beta1 = 0.9f;
  float beta2 = 0.98f;
  float epsilon = 1e-9f;
  float decay = 0.0f;      // weight decay, on matrices only
  double clip_norm = 1.0;  // 0: no clipping
};

// Raises `invalid_argument` for numbers that make no sense.
void check(const AdamWOptions& options);

class AdamWOptimizer {
 public:
  // Shares the model's weights.
  AdamWOptimizer(Transformer& model, const AdamWOptions& options);

  // Adds the gradients of a micro-batch to those of the update being gathered, or begins with them.
  // The gradient of an update is this sum, in the order of the calls.
  enum class MicroBatch { first, further };
  void add(const Gradients& gradients, MicroBatch which, Context& context);
  // One update with learning rate `rate`, by what add() gathered; the model is ready for use
  // afterwards. Parameters without a gradient keep their value. The gradient's norm is that before
  // clipping: squares summed in fixed chunks, tensors in the order of their names. When it is not
  // finite nothing changes, and the step does not count: one bad batch destroys no model.
  void step(float rate, Context& context);
  // An update by one batch.
  void step(const Gradients& gradients, float rate, Context& context);

  // Of the last update: its norm, and how many have counted. Waits for the device.
  ops::AdamW::Last last(Context& context) const { return adamw_.last(context); }
  // The same for later, without waiting (Queue::fetch).
  int64_t fetch_last(Context& context) const { return adamw_.fetch_last(context); }
  static ops::AdamW::Last fetched_last(Context& context, int64_t number) {
    return ops::AdamW::fetched_last(context, number);
  }

  // What a checkpoint keeps, by the parameters' names, sorted: "first.NAME" and "second.NAME".
  std::vector<NamedTensor> moments() const;
  // Afterwards as an optimiser that made `steps` steps and left these moments, sorted by name.
  // Raises `bad_format`, naming the file, when one is missing or has another shape.
  void restore(int64_t steps, std::span<const NamedTensor> moments, const std::string& file);

 private:
  void update(float rate, Context& context);

  Transformer model_;
  ops::AdamW adamw_;
  Arena arena_;
  std::vector<std::string> names_;          // sorted
  std::vector<ops::UpdateTensor> tensors_;  // in their order
  std::vector<Tensor> sums_;                // of the gradients being gathered; room for them
};

}  // namespace tril
