// Stream: where a device's work is enqueued, in order. Opaque, so that no header drags a device's
// own in; on CUDA the handle is a cudaStream_t.
#pragma once

namespace tril {

// Of one machine.
constexpr int kMostGpus = 64;

struct Stream {
  void* handle = nullptr;
  // A kernel may begin before the one it follows has ended, where it keeps the rule of
  // kernels/cuda/launch.cuh. Context::launch_in_chain() says when.
  bool overlaps = false;
  int gpu = 0;  // whose it is: Device::index
};

}  // namespace tril
