// The CUDA half of ops/loss.h: arguments are checked and results allocated. For the sources of this
// folder.
#pragma once

#include "tril/ops/loss.h"

namespace tril::ops::cuda {

void log_probs(Context& context, const Tensor& logits, const Tensor& out);

// Equal slices of rows whose logits take at most this many bytes, and at most kLossRows rows: the
// input gradient of that many rows of 512 columns is one tile per multiprocessor of an H200, while
// that of a few leaves most of them idle.
constexpr int64_t kLossBytes = int64_t{1280} << 20;
constexpr int64_t kLossRows = 8448;
int64_t loss_slice(int64_t rows, int64_t vocab);
// With gradients if result.dx is defined.
void projected_loss(Context& context, const Tensor& x, const LinearWeight& output,
                    const Mirrored<int32_t>& labels, const LossOptions& options,
                    const LossResult& result);

}  // namespace tril::ops::cuda
