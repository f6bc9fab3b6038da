// A product of few rows with what a post-norm layer ends with, in one kernel:
//
//   y = norm(x + round(a bᵀ + bias))
//
// with the bits of gemm_few_rows() and residual_norm_forward() (rows.h), of which it keeps nothing
// else. Blocks that share rows are a cluster: each makes 64 outputs, hands them to the block that
// norms the row, and so no kernel has to be waited for in between. Compute capability 9.0 only.
#pragma once

#include "tril/kernels/cuda/gemm.h"
#include "tril/kernels/norm.h"

namespace tril::kernels::cuda {

struct GemmNorm {
  Gemm product;  // forward, bf16; n is the norm's columns; c is not used
  Norm norm;
  const BFloat16* x = nullptr;  // [m, n]
  BFloat16* y = nullptr;        // [m, n]; not x
};
bool suits_gemm_norm(const GemmNorm& args);
void gemm_norm(Stream stream, const GemmNorm& args);

}  // namespace tril::kernels::cuda
