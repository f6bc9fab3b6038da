// How kernels of a chain overlap (programmatic dependent launch).
//
// Ordinarily a kernel begins when everything enqueued before it has ended. Between the small
// kernels of a decoding step that takes longer than their work. So where Stream::overlaps allows
// it, launch() lets a kernel begin as soon as every block of the preceding one has begun and
// allowed it: it is loaded onto the GPU, starts its blocks and fetches data at rest, such as
// weights, while the preceding one is still running.
//
// The rule for every kernel that is started by launch(), whatever the stream:
//  - All its blocks call let_next_begin(), and all call wait_for_earlier() before they read what an
//    earlier kernel of the chain may have written, and before they write anything. After waiting, a
//    kernel knows that the preceding one has ended; that one waited too, and so on: all earlier
//    ones have ended. A kernel that ended without waiting would break that for all that follow.
//  - Before it waits it reads only data at rest: data written before the last kernel that was
//    started ordinarily, or that waited before it let the next begin, as an embedding does. In a
//    step of a model these are the weights, the tables and intervals of the step, and the cache
//    except for the entries of the step itself. Kernels before the preceding one may still be
//    running by then.
// Kernels that are started ordinarily in between need no rule: they wait for everything, and
// everything waits for them.
// Code for GPUs before 9.0 lacks these instructions: there launch() starts kernels ordinarily.
#pragma once

#include <cuda_runtime.h>

#include <cstdlib>
#include <string_view>

#include "tril/base/stream.h"

namespace tril::kernels::cuda {

__device__ __forceinline__ void let_next_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_earlier() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Whether this GPU runs code of a kernel that was compiled for 9.0 and so has those instructions.
// Without them the next kernel must not begin early.
template <class Kernel>
bool is_made_for_hopper(Kernel* kernel) {
  static const bool portable = [] {
    const char* wish = std::getenv("TRIL_CUDA_PORTABLE");
    return wish != nullptr && std::string_view(wish) == "1";
  }();
  constexpr int kLeastVersion = 90;
  cudaFuncAttributes attributes{};
  return !portable && cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess &&
         attributes.ptxVersion >= kLeastVersion;
}

// Clusters of `cluster` blocks that can access each other's shared memory, on 9.0 only.
template <class... Parameters, class... Arguments>
void launch_clusters(Stream stream, void (*kernel)(Parameters...), dim3 blocks, int cluster,
                     int threads, int shared_bytes, const Arguments&... arguments) {
  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  }
  if (stream.overlaps && is_made_for_hopper(kernel)) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = static_cast<cudaStream_t>(stream.handle);
  config.attrs = attributes;
  config.numAttrs = count;
  // An error is reported by whoever checks the last error, as for any launch.
  static_cast<void>(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...));
}
template <class... Parameters, class... Arguments>
void launch(Stream stream, void (*kernel)(Parameters...), dim3 blocks, int threads,
            int shared_bytes, const Arguments&... arguments) {
  launch_clusters(stream, kernel, blocks, 1, threads, shared_bytes, arguments...);
}

}  // namespace tril::kernels::cuda
