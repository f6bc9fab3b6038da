// Log-probabilities and the cross-entropy loss over one normaliser (kernels/cross_entropy.h).
#pragma once

#include <span>

#include "tril/tensor/context.h"
#include "tril/tensor/tensor.h"

namespace tril::ops {

// [row, vocab] of log-probabilities.
Tensor log_probs(Context& context, const Tensor& logits);

struct LossOptions {
  float smoothing = 0.0f;  // label smoothing, in [0, 1)
  float factor = 1.0f;     // the loss is this times the sum over rows: 1 / tokens gives a mean
};
struct LossResult {
  Tensor loss;   // [1]
  Tensor rows;   // [row]: each row's own loss, before the factor
  Tensor norms;  // [row]
};
// A label of -1 marks a row that does not count. The rows are summed in double, ascending.
LossResult cross_entropy(Context& context, const Tensor& logits, std::span<const int32_t> labels,
                         const LossOptions& options);
Tensor cross_entropy_gradient(Context& context, const Tensor& logits,
                              std::span<const int32_t> labels, const LossOptions& options,
                              const Tensor& norms, const Tensor& dloss);

}  // namespace tril::ops
