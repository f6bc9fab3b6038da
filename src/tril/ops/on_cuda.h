// Which half of an operation runs. For the sources of this folder.
#pragma once

#include "tril/base/build.h"
#include "tril/base/error.h"
#include "tril/tensor/context.h"

namespace tril::ops {

inline bool on_cuda(const Context& context) { return on_gpu(context.device()); }

// Calls the half of an operation for a device, on_cpu() or on_cuda_device(), and returns its
// result. Only these functions, and the list of forms (weight_form.cpp), test whether CUDA is
// built: if it is not, the second half is not called, so nothing of it has to be linked.
template <class OnCpu, class OnCuda>
decltype(auto) dispatch([[maybe_unused]] Device device, const OnCpu& on_cpu,
                        [[maybe_unused]] const OnCuda& on_cuda_device) {
  if constexpr (kCudaBuilt) {
    if (on_gpu(device)) return on_cuda_device();
  }
  return on_cpu();
}
template <class OnCpu, class OnCuda>
decltype(auto) dispatch(const Context& context, const OnCpu& on_cpu, const OnCuda& on_cuda_device) {
  return dispatch(context.device(), on_cpu, on_cuda_device);
}
// The same for operations that also exist on expressions (ops/expressions.h). On those, operations
// without a third part raise when they read their tensors as numbers.
template <class OnCpu, class OnCuda, class OnExpressions>
decltype(auto) dispatch(const Context& context, const OnCpu& on_cpu, const OnCuda& on_cuda_device,
                        const OnExpressions& on_expressions) {
  if (context.activations == DType::expression) return on_expressions();
  return dispatch(context, on_cpu, on_cuda_device);
}
// For operations that exist on CUDA only, after checking that.
template <class OnCuda>
void only_on_cuda([[maybe_unused]] const OnCuda& on_cuda_device) {
  if constexpr (kCudaBuilt) on_cuda_device();
}

// Calls f with a value of the type that activations have on CUDA.
template <class F>
void with_activation_type(DType type, const F& f) {
  switch (type) {
    case DType::f32: return f(float());
    case DType::bf16: return f(BFloat16());
    default: fail(ErrorCode::unsupported, "cuda: activations of ", type);
  }
}

}  // namespace tril::ops
