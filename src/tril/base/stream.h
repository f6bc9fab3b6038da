// Stream: where a device's work is enqueued, in order. Opaque, so that headers need not include a
// device's own; on CUDA the handle is a cudaStream_t.
#pragma once

namespace tril {

// Of one machine.
constexpr int kMostGpus = 64;

struct Stream {
  void* handle = nullptr;
  // A kernel may begin before the previous one has ended, if it follows the rule of
  // kernels/cuda/launch.cuh. Set by Queue::launch().
  bool overlaps = false;
  int gpu = 0;  // whose it is: Device::index
};

}  // namespace tril
