// The best of many candidates: by value, largest first, the lower number first at equal values. The
// order is total, so any order of comparisons gives the same result.
#pragma once

#include <cstdint>

namespace tril::kernels::cuda {

template <class Value>
struct Ranked {
  static constexpr int32_t kNone = INT32_MAX;  // worse than every other
  Value value = -INFINITY;
  int32_t number = kNone;
};

template <class Value>
__device__ bool better(const Ranked<Value>& a, const Ranked<Value>& b) {
  return a.value != b.value ? a.value > b.value : a.number < b.number;
}

// The best of the block's candidates, for every thread.
template <int kThreads, class Value>
__device__ Ranked<Value> best_of_block(Ranked<Value> mine) {
  __shared__ Ranked<Value> by_warp[kThreads / 32];
  for (int distance = 16; distance > 0; distance /= 2) {
    const Ranked<Value> other{__shfl_xor_sync(~0u, mine.value, distance),
                              __shfl_xor_sync(~0u, mine.number, distance)};
    if (better(other, mine)) mine = other;
  }
  __syncthreads();  // earlier results have been read
  if (threadIdx.x % 32 == 0) by_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  Ranked<Value> best = by_warp[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) {
    if (better(by_warp[warp], best)) best = by_warp[warp];
  }
  return best;
}

}  // namespace tril::kernels::cuda
