// The other forward kernel, for long sequences by wgmma: when it is used. For the sources of this
// folder.
#pragma once

#include "tril/kernels/cuda/attention_softmax.cuh"

namespace tril::kernels::cuda {

// Starts it for args.long_tiles, where there are some and card and shape allow it; says whether.
bool start_long_attention(Stream stream, const ForwardLaunch& launch);
// What it saves of earlier spans, in its workspace.
int64_t long_attention_saved_floats(const AttentionForward& args);

}  // namespace tril::kernels::cuda
