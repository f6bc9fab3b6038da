// One row per sequence through a table (attention_row.cu), for attention_forward().
#pragma once

#include "tril/kernels/cuda/attention.h"

namespace tril::kernels::cuda {

bool suits_row_attention(const AttentionForward& args);
// Also stores the fresh keys and values.
void row_attention(Stream stream, const AttentionForward& args);

}  // namespace tril::kernels::cuda
