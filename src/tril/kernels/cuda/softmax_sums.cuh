// The sums of a softmax over the vocabulary, in the order of rows.h: kSoftmaxThreads threads, of
// one block or of several, share a row. For loss.cu and choice.cu, so that a score and a search
// have the same bits.
#pragma once

#include <cmath>

#include "tril/kernels/cuda/rows.cuh"

namespace tril::kernels::cuda {

constexpr int kSoftmaxThreads = 1024;
constexpr int kSoftmaxWarps = kSoftmaxThreads / kWarp;
static_assert(kSoftmaxWarps == kWarp, "the warps' sums are folded by one warp");

// The largest of some numbers, the sum of e^(x - largest), and the plain sum. NaN is never the
// largest, but it is in both sums.
struct Sums {
  float top, exponentials, plain;
};

// The factor that turns a sum over e^(x - from) into one over e^(x - to).
__device__ inline float change_of_top(float from, float to) {
  return from == to ? 1.0f : expf(from - to);  // both may be -infinity
}

__device__ inline Sums joined_by(const Sums& mine, int step) {
  const Sums other{__shfl_xor_sync(kAllLanes, mine.top, step),
                   __shfl_xor_sync(kAllLanes, mine.exponentials, step),
                   __shfl_xor_sync(kAllLanes, mine.plain, step)};
  const float top = fmaxf(mine.top, other.top);
  return {top,
          mine.exponentials * change_of_top(mine.top, top) +
              other.exponentials * change_of_top(other.top, top),
          mine.plain + other.plain};
}
__device__ inline Sums joined_in_warp(Sums sums) {
#pragma unroll 1  // instructions have to come from memory, too
  for (int step = kWarp / 2; step > 0; step /= 2) sums = joined_by(sums, step);
  return sums;
}

__device__ inline float largest_of(const Pack& x) {
  float largest = x.at[0];
#pragma unroll
  for (int i = 1; i < kPack; ++i) largest = fmaxf(largest, x.at[i]);
  return largest;
}
// Eight at once, with the bits of add_one_by_one(); `top` is their largest.
__device__ inline void add_whole_pack(const Pack& x, float top, Sums& sums) {
  if (top > sums.top) {
    sums.exponentials = sums.exponentials * change_of_top(sums.top, top);
    sums.top = top;
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    sums.exponentials += expf(x.at[i] - sums.top);  // of -infinity zero
    sums.plain += x.at[i];
  }
}
__device__ inline void add_one_by_one(const Pack& x, int count, Sums& sums) {
  float top = -INFINITY;
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    if (i < count) top = fmaxf(top, x.at[i]);
  }
  if (top > sums.top) {
    sums.exponentials = sums.exponentials * change_of_top(sums.top, top);
    sums.top = top;
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    if (i < count) {
      // If all numbers so far are -infinity, -infinity - top would be NaN.
      sums.exponentials += x.at[i] == -INFINITY ? 0.0f : expf(x.at[i] - sums.top);
      sums.plain += x.at[i];
    }
  }
}
// Whether eight may be added at once: not if all so far are -infinity (or NaN).
__device__ inline bool is_added_whole(const Pack& x, int count, const Sums& sums) {
  return count == kPack && (sums.top > -INFINITY || x.at[0] > -INFINITY);
}
// The first `count` of a pack, `top` the largest of all eight.
__device__ inline void add_pack(const Pack& x, int count, float top, Sums& sums) {
  if (is_added_whole(x, count, sums)) {
    add_whole_pack(x, top, sums);
  } else {
    add_one_by_one(x, count, sums);
  }
}

__device__ inline float normaliser(const Sums& sums) {
  return sums.top + static_cast<float>(log(static_cast<double>(sums.exponentials)));
}

}  // namespace tril::kernels::cuda
