// What this build holds. In `if constexpr (kCudaBuilt)` calls of what is not there are not linked.
#pragma once

namespace tril {

#ifdef TRIL_CUDA_BUILT
constexpr bool kCudaBuilt = true;
#else
constexpr bool kCudaBuilt = false;
#endif

}  // namespace tril
