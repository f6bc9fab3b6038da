#include "tril/ops/loss.h"

#include "tril/kernels/cross_entropy.h"

namespace tril::ops {
namespace {

kernels::CrossEntropy args_of(const Tensor& logits, std::span<const int32_t> labels,
                              const LossOptions& options) {
  require(logits.shape().rank() == 2 && logits.shape()[1] >= 1, ErrorCode::shape_mismatch,
          "loss: logits must be [row, vocab], got ", logits.shape());
  require(static_cast<int64_t>(labels.size()) == logits.shape()[0], ErrorCode::shape_mismatch,
          "loss: ", logits.shape()[0], " rows of logits but ", labels.size(), " labels");
  require(options.smoothing >= 0.0f && options.smoothing < 1.0f, ErrorCode::invalid_argument,
          "loss: label smoothing ", options.smoothing, " is not in [0, 1)");
  for (size_t row = 0; row < labels.size(); ++row) {
    require(labels[row] >= -1 && labels[row] < logits.shape()[1], ErrorCode::invalid_argument,
            "loss: label ", labels[row], " in row ", row, " is not below ", logits.shape()[1]);
  }
  return {.rows = logits.shape()[0],
          .vocab = logits.shape()[1],
          .smoothing = options.smoothing,
          .factor = options.factor,
          .labels = labels.data(),
          .logits = logits.data()};
}

}  // namespace

Tensor log_probs(Context& context, const Tensor& logits) {
  require(logits.shape().rank() == 2 && logits.shape()[1] >= 1, ErrorCode::shape_mismatch,
          "log_probs: logits must be [row, vocab], got ", logits.shape());
  const int64_t rows = logits.shape()[0];
  const int64_t vocab = logits.shape()[1];
  Tensor out(context.arena, logits.shape());
  const Arena::Scope scratch(context.arena);
  auto* norms = context.arena.allocate_array<float>(rows);
  kernels::softmax_normalisers(context.parallel, logits.data(), rows, vocab, norms);
  kernels::subtract_rows(context.parallel, logits.data(), norms, rows, vocab, out.data());
  return out;
}

LossResult cross_entropy(Context& context, const Tensor& logits, std::span<const int32_t> labels,
                         const LossOptions& options) {
  const kernels::CrossEntropy args = args_of(logits, labels, options);
  LossResult result{Tensor(context.arena, {1}), Tensor(context.arena, {args.rows}),
                    Tensor(context.arena, {args.rows})};
  kernels::cross_entropy_forward(context.parallel, args, result.norms.data(), result.rows.data(),
                                 result.loss.data());
  return result;
}

Tensor cross_entropy_gradient(Context& context, const Tensor& logits,
                              std::span<const int32_t> labels, const LossOptions& options,
                              const Tensor& norms, const Tensor& dloss) {
  const kernels::CrossEntropy args = args_of(logits, labels, options);
  Tensor dlogits(context.arena, logits.shape());
  kernels::cross_entropy_backward(context.parallel, args, norms.data(), dloss.data(),
                                  dlogits.data());
  return dlogits;
}

}  // namespace tril::ops
