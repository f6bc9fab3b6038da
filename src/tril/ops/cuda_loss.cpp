#include "tril/ops/cuda_loss.h"

#include <algorithm>

#include "tril/kernels/cuda/launches.h"
#include "tril/ops/cuda_linear.h"
#include "tril/ops/cuda_rows.h"

namespace tril::ops::cuda {
namespace {

namespace on_gpu = kernels::cuda;

// A batch on the device: labels, and the factor, which changes from step to step.
struct Batch {
  const int32_t* labels;
  const float* factor;
  float smoothing;
};

// Norms, losses and, if dlogits is defined, gradients of a slice of logits.
void cross_entropy(Context& context, const Batch& batch, int64_t vocab, const Tensor& logits,
                   float* losses, const Tensor& dlogits) {
  const Arena::Scope scratch(context.arena);
  auto* norms = context.arena.allocate_array<float>(logits.rows());
  with_activation_type(context.activations, [&]<class T>(T) {
    context.launch(on_gpu::cross_entropy<T>, {.rows = logits.rows(),
                                              .vocab = vocab,
                                              .stride = logits.columns(),
                                              .smoothing = batch.smoothing,
                                              .labels = batch.labels,
                                              .logits = memory_of<float>(context, logits),
                                              .factor = batch.factor,
                                              .norms = norms,
                                              .losses = losses,
                                              .dlogits = memory_of<T>(context, dlogits)});
  });
}

}  // namespace

void log_probs(Context& context, const Tensor& logits, const Tensor& out) {
  const int64_t rows = logits.shape()[0];
  const int64_t vocab = logits.shape()[1];
  const Arena::Scope scratch(context.arena);
  auto* norms = context.arena.allocate_array<float>(rows);
  const auto* from = memory_of<float>(context, logits);
  context.launch(on_gpu::softmax_normalisers,
                 {.logits = from, .rows = rows, .vocab = vocab, .stride = vocab, .norms = norms});
  context.launch(on_gpu::subtract_rows, {.logits = from,
                                         .norms = norms,
                                         .rows = rows,
                                         .vocab = vocab,
                                         .stride = vocab,
                                         .out = memory_of<float>(context, out)});
}

int64_t loss_slice(int64_t rows, int64_t vocab) {
  constexpr int64_t kTile = 128;
  const int64_t fitting = kLossBytes / (padded_size(vocab) * int64_t{sizeof(float)});
  const int64_t most = std::clamp<int64_t>(fitting / kTile * kTile, kTile, kLossRows);
  const int64_t slices = std::max<int64_t>((rows + most - 1) / most, 1);
  return (rows + slices * kTile - 1) / (slices * kTile) * kTile;
}

void projected_loss(Context& context, const Tensor& x, const LinearWeight& output,
                    const Mirrored<int32_t>& labels, const LossOptions& options,
                    const LossResult& result) {
  const int64_t rows = x.shape()[0];
  const int64_t most = loss_slice(rows, output.out);
  Batch batch{context.on_device(labels), context.uploaded(options.factor), options.smoothing};
  const Arena::Scope scratch(context.arena);
  auto* losses = context.arena.allocate_array<float>(rows);
  for (int64_t begin = 0; begin < rows; begin += most) {
    const Arena::Scope slice_scratch(context.arena);
    const Tensor slice = x.slice(begin, std::min(rows, begin + most));
    const Tensor logits = linear(context, slice, output, LinearOutput::padded_sums);
    Tensor dlogits;
    if (result.dx.defined()) dlogits = Tensor(context.arena, logits.shape(), context.activations);
    cross_entropy(context, batch, output.out, logits, losses + begin, dlogits);
    batch.labels += slice.rows();
    if (!dlogits.defined()) continue;
    const auto step = begin == 0 ? SliceOfSum::first : SliceOfSum::further;
    linear_input_gradient_into(context, dlogits, output,
                               result.dx.slice(begin, begin + slice.rows()));
    linear_weight_gradient_into(context, dlogits, slice, step, result.dweight);
    if (result.dbias.defined()) linear_bias_gradient_into(context, dlogits, step, result.dbias);
  }
  context.launch(on_gpu::total_loss, {.losses = losses,
                                      .rows = rows,
                                      .factor = batch.factor,
                                      .total = memory_of<float>(context, result.loss)});
  if (rows > 0) return;
  for (const Tensor& gradient : {result.dweight, result.dbias}) {
    if (gradient.defined()) fill(context, 0.0f, gradient);
  }
}

}  // namespace tril::ops::cuda
