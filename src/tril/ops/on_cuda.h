// Which half of an operation runs. For the sources of this folder.
#pragma once

#include "tril/base/build.h"
#include "tril/base/error.h"
#include "tril/tensor/context.h"

namespace tril::ops {

// In `if constexpr (kCudaBuilt)`, so that nothing of CUDA is linked where it is not built.
inline bool on_cuda(const Context& context) { return context.device().type == DeviceType::cuda; }

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
