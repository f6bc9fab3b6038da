// Values that are queried or set up once per GPU. How much shared memory a kernel may use and how
// many of its blocks run at a time depend on the kernel and the GPU, so the answer for one GPU does
// not hold for another.
#pragma once

#include <cuda_runtime.h>

#include <mutex>

#include "tril/base/stream.h"

namespace tril::kernels::cuda {

// Static, one per query. Any thread may use it.
template <class T>
class PerGpu {
 public:
  // For the thread's current GPU; find() is called the first time.
  template <class F>
  T get(const F& find) {
    int gpu = 0;
    if (cudaGetDevice(&gpu) != cudaSuccess || gpu >= kMostGpus) return find();
    Answer& answer = answers_[gpu];
    std::call_once(answer.found, [&] { answer.value = find(); });
    return answer.value;
  }

 private:
  struct Answer {
    std::once_flag found;
    T value{};
  };
  Answer answers_[kMostGpus];
};

// Lets a kernel use this much dynamic shared memory. If that is refused, the launch fails and
// reports it.
template <auto kKernel>
void allow_shared_memory(int bytes) {
  static PerGpu<bool> allowed;
  allowed.get([&] {
    return cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) ==
           cudaSuccess;
  });
}

}  // namespace tril::kernels::cuda
