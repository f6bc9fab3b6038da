// AdamW over a Transformer's parameters, with clipping by the norm of the whole gradient.
#pragma once

#include <vector>

#include "tril/models/transformer.h"

namespace tril {

struct AdamWOptions {
  float beta1 = 0.9f;
  float beta2 = 0.98f;
  float epsilon = 1e-9f;
  float decay = 0.0f;      // weight decay, on matrices only
  double clip_norm = 1.0;  // 0: no clipping
};

class AdamWOptimizer {
 public:
  // Shares the model's weights.
  AdamWOptimizer(const Transformer& model, const AdamWOptions& options);

  // One update with learning rate `rate`; the model is ready for use afterwards. Parameters without
  // a gradient keep their value. Returns the gradient's norm before clipping: squares summed in
  // fixed chunks, tensors in the order of their names. When it is not finite nothing changes, and
  // the step does not count: one bad batch destroys no model.
  double step(const Gradients& gradients, float rate, Context& context);

  int64_t steps() const { return steps_; }

 private:
  struct Moments {
    Tensor weight, first, second;
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
