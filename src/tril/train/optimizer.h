// AdamW over a Transformer's parameters, with clipping by the norm of the whole gradient.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tril/autograd/tape.h"
#include "tril/models/transformer.h"

namespace tril {

class Frozen;  // train/frozen.h

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
  // Raises `unsupported` for a model that was not loaded for training, `invalid_argument` for
  // invalid options.
  AdamWOptimizer(Transformer& model, const AdamWOptions& options);
  AdamWOptimizer(Transformer& model, const AdamWOptions& options, const Frozen& frozen);
  ~AdamWOptimizer();
  AdamWOptimizer(const AdamWOptimizer&) = delete;
  AdamWOptimizer& operator=(const AdamWOptimizer&) = delete;

  // Takes the gradients of one micro-batch. They come in order, from index 0; the gradient of the
  // update is their sum in that order. Gradients of an only micro-batch are not copied: the context
  // may not be reset before step(). A second call for the micro-batch that came last leaves the
  // host as the first did, so that it can be repeated on a device.
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

  struct Last {
    double norm = 0.0;  // of the gradient of the last update, before clipping
    int64_t steps = 0;  // updates that counted
  };
  // Waits for the device.
  Last last(Context& context) const;
  // The same for later, without waiting.
  int64_t fetch_last(Context& context) const;
  static Last fetched_last(Context& context, int64_t number);

  // For a checkpoint, by the parameters' names, sorted: "first.NAME" and "second.NAME".
  std::vector<NamedTensor> moments() const;
  // Restores an optimiser after `steps` steps with these moments, sorted by name. Raises
  // `bad_format`, naming the file, if one is missing or has another shape.
  void restore(int64_t steps, std::span<const NamedTensor> moments, const std::string& file);

 private:
  class State;
  State* state_;
};

}  // namespace tril
