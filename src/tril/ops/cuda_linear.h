// Linear layers on CUDA, called through dispatch() (on_cuda.h) and by the CUDA forms, so that
// nothing of it is linked without CUDA. For the sources of this folder.
#pragma once

#include "tril/kernels/cuda/gemm.h"
#include "tril/ops/linear.h"

namespace tril::ops {

// The memory of a tensor that products read or write: activations, or data that is always f32.
// `what` names it in the error if it is elsewhere or of another type. Its rows may lie apart.
template <class Pointer = const void*>
Pointer rows_in_memory(const Context& context, std::string_view what, const Tensor& tensor,
                       DType type) {
  require(tensor.device() == context.device(), ErrorCode::invalid_argument, "linear: ", what,
          " is in the memory of ", tensor.device(), ", expected ", context.device());
  require(tensor.dtype() == type, ErrorCode::invalid_argument, "linear: ", what, " is of ",
          tensor.dtype(), ", expected ", type);
  return tensor.raw_rows();
}
// The same for tensors that must be dense.
template <class Pointer = const void*>
Pointer in_memory(const Context& context, std::string_view what, const Tensor& tensor, DType type) {
  tensor.raw();  // raises if they are not
  return rows_in_memory<Pointer>(context, what, tensor, type);
}

// The context's products, created for the first one. TRIL_CUDA_PRODUCTS in the environment chooses
// their kind (kernels/cuda/gemm.h); another word raises `invalid_argument`.
kernels::cuda::Blas& products(Context& context);

// A weight, or several that are stacked, as products read it: [rows, stride], of the type of
// activations.
struct CudaWeight {
  const void* data = nullptr;
  int64_t stride = 0;
  int64_t out = 0;
  int64_t in = 0;
  int64_t rows = 0;  // existing rows: zeros after the last output
};

// The caller has checked shapes and allocated results.
// `weight` and `bias` rounded and padded with zeros: [padded_size(out), padded_size(in)] and
// [padded_size(out)], of the sizes of `linear`.
void cuda_round_weight(Context& context, const Tensor& weight, const LinearWeight& linear,
                       BFloat16* to);
void cuda_round_bias(Context& context, const Tensor& bias, const LinearWeight& linear,
                     BFloat16* to);
enum class AfterProduct { nothing, relu };
void cuda_linear(Context& context, const Tensor& x, const CudaWeight& weight, const void* bias,
                 const Tensor& y, AfterProduct after = AfterProduct::nothing);
void cuda_input_gradient(Context& context, const Tensor& dy, const CudaWeight& weight,
                         const Tensor& dx, SliceOfSum slice = SliceOfSum::first);
void cuda_weight_gradient(Context& context, const Tensor& dy, const Tensor& x, SliceOfSum slice,
                          const Tensor& dw);
void cuda_bias_gradient(Context& context, const Tensor& dy, SliceOfSum slice, const Tensor& db);

}  // namespace tril::ops
