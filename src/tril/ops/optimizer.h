// AdamW over many tensors, with clipping by the norm of the whole gradient (kernels/adamw.h has the
// formula for one weight).
//
// On CUDA an update only enqueues: whether the gradient was finite, the number of steps and the
// norm are known only on the device, until last() is called.
#pragma once

#include <span>

#include "tril/tensor/context.h"
#include "tril/tensor/tensor.h"

namespace tril::ops {

struct UpdateTensor {
  Tensor weight{};           // f32
  Tensor first{}, second{};  // its moments, f32
  Tensor gradient{};         // f32; undefined: the weight keeps its value
  // On CUDA, a second copy for products, which is written too: bf16, for a matrix [rows or more,
  // columns or more], else [size or more]; what lies past the weight is not changed. Or undefined.
  Tensor rounded{};
  float decay = 0.0f;
};

struct AdamWSettings {
  float beta1 = 0.9f;
  float beta2 = 0.98f;
  float epsilon = 1e-9f;
  double clip_norm = 1.0;  // 0: no clipping
};

class AdamW {
 public:
  AdamW(Device device, const AdamWSettings& settings);

  // One update with learning rate `rate`. The norm is the root of the squares of all gradients, in
  // the order of the tensors; if it is not finite nothing changes and the step does not count.
  void update(Context& context, std::span<const UpdateTensor> tensors, float rate);

  struct Last {
    double norm = 0.0;  // of the gradient of the last update, before clipping
    int64_t steps = 0;  // updates that counted
  };
  // Waits for the device; not within a step (device/queue.h).
  Last last(Context& context) const;

  // The same for later, without waiting: Queue::fetch() and fetched().
  int64_t fetch_last(Context& context) const;
  static Last fetched_last(Context& context, int64_t number);

  // Restores the state after this many steps.
  void restore(int64_t steps);

 private:
  struct Powers {
    double of_beta1 = 1.0, of_beta2 = 1.0;  // to the power of steps
  };
  void update_on_cpu(Context& context, std::span<const UpdateTensor> tensors, float rate);

  AdamWSettings settings_;
  Last last_{};      // on the CPU
  Powers powers_{};  // likewise
  Arena arena_;
  Tensor state_;  // on CUDA: kernels::cuda::AdamWState, as bytes
};

}  // namespace tril::ops
