// Log-probabilities and the cross-entropy loss over one normaliser (kernels/cross_entropy.h).
#pragma once

#include <span>

#include "tril/ops/linear.h"
#include "tril/ops/loss_options.h"
#include "tril/tensor/context.h"
#include "tril/tensor/tensor.h"

namespace tril::ops {

// [row, vocab] of log-probabilities.
Tensor log_probs(Context& context, const Tensor& logits);

// For each_log_probs(): computes log-probabilities with the same bits in place of the logits, by
// the calling thread; and the rows to call it for, on the host: the logits themselves, or from a
// device the log-probabilities.
void log_probs_in_place(const Tensor& logits);
void log_probs_in_place(std::span<float> row);  // one row; NaN if it is -infinity throughout
Tensor log_probs_for_host(Context& context, const Tensor& logits);

// Calls f(row, log_probs, worker) for every row of logits, on the context's threads in any order;
// the log-probabilities are on the host, and valid during the call only. f must not throw. On the
// CPU a row stays in the cache from its normaliser to f.
template <class F>
void each_log_probs(Context& context, const Tensor& logits, const F& f) {
  const int64_t vocab = logits.columns();
  const Tensor rows = log_probs_for_host(context, logits);
  context.parallel(rows.rows(), [&](int64_t row, int worker) {
    const Tensor one = rows.slice(row, row + 1);
    if (!on_gpu(logits.device())) log_probs_in_place(one);
    f(row, std::span<const float>(one.data(), static_cast<size_t>(vocab)), worker);
  });
}

// The output projection and the loss of its logits, in slices of rows: all logits at once would be
// by far the largest tensor of a step, and they are needed only once. If gradients are wanted they
// are computed on the way, while a slice is in the cache; they are those of a loss whose own
// gradient is 1.
enum class LossGradients { none, wanted };
struct LossResult {
  Tensor loss;                // [1]
  Tensor dx, dweight, dbias;  // where wanted; dbias undefined without a bias
};
// x [row, in]. A label of -1 marks a row that does not count. The rows' losses are summed in
// double, ascending; the weight's gradient is the sum over tokens of linear_weight_gradient(). On
// CUDA both have their own order, which the number of rows and the vocabulary decide.
LossResult projected_loss(Context& context, const Tensor& x, const LinearWeight& output,
                          const Mirrored<int32_t>& labels, const LossOptions& options,
                          LossGradients gradients);

}  // namespace tril::ops
