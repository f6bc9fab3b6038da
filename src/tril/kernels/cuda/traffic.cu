#include "tril/kernels/cuda/traffic.h"

namespace tril::kernels::cuda {
namespace {

// A block moves one piece of kTrafficBlock bytes per pass. Eight blocks run on a multiprocessor at
// a time, each with all its reads in flight at once: several times what is needed to hide the
// latency of memory.
constexpr int kTrafficThreads = 256;
constexpr int kInFlight = 4;
constexpr int64_t kPiece = int64_t{kTrafficThreads} * kInFlight;
static_assert(kPiece * sizeof(uint4) == kTrafficBlock);

struct Held {
  uint4 at[kInFlight];
};

// The piece of a pass: a different one each time, so that no pass can be skipped.
__device__ __forceinline__ int64_t place(int pass) {
  return (static_cast<int64_t>(blockIdx.x) + pass) % gridDim.x * kPiece + threadIdx.x;
}

__device__ __forceinline__ Held load(const uint4* from) {
  Held held;
#pragma unroll
  for (int i = 0; i < kInFlight; ++i) held.at[i] = __ldcg(from + i * kTrafficThreads);
  return held;
}

__global__ void __launch_bounds__(kTrafficThreads)
    copy_kernel(const uint4* __restrict__ from, uint4* __restrict__ to, int passes) {
  for (int pass = 0; pass < passes; ++pass) {
    const int64_t at = place(pass);
    const Held held = load(from + at);
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) __stcg(to + at + i * kTrafficThreads, held.at[i]);
  }
}

__global__ void __launch_bounds__(kTrafficThreads)
    read_kernel(const uint4* __restrict__ from, uint4* unused, int passes) {
  uint4 all = {};
  for (int pass = 0; pass < passes; ++pass) {
    const Held held = load(from + place(pass));
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      all.x |= held.at[i].x;
      all.y |= held.at[i].y;
      all.z |= held.at[i].z;
      all.w |= held.at[i].w;
    }
  }
  if ((all.x & all.y & all.z & all.w) != 0) *unused = all;
}

}  // namespace

void copy_traffic(Stream stream, const Traffic& args) {
  const auto blocks = static_cast<unsigned>(args.bytes / kTrafficBlock);
  copy_kernel<<<blocks, kTrafficThreads, 0, static_cast<cudaStream_t>(stream.handle)>>>(
      static_cast<const uint4*>(args.from), static_cast<uint4*>(args.to), args.passes);
}

void read_traffic(Stream stream, const Traffic& args) {
  const auto blocks = static_cast<unsigned>(args.bytes / kTrafficBlock);
  read_kernel<<<blocks, kTrafficThreads, 0, static_cast<cudaStream_t>(stream.handle)>>>(
      static_cast<const uint4*>(args.from), static_cast<uint4*>(args.to), args.passes);
}

}  // namespace tril::kernels::cuda
