// From scores to weights, for the backward pass of long sequences: 64 by 64 pairs of a warpgroup,
// in the layout in which its products leave s and dp and its next products expect p and ds. For
// attention_long_backward.cu.
#pragma once

#include "tril/kernels/cuda/attention_gradients.cuh"

namespace tril::kernels::cuda {

// p and ds of 64 by 64 pairs, two columns per register: lane (g, t) of a warp has rows g and g + 8
// of its slice and columns 8 n + 2 t and the next.
struct Weights {
  uint32_t p[8][2], ds[8][2];
};

// For the kernel that owns keys, where rows of attention are columns here: the first `count` of
// `facts`; this thread has the keys `key` and key + 8.
template <bool kMasked>
__device__ __forceinline__ void weigh_keys(Weights& weights, const float (&s)[8][4],
                                           const float (&dp)[8][4], const RowFact* facts,
                                           float factor, int count, int key) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    const int local = 8 * n + 2 * (lane_id() & 3);
    float base[2], delta[2];
    int lo[2], hi[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const RowFact& fact = facts[local + e];
      const float2 both = *reinterpret_cast<const float2*>(&fact);
      base[e] = both.x;
      delta[e] = both.y;
      if (kMasked) {
        lo[e] = fact.lo;
        hi[e] = local + e < count ? fact.hi : 0;
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Pair pair[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        pair[e] = pair_of(s[n][2 * half + e], dp[n][2 * half + e], factor, base[e], delta[e]);
        const int at = key + 8 * half;
        if (kMasked && !(lo[e] <= at && at < hi[e])) pair[e] = {0.0f, 0.0f};
      }
      weights.p[n][half] = pack_bf16(pair[0].p, pair[1].p);
      weights.ds[n][half] = pack_bf16(pair[0].ds, pair[1].ds);
    }
  }
}

// For the kernel that owns rows, where keys are columns, from `key` on; this thread has two rows of
// attention. Only ds is computed.
template <bool kMasked>
__device__ __forceinline__ void weigh_rows(Weights& weights, const float (&s)[8][4],
                                           const float (&dp)[8][4], const RowFact (&fact)[2],
                                           float factor, int key) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int at = key + 2 * (lane_id() & 3);
    const int begin = fact[half].lo - at, end = fact[half].hi - at;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      float ds[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        ds[e] = pair_of(s[n][2 * half + e], dp[n][2 * half + e], factor, fact[half].base,
                        fact[half].delta)
                    .ds;
        const int column = 8 * n + e;
        if (kMasked && !(begin <= column && column < end)) ds[e] = 0.0f;
      }
      weights.ds[n][half] = pack_bf16(ds[0], ds[1]);
    }
  }
}

}  // namespace tril::kernels::cuda
