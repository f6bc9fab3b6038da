// The CUDA half of ops/optimizer.h. For the sources of this folder.
#pragma once

#include "tril/ops/optimizer.h"

namespace tril::ops::cuda {

// A kernels::cuda::AdamWState, as bytes.
Tensor make_state(Arena& arena);
// Waits for the device.
void set_state(const Tensor& state, const AdamWSettings& settings, int64_t steps, double power1,
               double power2);
int64_t fetch_last(Context& context, const Tensor& state);
AdamW::Last fetched_last(Context& context, int64_t number);

void update(Context& context, const Tensor& state, std::span<const UpdateTensor> tensors,
            float rate);

}  // namespace tril::ops::cuda
