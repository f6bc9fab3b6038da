// Linear layers on CUDA: what linear.cpp hands over when a context computes there. For the sources
// of this folder; called in `if constexpr (kCudaBuilt)`, so that nothing is linked without CUDA.
#pragma once

#include "tril/kernels/cuda/gemm.h"
#include "tril/ops/linear.h"

namespace tril::ops {

// The context's products, made when they are first asked for. TRIL_CUDA_PRODUCTS in the environment
// says of which kind (kernels/cuda/gemm.h); another word raises `invalid_argument`.
kernels::cuda::Blas& products(Context& context);

// The caller has checked shapes and allocated results.
void cuda_pack_forward(Context& context, const LinearWeight& linear);
// Of one weight, or of several that are stacked: outputs side by side.
enum class AfterProduct { nothing, relu };
void cuda_linear(Context& context, const Tensor& x, std::span<const LinearWeight* const> weights,
                 const Tensor& y, AfterProduct after = AfterProduct::nothing);
void cuda_input_gradient(Context& context, const Tensor& dy,
                         std::span<const LinearWeight* const> weights, const Tensor& dx,
                         SliceOfSum slice = SliceOfSum::first);
void cuda_weight_gradient(Context& context, const Tensor& dy, const Tensor& x, SliceOfSum slice,
                          const Tensor& dw);
void cuda_bias_gradient(Context& context, const Tensor& dy, SliceOfSum slice, const Tensor& db);
// dx and, aside, its column sums. False, and nothing was done, where two kernels are faster.
bool cuda_relu_gradient(Context& context, const Tensor& y, const Tensor& dy, const Tensor& dx,
                        const Tensor& db);

}  // namespace tril::ops
