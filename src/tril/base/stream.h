// Stream: where a device's work is enqueued, in order. Opaque, so that no header drags a device's
// own in; on CUDA the handle is a cudaStream_t.
#pragma once

namespace tril {

struct Stream {
  void* handle = nullptr;
};

}  // namespace tril
