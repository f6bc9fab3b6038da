// What this build contains. Inside `if constexpr (kCudaBuilt)`, calls of CUDA code are not linked
// where it is not built.
#pragma once

namespace tril {

#ifdef TRIL_CUDA_BUILT
constexpr bool kCudaBuilt = true;
#else
constexpr bool kCudaBuilt = false;
#endif

}  // namespace tril
