#include "tril/ops/loss.h"

#include <algorithm>

#include "tril/kernels/cross_entropy.h"
#include "tril/kernels/elementwise.h"
#include "tril/kernels/gemm.h"
#include "tril/ops/cuda_loss.h"
#include "tril/ops/expressions.h"
#include "tril/ops/on_cuda.h"
#include "tril/ops/rows.h"

namespace tril::ops {
namespace {

void check_labels(const Tensor& x, const LinearWeight& output, const Mirrored<int32_t>& labels,
                  const LossOptions& options) {
  require(x.shape().rank() == 2 && x.shape()[1] == output.in, ErrorCode::shape_mismatch,
          "loss: rows are ", x.shape(), ", the output projection expects ", output.in, " columns");
  require(labels.size() == x.shape()[0], ErrorCode::shape_mismatch, "loss: ", x.shape()[0],
          " rows of logits but ", labels.size(), " labels");
  require(options.smoothing >= 0.0f && options.smoothing < 1.0f, ErrorCode::invalid_argument,
          "loss: label smoothing ", options.smoothing, " is not in [0, 1)");
  for (int64_t row = 0; row < labels.size(); ++row) {
    require(labels[row] >= -1 && labels[row] < output.out, ErrorCode::invalid_argument,
            "loss: label ", labels[row], " in row ", row, " is not below ", output.out);
  }
}

}  // namespace

Tensor log_probs(Context& context, const Tensor& logits) {
  require(logits.shape().rank() == 2 && logits.shape()[1] >= 1, ErrorCode::shape_mismatch,
          "log_probs: logits must be [row, vocab], got ", logits.shape());
  const int64_t rows = logits.shape()[0];
  const int64_t vocab = logits.shape()[1];
  const Tensor out(context.arena, logits.shape());
  const auto on_cpu = [&] {
    const Arena::Scope scratch(context.arena);
    auto* norms = context.arena.allocate_array<float>(rows);
    kernels::softmax_normalisers(context.parallel, logits.data(), rows, vocab, norms);
    kernels::subtract_rows(context.parallel, logits.data(), norms, rows, vocab, out.data());
  };
  dispatch(context, on_cpu, [&] { cuda::log_probs(context, logits, out); });
  return out;
}

void log_probs_in_place(const Tensor& logits) {
  const auto vocab = static_cast<size_t>(logits.columns());
  for (int64_t row = 0; row < logits.rows(); ++row) {
    log_probs_in_place(std::span(logits.data() + row * logits.columns(), vocab));
  }
}

void log_probs_in_place(std::span<float> row) {
  const Parallel alone(1);
  const auto vocab = static_cast<int64_t>(row.size());
  float norm = 0.0f;
  kernels::softmax_normalisers(alone, row.data(), 1, vocab, &norm);
  kernels::subtract_rows(alone, row.data(), &norm, 1, vocab, row.data());
}

Tensor log_probs_for_host(Context& context, const Tensor& logits) {
  if (!on_gpu(logits.device())) return logits;
  const Tensor there = log_probs(context, logits);
  Tensor here(context.host, there.shape());
  context.queue.download(there.raw(), there.size() * size_of(there.dtype()), here.raw());
  return here;
}

namespace {

// The losses of a slice of rows; where gradients are wanted, they replace the logits.
void loss_of_slice(Context& context, const Tensor& logits, std::span<const int32_t> labels,
                   const LossOptions& options, LossGradients wanted, const Tensor& losses) {
  const kernels::CrossEntropy args{.rows = logits.rows(),
                                   .vocab = logits.columns(),
                                   .smoothing = options.smoothing,
                                   .factor = options.factor,
                                   .labels = labels.data(),
                                   .logits = logits.data()};
  const float one = 1.0f;
  auto* norms = context.arena.allocate_array<float>(args.rows);
  kernels::cross_entropy_forward(context.parallel, args, norms, losses.data());
  if (wanted == LossGradients::none) return;
  kernels::cross_entropy_backward(context.parallel, args, norms, &one, logits.data());
}

// On the CPU, in numbers or in expressions.
void projected_loss_in_slices(Context& context, const Tensor& x, const LinearWeight& output,
                              const Mirrored<int32_t>& labels, const LossOptions& options,
                              const LossResult& result) {
  const int64_t rows = x.shape()[0];
  const bool in_expressions = context.activations == DType::expression;
  const auto wanted = result.dx.defined() ? LossGradients::wanted : LossGradients::none;
  const Arena::Scope scratch(context.arena);
  const Tensor losses(context.arena, {rows}, context.sums());
  // Such a slice is also one slice of the sums over tokens, so these do not change.
  for (int64_t begin = 0; begin < rows; begin += kernels::kTokenSlice) {
    const Arena::Scope slice_scratch(context.arena);
    const int64_t end = std::min(rows, begin + kernels::kTokenSlice);
    const Tensor slice = x.slice(begin, end);
    const Tensor logits = linear(context, slice, output);
    const auto of_slice =
        labels.host.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    (in_expressions ? expressions::cross_entropy : loss_of_slice)(
        context, logits, of_slice, options, wanted, losses.slice(begin, end));
    if (wanted == LossGradients::none) continue;
    const auto step = begin == 0 ? SliceOfSum::first : SliceOfSum::further;
    linear_input_gradient_into(context, logits, output, result.dx.slice(begin, end));
    linear_weight_gradient_into(context, logits, slice, step, result.dweight);
    if (result.dbias.defined()) linear_bias_gradient_into(context, logits, step, result.dbias);
  }
  if (in_expressions) {
    expressions::total_loss(context, losses, options.factor, result.loss);
  } else {
    result.loss.data()[0] = kernels::total_loss(losses.data(), rows, options.factor);
  }
  if (rows > 0) return;
  for (const Tensor& gradient : {result.dweight, result.dbias}) {
    if (gradient.defined()) {
      kernels::fill(context.parallel, gradient.size(), 0.0f, gradient.data());
    }
  }
}

}  // namespace

LossResult projected_loss(Context& context, const Tensor& x, const LinearWeight& output,
                          const Mirrored<int32_t>& labels, const LossOptions& options,
                          LossGradients gradients) {
  check_labels(x, output, labels, options);
  const DType sums = context.sums();
  LossResult result{Tensor(context.arena, {1}, sums), {}, {}, {}};
  if (gradients == LossGradients::wanted) {
    result.dx = Tensor(context.arena, x.shape(), x.dtype());
    result.dweight = Tensor(context.arena, {output.out, output.in}, sums);
    if (output.bias.defined()) result.dbias = Tensor(context.arena, {output.out}, sums);
  }
  dispatch(
      context, [&] { projected_loss_in_slices(context, x, output, labels, options, result); },
      [&] { cuda::projected_loss(context, x, output, labels, options, result); });
  return result;
}

}  // namespace tril::ops
