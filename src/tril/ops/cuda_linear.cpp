#include "tril/ops/cuda_linear.h"

#include <cstdlib>
#include <string_view>

#include "tril/kernels/cuda/rows.h"

namespace tril::ops {
namespace {

using kernels::cuda::Blas;
using kernels::cuda::Gemm;
using kernels::cuda::Orientation;

Blas::Policy policy_from_environment() {
  const char* wish = std::getenv("TRIL_CUDA_PRODUCTS");
  if (wish == nullptr || std::string_view(wish) == "verified") return Blas::Policy::verified;
  if (std::string_view(wish) == "own") return Blas::Policy::own;
  if (std::string_view(wish) == "free") return Blas::Policy::free;
  fail(ErrorCode::invalid_argument, "TRIL_CUDA_PRODUCTS: expected verified, own or free, got ",
       wish);
}

void note_product(Context& context, const Gemm& product) {
  // A step with another weight, at another place or of another size is another step: a graph that
  // was kept of one must not run for the other.
  for (const void* memory :
       {product.a, product.b, product.bias, static_cast<const void*>(product.c)}) {
    context.queue.note(memory);
  }
  for (const int64_t size :
       {product.m, product.n, product.k, product.a_stride, product.b_stride, product.c_stride}) {
    context.queue.note(size);
  }
  context.queue.note(int64_t{product.relu} + 2 * int64_t{product.adds});
}
void multiply(Context& context, const Gemm& product) {
  note_product(context, product);
  Blas& blas = products(context);
  context.launch([&](Stream stream) { blas.gemm(stream, product); });
}
// Of a layer's forward pass: only activations are written.
void multiply_in_chain(Context& context, const Gemm& product) {
  note_product(context, product);
  Blas& blas = products(context);
  context.launch_in_chain([&](Stream stream) { blas.gemm(stream, product); });
}

// For a kernel that reads or writes activations, or what is f32 everywhere.
template <class Pointer = const void*>
Pointer rows_in_memory(std::string_view what, const Tensor& tensor, DType type) {
  require(tensor.device().type == DeviceType::cuda, ErrorCode::invalid_argument, "linear: ", what,
          " is in the memory of ", tensor.device(), ", expected cuda");
  require(tensor.dtype() == type, ErrorCode::invalid_argument, "linear: ", what, " is of ",
          tensor.dtype(), ", expected ", type);
  return tensor.raw_rows();
}
// The same where rows are taken to lie side by side.
template <class Pointer = const void*>
Pointer in_memory(std::string_view what, const Tensor& tensor, DType type) {
  tensor.raw();  // which raises where they do not
  return rows_in_memory<Pointer>(what, tensor, type);
}

void round_weight(Context& context, const LinearWeight& linear, BFloat16* to) {
  const auto* from = static_cast<const float*>(in_memory("the weight", linear.weight, DType::f32));
  context.launch([&](Stream stream) {
    kernels::cuda::round_padded(stream, from, linear.out, linear.in, to, padded_size(linear.out),
                                padded_size(linear.in));
  });
}
void round_bias(Context& context, const LinearWeight& linear, BFloat16* to) {
  const auto* from = static_cast<const float*>(in_memory("the bias", linear.bias, DType::f32));
  context.launch([&](Stream stream) {
    kernels::cuda::round_padded(stream, from, 1, linear.out, to, 1, padded_size(linear.out));
  });
}

// A weight as products read it: [outputs, stride], of the type of activations.
struct Weight {
  const void* data = nullptr;
  int64_t stride = 0;
  int64_t outputs = 0;  // those that are there: zeros behind the last
};

Weight weight_of(Context& context, const LinearWeight& linear) {
  require(linear.compute == Compute::fp32 || linear.compute == Compute::bf16,
          ErrorCode::unsupported, "linear: weights in ", word_for(linear.compute),
          " are multiplied on the CPU only");
  if (context.activations == DType::f32) {
    require(linear.weight.defined(), ErrorCode::unsupported,
            "linear: a weight that was packed for bf16 cannot be multiplied in fp32 on cuda");
    return {in_memory("the weight", linear.weight, DType::f32), linear.in, linear.out};
  }
  const Weight padded{nullptr, padded_size(linear.in), padded_size(linear.out)};
  if (linear.forward_panels.defined()) {
    require(linear.forward_panels.size() == padded.stride * padded.outputs,
            ErrorCode::shape_mismatch, "linear: the packed weight has ",
            linear.forward_panels.size(), " elements, expected ", padded.outputs, " x ",
            padded.stride);
    return {in_memory("the packed weight", linear.forward_panels, DType::bf16), padded.stride,
            padded.outputs};
  }
  auto* rounded = context.arena.allocate_array<BFloat16>(padded.stride * padded.outputs);
  round_weight(context, linear, rounded);
  return {rounded, padded.stride, padded.outputs};
}

// Null without one.
const void* bias_of(Context& context, const LinearWeight& linear) {
  if (!linear.bias.defined() && !linear.rounded_bias.defined()) return nullptr;
  if (context.activations == DType::f32) return in_memory("the bias", linear.bias, DType::f32);
  if (linear.rounded_bias.defined()) {
    require(linear.rounded_bias.size() == padded_size(linear.out), ErrorCode::shape_mismatch,
            "linear: the rounded bias has ", linear.rounded_bias.size(), " entries, expected ",
            padded_size(linear.out));
    return in_memory("the rounded bias", linear.rounded_bias, DType::bf16);
  }
  auto* rounded = context.arena.allocate_array<BFloat16>(padded_size(linear.out));
  round_bias(context, linear, rounded);
  return rounded;
}

}  // namespace

Blas& products(Context& context) {
  if (!context.products) context.products = std::make_shared<Blas>(policy_from_environment());
  return *static_cast<Blas*>(context.products.get());
}

void cuda_pack_forward(Context& context, const LinearWeight& linear) {
  if (linear.forward_panels.defined()) {
    round_weight(context, linear, linear.forward_panels.on_device<BFloat16>());
  }
  if (linear.rounded_bias.defined()) {
    round_bias(context, linear, linear.rounded_bias.on_device<BFloat16>());
  }
}

void cuda_linear(Context& context, const Tensor& x, std::span<const LinearWeight* const> weights,
                 const Tensor& y, AfterProduct after) {
  const Arena::Scope scratch(context.arena);
  const LinearWeight& linear = *weights[0];
  const Weight weight = weight_of(context, linear);
  const bool stacked = weights.size() > 1;
  Gemm product{.orientation = Orientation::forward,
               .m = x.shape()[0],
               .n = stacked ? y.shape()[1] : linear.out,
               .k = linear.in,
               .type = context.activations,
               .a = in_memory("the input", x, context.activations),
               .a_stride = linear.in,
               .b = weight.data,
               .b_stride = weight.stride,
               .bias = bias_of(context, linear),
               .c = y.raw(),
               .c_stride = y.shape()[1],
               .c_type = y.dtype(),
               .adds = false,
               .relu = after == AfterProduct::relu};
  // Where the result has room for them, the zeros behind the last output make a size that the
  // fastest algorithms take.
  if (!stacked && weight.outputs == y.shape()[1]) product.n = weight.outputs;
  multiply_in_chain(context, product);
}

void cuda_input_gradient(Context& context, const Tensor& dy,
                         std::span<const LinearWeight* const> weights, const Tensor& dx,
                         SliceOfSum slice) {
  const Arena::Scope scratch(context.arena);
  const LinearWeight& linear = *weights[0];
  const Weight weight = weight_of(context, linear);
  const bool whole = weights.size() > 1 || weight.outputs == dy.shape()[1];
  multiply(context, Gemm{.orientation = Orientation::input_gradient,
                         .m = dy.shape()[0],
                         .n = linear.in,
                         .k = whole ? dy.shape()[1] : linear.out,
                         .type = context.activations,
                         .a = rows_in_memory("the output's gradient", dy, context.activations),
                         .a_stride = dy.row_stride(),
                         .b = weight.data,
                         .b_stride = weight.stride,
                         .bias = nullptr,
                         .c = in_memory<void*>("the input's gradient", dx, context.activations),
                         .c_stride = linear.in,
                         .c_type = context.activations,
                         .adds = slice == SliceOfSum::further,
                         .relu = false});
}

void cuda_weight_gradient(Context& context, const Tensor& dy, const Tensor& x, SliceOfSum slice,
                          const Tensor& dw) {
  multiply(context, Gemm{.orientation = Orientation::weight_gradient,
                         .m = dw.shape()[0],
                         .n = x.shape()[1],
                         .k = x.shape()[0],
                         .type = context.activations,
                         .a = rows_in_memory("the output's gradient", dy, context.activations),
                         .a_stride = dy.row_stride(),
                         .b = in_memory("the input", x, context.activations),
                         .b_stride = x.shape()[1],
                         .bias = nullptr,
                         .c = in_memory<void*>("the weight's gradient", dw, DType::f32),
                         .c_stride = x.shape()[1],
                         .c_type = DType::f32,
                         .adds = slice == SliceOfSum::further,
                         .relu = false});
}

void cuda_bias_gradient(Context& context, const Tensor& dy, SliceOfSum slice, const Tensor& db) {
  const Arena::Scope scratch(context.arena);
  const int64_t rows = dy.shape()[0];
  const int64_t slices = (rows + kernels::cuda::kColumnSumRows - 1) / kernels::cuda::kColumnSumRows;
  auto* partial = context.arena.allocate_array<float>(slices * db.size());
  const void* in = rows_in_memory("the output's gradient", dy, context.activations);
  auto* out = static_cast<float*>(in_memory<void*>("the bias's gradient", db, DType::f32));
  context.launch([&](Stream stream) {
    kernels::cuda::column_sums(stream, context.activations, in, rows, db.size(), dy.row_stride(),
                               partial, out, slice == SliceOfSum::further);
  });
}

}  // namespace tril::ops
