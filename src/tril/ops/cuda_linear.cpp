#include "tril/ops/cuda_linear.h"

#include <cstdlib>
#include <string_view>

#include "tril/kernels/cuda/launches.h"

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

void multiply(Context& context, const Gemm& product) {
  context.launch(kernels::cuda::multiply, {.blas = &products(context), .gemm = product});
}
// Of a layer's forward pass: only activations are written.
void multiply_in_chain(Context& context, const Gemm& product) {
  context.launch_in_chain(kernels::cuda::multiply, {.blas = &products(context), .gemm = product});
}

}  // namespace

Blas& products(Context& context) {
  if (!context.products) context.products = std::make_shared<Blas>(policy_from_environment());
  return *static_cast<Blas*>(context.products.get());
}

void cuda_round_weight(Context& context, const Tensor& weight, const LinearWeight& linear,
                       BFloat16* to) {
  const auto* from =
      static_cast<const float*>(in_memory(context, "the weight", weight, DType::f32));
  context.launch(kernels::cuda::round_padded, {.from = from,
                                               .rows = linear.out,
                                               .columns = linear.in,
                                               .to = to,
                                               .to_rows = padded_size(linear.out),
                                               .to_columns = padded_size(linear.in)});
}
void cuda_round_bias(Context& context, const Tensor& bias, const LinearWeight& linear,
                     BFloat16* to) {
  const auto* from = static_cast<const float*>(in_memory(context, "the bias", bias, DType::f32));
  context.launch(kernels::cuda::round_padded, {.from = from,
                                               .rows = 1,
                                               .columns = linear.out,
                                               .to = to,
                                               .to_rows = 1,
                                               .to_columns = padded_size(linear.out)});
}

void cuda_linear(Context& context, const Tensor& x, const CudaWeight& weight, const void* bias,
                 const Tensor& y, AfterProduct after) {
  // Where the result has room for them, the zeros behind the last output make a size that the
  // fastest algorithms take.
  const bool padded = weight.rows == y.shape()[1];
  multiply_in_chain(context, Gemm{.orientation = Orientation::forward,
                                  .m = x.shape()[0],
                                  .n = padded ? weight.rows : weight.out,
                                  .k = weight.in,
                                  .type = context.activations,
                                  .a = in_memory(context, "the input", x, context.activations),
                                  .a_stride = weight.in,
                                  .b = weight.data,
                                  .b_stride = weight.stride,
                                  .bias = bias,
                                  .c = y.raw(),
                                  .c_stride = y.shape()[1],
                                  .c_type = y.dtype(),
                                  .adds = false,
                                  .relu = after == AfterProduct::relu});
}

void cuda_input_gradient(Context& context, const Tensor& dy, const CudaWeight& weight,
                         const Tensor& dx, SliceOfSum slice) {
  const bool padded = weight.rows == dy.shape()[1];
  multiply(context,
           Gemm{.orientation = Orientation::input_gradient,
                .m = dy.shape()[0],
                .n = weight.in,
                .k = padded ? weight.rows : weight.out,
                .type = context.activations,
                .a = rows_in_memory(context, "the output's gradient", dy, context.activations),
                .a_stride = dy.row_stride(),
                .b = weight.data,
                .b_stride = weight.stride,
                .bias = nullptr,
                .c = in_memory<void*>(context, "the input's gradient", dx, context.activations),
                .c_stride = weight.in,
                .c_type = context.activations,
                .adds = slice == SliceOfSum::further,
                .relu = false});
}

void cuda_weight_gradient(Context& context, const Tensor& dy, const Tensor& x, SliceOfSum slice,
                          const Tensor& dw) {
  multiply(context,
           Gemm{.orientation = Orientation::weight_gradient,
                .m = dw.shape()[0],
                .n = x.shape()[1],
                .k = x.shape()[0],
                .type = context.activations,
                .a = rows_in_memory(context, "the output's gradient", dy, context.activations),
                .a_stride = dy.row_stride(),
                .b = in_memory(context, "the input", x, context.activations),
                .b_stride = x.shape()[1],
                .bias = nullptr,
                .c = in_memory<void*>(context, "the weight's gradient", dw, DType::f32),
                .c_stride = x.shape()[1],
                .c_type = DType::f32,
                .adds = slice == SliceOfSum::further,
                .relu = false});
}

void cuda_bias_gradient(Context& context, const Tensor& dy, SliceOfSum slice, const Tensor& db) {
  const Arena::Scope scratch(context.arena);
  const int64_t rows = dy.shape()[0];
  const int64_t slices = (rows + kernels::cuda::kColumnSumRows - 1) / kernels::cuda::kColumnSumRows;
  context.launch(
      kernels::cuda::column_sums,
      {.type = context.activations,
       .in = rows_in_memory(context, "the output's gradient", dy, context.activations),
       .rows = rows,
       .columns = db.size(),
       .stride = dy.row_stride(),
       .partial = context.arena.allocate_array<float>(slices * db.size()),
       .out = static_cast<float*>(in_memory<void*>(context, "the bias's gradient", db, DType::f32)),
       .adds = slice == SliceOfSum::further});
}

}  // namespace tril::ops
