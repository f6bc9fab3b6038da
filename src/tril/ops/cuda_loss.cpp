#include "tril/ops/cuda_loss.h"

#include <algorithm>

#include "tril/kernels/cuda/rows.h"
#include "tril/ops/cuda_linear.h"
#include "tril/ops/cuda_rows.h"

namespace tril::ops::cuda {
namespace {

namespace on_card = kernels::cuda;

// The output projection as products take it. Rounded weights are padded with zeros, so their
// products may run over the padding; the fp32 ones are as they are.
template <class T>
struct Projection {
  static constexpr DType kType = dtype_of<T>();
  static constexpr bool kPadded = kType == DType::bf16;

  const LinearWeight& linear;
  int64_t stride;  // of a row of logits, and of their gradients
  // The weight's rows and row stride as they lie in memory.
  int64_t weight_rows, weight_stride;

  explicit Projection(const LinearWeight& output)
      : linear(output),
        stride(padded_size(output.out)),
        weight_rows(kPadded ? stride : output.out),
        weight_stride(kPadded ? padded_size(output.in) : output.in) {
    require((kPadded ? output.forward_panels : output.weight).defined(), ErrorCode::internal,
            "loss: the output projection has no weight in ", kType);
    require(!kPadded || output.bias.defined() == output.rounded_bias.defined(), ErrorCode::internal,
            "loss: the output projection has no bias in ", kType);
  }

  const T* weight() const {
    if constexpr (kPadded) return memory_of<T>(linear.forward_panels);
    return memory_of<T>(linear.weight);
  }
  const T* bias() const {
    if constexpr (kPadded) return memory_of<T>(linear.rounded_bias);
    return memory_of<T>(linear.bias);
  }

  on_card::Gemm logits(int64_t rows, const T* x, float* to) const {
    return {.m = rows,
            .n = weight_rows,
            .k = linear.in,
            .type = kType,
            .a = x,
            .a_stride = linear.in,
            .b = weight(),
            .b_stride = weight_stride,
            .bias = bias(),
            .c = to,
            .c_stride = stride,
            .c_type = DType::f32};
  }
  on_card::Gemm input_gradient(int64_t rows, const T* dlogits, T* dx) const {
    return {.orientation = on_card::Orientation::input_gradient,
            .m = rows,
            .n = linear.in,
            .k = weight_rows,
            .type = kType,
            .a = dlogits,
            .a_stride = stride,
            .b = weight(),
            .b_stride = weight_stride,
            .c = dx,
            .c_stride = linear.in,
            .c_type = kType};
  }
  on_card::Gemm weight_gradient(int64_t rows, const T* dlogits, const T* x, float* dweight,
                                bool adds) const {
    return {.orientation = on_card::Orientation::weight_gradient,
            .m = linear.out,
            .n = linear.in,
            .k = rows,
            .type = kType,
            .a = dlogits,
            .a_stride = stride,
            .b = x,
            .b_stride = linear.in,
            .c = dweight,
            .c_stride = linear.in,
            .c_type = DType::f32,
            .adds = adds};
  }
};

template <class T>
void projected_loss_in(Context& context, const Tensor& x, const LinearWeight& output,
                       const Mirrored<int32_t>& labels, const LossOptions& options,
                       const LossResult& result) {
  const Projection<T> projection(output);
  const int64_t rows = x.shape()[0];
  const int64_t most = loss_slice(output.out);
  const bool wanted = result.dx.defined();
  // The factor changes from step to step.
  const float* factor = context.uploaded(options.factor);
  const int32_t* labels_there = context.on_device(labels);
  const Arena::Scope scratch(context.arena);
  auto* losses = context.arena.allocate_array<float>(rows);
  for (int64_t begin = 0; begin < rows; begin += most) {
    const Arena::Scope slice_scratch(context.arena);
    const int64_t count = std::min(most, rows - begin);
    auto* logits = context.arena.allocate_array<float>(count * projection.stride);
    auto* norms = context.arena.allocate_array<float>(count);
    auto* dlogits = wanted ? context.arena.allocate_array<T>(count * projection.stride) : nullptr;
    const int64_t slices = (count + on_card::kColumnSumRows - 1) / on_card::kColumnSumRows;
    auto* partial =
        result.dbias.defined() ? context.arena.allocate_array<float>(slices * output.out) : nullptr;
    context.launch([&](Stream stream) {
      const T* input = memory_of<T>(x) + begin * output.in;
      on_card::Blas& blas = ops::products(context);
      blas.gemm(stream, projection.logits(count, input, logits));
      const on_card::CrossEntropy args{.rows = count,
                                       .vocab = output.out,
                                       .stride = projection.stride,
                                       .smoothing = options.smoothing,
                                       .labels = labels_there + begin,
                                       .logits = logits,
                                       .factor = factor};
      on_card::cross_entropy<T>(stream, args, norms, losses + begin, dlogits);
      if (!wanted) return;
      T* dx = memory_of<T>(result.dx) + begin * output.in;
      blas.gemm(stream, projection.input_gradient(count, dlogits, dx));
      float* dweight = memory_of<float>(result.dweight);
      blas.gemm(stream, projection.weight_gradient(count, dlogits, input, dweight, begin > 0));
      if (!result.dbias.defined()) return;
      on_card::column_sums(stream, dtype_of<T>(), dlogits, count, output.out, projection.stride,
                           partial, memory_of<float>(result.dbias), begin > 0);
    });
  }
  context.launch([&](Stream stream) {
    on_card::total_loss(stream, losses, rows, factor, memory_of<float>(result.loss));
  });
  if (rows > 0) return;
  for (const Tensor& gradient : {result.dweight, result.dbias}) {
    if (gradient.defined()) fill(context, 0.0f, gradient);
  }
}

}  // namespace

void log_probs(Context& context, const Tensor& logits, const Tensor& out) {
  const int64_t rows = logits.shape()[0];
  const int64_t vocab = logits.shape()[1];
  const Arena::Scope scratch(context.arena);
  auto* norms = context.arena.allocate_array<float>(rows);
  context.launch([&](Stream stream) {
    const auto* from = memory_of<float>(logits);
    on_card::softmax_normalisers(stream, from, rows, vocab, vocab, norms);
    on_card::subtract_rows(stream, from, norms, rows, vocab, vocab, memory_of<float>(out));
  });
}

int64_t loss_slice(int64_t vocab) {
  const int64_t fitting = kLossBytes / (padded_size(vocab) * int64_t{sizeof(float)});
  return std::clamp<int64_t>(fitting / 64 * 64, 64, kLossRows);
}

void projected_loss(Context& context, const Tensor& x, const LinearWeight& output,
                    const Mirrored<int32_t>& labels, const LossOptions& options,
                    const LossResult& result) {
  with_activation_type(x.dtype(), [&]<class T>(T) {
    projected_loss_in<T>(context, x, output, labels, options, result);
  });
}

}  // namespace tril::ops::cuda
