// The bf16 kernels for long sequences, using wgmma: when they are used. For the sources of this
// folder.
#pragma once

#include "tril/kernels/cuda/attention.h"

namespace tril::kernels::cuda {

struct ForwardLaunch;
struct BackwardLaunch;

// Starts the forward kernel for args.long_tiles if there are any and the GPU and the shape allow
// it; returns whether it did.
bool start_long_attention(Stream stream, const ForwardLaunch& launch);
// The floats of its workspace that hold earlier spans.
int64_t long_attention_saved_floats(const AttentionForward& args);

// The same for the backward pass and args.long_gradients.
bool start_long_gradients(Stream stream, const BackwardLaunch& launch);

}  // namespace tril::kernels::cuda
