// The other bf16 kernels, for long sequences by wgmma: when they are used. For the sources of this
// folder.
#pragma once

#include "tril/kernels/cuda/attention.h"

namespace tril::kernels::cuda {

struct ForwardLaunch;
struct BackwardLaunch;

// Starts the forward kernel for args.long_tiles, where there are some and card and shape allow it;
// says whether.
bool start_long_attention(Stream stream, const ForwardLaunch& launch);
// What it saves of earlier spans, in its workspace.
int64_t long_attention_saved_floats(const AttentionForward& args);

// The same for the backward pass and args.long_gradients.
bool start_long_gradients(Stream stream, const BackwardLaunch& launch);

}  // namespace tril::kernels::cuda
