// What one tile of rows and one block of keys add to the gradients, by a warp: dk and dv of a slice
// of keys, or dq of a slice of rows. For attention_backward.cu.
#pragma once

#include "tril/kernels/cuda/attention_tiles.cuh"

namespace tril::kernels::cuda {

// What was found out about the rows of a tile, in shared or in global memory.
struct RowFacts {
  AttentionTile tile;
  const Interval* intervals = nullptr;  // of the tile's first row
  const float* stats = nullptr;         // of the first row and the head
  int64_t stats_stride = 0;
  const float* delta = nullptr;
  int64_t delta_stride = 0;
};

struct RowFact {
  Sight sight;
  float top = 0.0f, inverse = 0.0f, delta = 0.0f;
  int entry = 0;  // in the bias
};

__device__ __forceinline__ Sight sight_at(const AttentionShape& shape, const RowFacts& facts,
                                          int local, int head) {
  const int row = facts.tile.row_begin + local;
  if (row >= facts.tile.row_end) return {};
  return sight_of(shape, facts.tile.sequence_end, facts.intervals[local], row, head, nullptr);
}
__device__ __forceinline__ RowFact fact_at(const AttentionShape& shape, const RowFacts& facts,
                                           int local, int head) {
  RowFact fact;
  fact.sight = sight_at(shape, facts, local, head);
  if (fact.sight.empty()) return fact;
  fact.top = facts.stats[local * facts.stats_stride];
  fact.inverse = facts.stats[local * facts.stats_stride + 1];
  fact.delta = facts.delta[local * facts.delta_stride];
  fact.entry = bias_entry(shape, facts.tile.row_begin + local, facts.tile.origin);
  return fact;
}

// Probability and gradient of the score of one pair; both zero where the row does not see the key.
struct Pair {
  float p, ds;
};
__device__ __forceinline__ Pair gradient_of(const Scoring& scoring, const RowFact& fact, int key,
                                            float product, float dp) {
  const float score = scoring(product, fact.entry + key);
  const float p = __fmul_rn(exp2_of(__fmaf_rn(score, kLog2e, -fact.top)), fact.inverse);
  const float ds = __fmul_rn(__fmul_rn(p, __fsub_rn(dp, fact.delta)), scoring.scale);
  const bool sees = fact.sight.sees(key);
  return {sees ? p : 0.0f, sees ? ds : 0.0f};
}

template <int kCount>
__device__ __forceinline__ void clear(float (&sums)[kCount][4]) {
#pragma unroll
  for (auto& each : sums) each[0] = each[1] = each[2] = each[3] = 0.0f;
}

// Adds what the rows of a tile give the 16 keys from `key` on, which lie from row `slice` of the
// tiles of keys and values: columns [column, column + kOut) of dk and dv.
template <int kDim, int kOut, class Tile>
__device__ __forceinline__ void add_key_gradients(
    float (&dk)[kOut / 8][4], float (&dv)[kOut / 8][4], const AttentionShape& shape,
    const RowFacts& facts, int head, int key, int slice, int column, const Tile& keys,
    const Tile& values, const Tile& queries, const Tile& douts) {
  const int g = lane_id() >> 2, t = lane_id() & 3;
  const Scoring scoring(shape, head);
  const int rows = facts.tile.row_end - facts.tile.row_begin;
#pragma unroll 1
  for (int begin = 0; begin < rows; begin += kSlice) {
    const Sight sight = sight_at(shape, facts, begin + (lane_id() & 15), head);
    const bool touches = !sight.empty() && sight.lo < key + kSlice && sight.hi > key;
    if (!__any_sync(kAllLanes, touches)) continue;
    float s[2][4], dp[2][4];
    clear(s);
    clear(dp);
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
      const Fragment a = keys.left(slice, 16 * k);
      const Fragment b = queries.right(begin, 16 * k);
      mma(s[0], a, b.x[0], b.x[1]);
      mma(s[1], a, b.x[2], b.x[3]);
      const Fragment c = values.left(slice, 16 * k);
      const Fragment d = douts.right(begin, 16 * k);
      mma(dp[0], c, d.x[0], d.x[1]);
      mma(dp[1], c, d.x[2], d.x[3]);
    }
    Fragment p, ds;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const RowFact fact[2] = {fact_at(shape, facts, begin + 8 * n + 2 * t, head),
                               fact_at(shape, facts, begin + 8 * n + 2 * t + 1, head)};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = key + g + 8 * half;
        const Pair x = gradient_of(scoring, fact[0], at, s[n][2 * half], dp[n][2 * half]);
        const Pair y = gradient_of(scoring, fact[1], at, s[n][2 * half + 1], dp[n][2 * half + 1]);
        p.x[2 * n + half] = pack_bf16(x.p, y.p);
        ds.x[2 * n + half] = pack_bf16(x.ds, y.ds);
      }
    }
#pragma unroll
    for (int n = 0; n < kOut / 16; ++n) {
      const Fragment b = douts.right_transposed(begin, column + 16 * n);
      mma(dv[2 * n], p, b.x[0], b.x[1]);
      mma(dv[2 * n + 1], p, b.x[2], b.x[3]);
      const Fragment c = queries.right_transposed(begin, column + 16 * n);
      mma(dk[2 * n], ds, c.x[0], c.x[1]);
      mma(dk[2 * n + 1], ds, c.x[2], c.x[3]);
    }
  }
}

// The two rows of a thread in a slice of rows, and what the slice sees in all.
struct SliceFacts {
  RowFact fact[2];
  int first = 0, last = 0;
};
__device__ __forceinline__ SliceFacts slice_facts(const AttentionShape& shape,
                                                  const RowFacts& facts, int slice, int head) {
  SliceFacts rows;
  int first = 0x7fffffff, last = 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    rows.fact[half] = fact_at(shape, facts, slice + 8 * half + lane_id() / 4, head);
    if (rows.fact[half].sight.empty()) continue;
    first = min(first, rows.fact[half].sight.lo);
    last = max(last, rows.fact[half].sight.hi);
  }
  rows.first = __reduce_min_sync(kAllLanes, first);
  rows.last = __reduce_max_sync(kAllLanes, last);
  return rows;
}

// Adds what the keys of the block from `block` on give the rows of a slice, which lie from row
// `slice` of the tiles of queries and douts.
template <int kDim, class Tile>
__device__ __forceinline__ void add_query_gradients(float (&dq)[kDim / 8][4],
                                                    const Scoring& scoring, const SliceFacts& rows,
                                                    int block, int slice, const Tile& keys,
                                                    const Tile& values, const Tile& queries,
                                                    const Tile& douts) {
  const int begin = max(rows.first - block, 0) / kSlice;
  const int end = min(rows.last - block + kSlice - 1, kBlock) / kSlice;
#pragma unroll 1
  for (int group = begin; group < end; ++group) {
    float s[2][4], dp[2][4];
    clear(s);
    clear(dp);
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
      const Fragment a = queries.left(slice, 16 * k);
      const Fragment b = keys.right(group * kSlice, 16 * k);
      mma(s[0], a, b.x[0], b.x[1]);
      mma(s[1], a, b.x[2], b.x[3]);
      const Fragment c = douts.left(slice, 16 * k);
      const Fragment d = values.right(group * kSlice, 16 * k);
      mma(dp[0], c, d.x[0], d.x[1]);
      mma(dp[1], c, d.x[2], d.x[3]);
    }
    Fragment ds;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int key = block + group * kSlice + 8 * n + 2 * (lane_id() & 3);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Pair x = gradient_of(scoring, rows.fact[half], key, s[n][2 * half], dp[n][2 * half]);
        const Pair y =
            gradient_of(scoring, rows.fact[half], key + 1, s[n][2 * half + 1], dp[n][2 * half + 1]);
        ds.x[2 * n + half] = pack_bf16(x.ds, y.ds);
      }
    }
#pragma unroll
    for (int n = 0; n < kDim / 16; ++n) {
      const Fragment b = keys.right_transposed(group * kSlice, 16 * n);
      mma(dq[2 * n], ds, b.x[0], b.x[1]);
      mma(dq[2 * n + 1], ds, b.x[2], b.x[3]);
    }
  }
}

}  // namespace tril::kernels::cuda
