// How kernels of a chain follow each other.
//
// Ordinarily a kernel begins when all that was enqueued before it has ended. Between the small
// kernels of a decoding step that takes longer than their work. So where Stream::overlaps allows
// it, launch() lets a kernel begin as soon as every block of the one before has begun and said so:
// it is brought onto the card, finds its place and fetches what rests, such as weights, while the
// one before still works.
//
// The rule for every kernel that is started by launch(), whatever the stream:
//  - All its blocks call let_next_begin(), and all call wait_for_earlier() before they read what an
//    earlier kernel of the chain may have written, and before they write anything. What waits knows
//    that the kernel before it has ended, that one waited too, and so on: all earlier ones have
//    ended. A kernel that ended without waiting would break that for all that follow.
//  - Before it waits it reads only what rests: what was written before the last kernel that was
//    started ordinarily, or that waited before it let the next begin, as an embedding does. In a
//    step of a model that are the weights, the tables and intervals of the step, and the cache but
//    for the entries of the step itself. Kernels further back than the one before may still be at
//    work by then.
// What is started ordinarily in between needs no rule: it waits for all, and is waited for.
// Code for cards before 9.0 does not know these instructions: there launch() starts ordinarily.
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

// Whether the code that this card runs of a kernel is made for 9.0, so that it has those
// instructions. Without them the next kernel must not begin early.
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

// `cluster` blocks each that see each other's shared memory, on 9.0 only.
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
  // What goes wrong is told by whoever asks for the last error, as for any launch.
  static_cast<void>(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...));
}
template <class... Parameters, class... Arguments>
void launch(Stream stream, void (*kernel)(Parameters...), dim3 blocks, int threads,
            int shared_bytes, const Arguments&... arguments) {
  launch_clusters(stream, kernel, blocks, 1, threads, shared_bytes, arguments...);
}

}  // namespace tril::kernels::cuda
