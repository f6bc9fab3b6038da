// AdamW over a Transformer's parameters, with clipping by the norm of the whole gradient.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tril/io/safetensors.h"
#include "tril/models/transformer.h"

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
  AdamWOptimizer(const Transformer& model, const AdamWOptions& options);

  // Adds the gradients of a micro-batch to those of the update being gathered. The gradient of an
  // update is this sum, in the order of the calls.
  void add(const Gradients& gradients, Context& context);
  // One update with learning rate `rate`, by what add() gathered; the model is ready for use
  // afterwards. Parameters without a gradient keep their value. Returns the gradient's norm before
  // clipping: squares summed in fixed chunks, tensors in the order of their names. When it is not
  // finite nothing changes, and the step does not count: one bad batch destroys no model.
  double step(float rate, Context& context);
  // An update by one batch.
  double step(const Gradients& gradients, float rate, Context& context) {
    add(gradients, context);
    return step(rate, context);
  }

  int64_t steps() const { return steps_; }

  // What a checkpoint keeps, by the parameters' names, sorted: "first.NAME" and "second.NAME".
  std::vector<NamedTensor> moments() const;
  // Afterwards as an optimiser that made `steps` steps and left these moments, sorted by name.
  // Raises `bad_format`, naming the file, when one is missing or has another shape.
  void restore(int64_t steps, std::span<const NamedTensor> moments, const std::string& file);

 private:
  struct Moments {
    std::string name;
    Tensor weight, first, second;
    Tensor sum;             // of the gradients gathered for the next update
    bool gathered = false;  // whether there are any
  };
  Transformer model_;
  AdamWOptions options_;
  int64_t steps_ = 0;
  double power1_ = 1.0;  // beta1^steps, beta2^steps
  double power2_ = 1.0;
  Arena arena_;
  std::vector<Moments> moments_;  // in the order of the parameters' names
};

}  // namespace tril
