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
//    started ordinarily, the chain's first. In a step of a model that are the weights, the tables
//    and intervals of the step, and the cache but for the entries of the step itself. Kernels
//    further back than the one before may still be at work by then.
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

// Whether the code that this card runs of a kernel has those instructions. Without them the next
// kernel must not begin early.
template <class Kernel>
bool may_overlap(Kernel* kernel) {
  static const bool portable = [] {
    const char* wish = std::getenv("TRIL_CUDA_PORTABLE");
    return wish != nullptr && std::string_view(wish) == "1";
  }();
  constexpr int kLeastVersion = 90;
  cudaFuncAttributes attributes{};
  return !portable && cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess &&
         attributes.ptxVersion >= kLeastVersion;
}

template <class... Parameters, class... Arguments>
void launch(Stream stream, void (*kernel)(Parameters...), dim3 blocks, int threads,
            int shared_bytes, const Arguments&... arguments) {
  cudaLaunchAttribute overlaps{};
  overlaps.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlaps.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = static_cast<cudaStream_t>(stream.handle);
  config.attrs = &overlaps;
  config.numAttrs = stream.overlaps && may_overlap(kernel) ? 1 : 0;
  // What goes wrong is told by whoever asks for the last error, as for any launch.
  static_cast<void>(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...));
}

}  // namespace tril::kernels::cuda
