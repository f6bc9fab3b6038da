#include <cuda_runtime.h>

#include "tril/kernels/cuda/weights.h"

namespace tril::kernels::cuda {
namespace {

constexpr int kWeightsThreads = 256;

__global__ void move_towards_kernel(const float* share, const WeightPair* pairs,
                                    const int32_t* starts, int64_t count) {
  // The last pair whose first chunk is not after this one.
  const auto chunk = static_cast<int32_t>(blockIdx.x);
  int64_t low = 0, high = count;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (starts[middle] <= chunk) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const WeightPair pair = pairs[low];
  const int64_t begin = (chunk - starts[low]) * kWeightChunk;
  const int64_t end = min(begin + kWeightChunk, pair.size);
  const float part = *share;
  for (int64_t i = begin + threadIdx.x; i < end; i += kWeightsThreads) {
    pair.to[i] = pair.to[i] + part * (pair.from[i] - pair.to[i]);
  }
}

}  // namespace

void move_towards(Stream stream, const MoveTowards& args) {
  if (args.chunks == 0) return;
  move_towards_kernel<<<static_cast<unsigned>(args.chunks), kWeightsThreads, 0,
                        static_cast<cudaStream_t>(stream.handle)>>>(args.share, args.pairs,
                                                                    args.starts, args.count);
}

}  // namespace tril::kernels::cuda
