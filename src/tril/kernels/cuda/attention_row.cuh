// One row a sequence through a table (attention_row.cu), for attention_forward().
#pragma once

#include "tril/kernels/cuda/attention.h"

namespace tril::kernels::cuda {

bool suits_row_attention(const AttentionForward& args);
// Stores what is fresh, too.
void row_attention(Stream stream, const AttentionForward& args);

}  // namespace tril::kernels::cuda
