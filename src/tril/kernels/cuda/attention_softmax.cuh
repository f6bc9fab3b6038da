// The running softmax of the bf16 forward kernels: the state that a warp keeps for its 16 query
// rows, a block of keys by mma, spans, storing rows, and one row alone. For the sources of this
// folder.
#pragma once

#include "tril/kernels/cuda/attention_tiles.cuh"

namespace tril::kernels::cuda {

constexpr float kNothing = -__builtin_huge_valf();
constexpr int kBlocksPerSpan = static_cast<int>(kKeySpan / kKeyBlock);

struct ForwardLaunch {
  AttentionForward args;
  bool q_aligned = false, kv_aligned = false, out_aligned = false;
  bool after_long = false;  // tiles of long sequences are done by another kernel
};

// What a block of `threads` threads keeps of earlier spans: a thread's accumulators, and maximum
// and sum of two rows.
template <int kDim>
constexpr int64_t saved_floats(int threads) {
  return int64_t{kDim / 2 + 4} * threads;
}

// ---- the running softmax ------------------------------------------------------------------------
template <int kDim>
struct Sums {
  float acc[kDim / 8][4];
  float top[2];  // the largest score so far, times log2e
  float sum[2];  // of this lane's columns

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (auto& each : acc) each[0] = each[1] = each[2] = each[3] = 0.0f;
    top[0] = top[1] = kNothing;
    sum[0] = sum[1] = 0.0f;
  }
};

// The two rows of a thread in its slice, and what the slice sees in all.
struct SliceRows {
  Sight sight[2];
  int entry[2] = {0, 0};  // index into the bias
  int first = 0, last = 0;
};

// Where the queries of a slice come from.
template <int kDim>
struct KeptQueries {
  Fragment x[kDim / 16];
  __device__ __forceinline__ const Fragment& at(int k) const { return x[k]; }
};
template <class Tile>
struct ReadQueries {
  Tile tile;
  int row = 0;
  __device__ __forceinline__ Fragment at(int k) const { return tile.left(row, 16 * k); }
};

// With nothing seen so far, the exponent would be inf - inf.
__device__ __forceinline__ float base_of(float top) { return top == kNothing ? 0.0f : top; }

// One block of keys, from key `block` on; its groups of 16 in [begin, end) are seen by some row.
template <int kDim, bool kWhole, class Queries, class Tile>
__device__ __forceinline__ void attend_groups(Sums<kDim>& sums, const SliceRows& rows,
                                              const Scoring& scoring, const Queries& queries,
                                              const Tile& keys, const Tile& values, int block,
                                              int begin, int end) {
  const auto skipped = [&](int group) { return !kWhole && (group < begin || group >= end); };
  float s[2 * kChunks][4];
#pragma unroll
  for (auto& each : s) each[0] = each[1] = each[2] = each[3] = 0.0f;
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) {
    const Fragment q = queries.at(k);
#pragma unroll
    for (int group = 0; group < kChunks; ++group) {
      if (skipped(group)) continue;
      const Fragment b = keys.right(group * kSlice, 16 * k);
      mma(s[2 * group], q, b.x[0], b.x[1]);
      mma(s[2 * group + 1], q, b.x[2], b.x[3]);
    }
  }

  float largest[2] = {kNothing, kNothing};
#pragma unroll
  for (int n = 0; n < 2 * kChunks; ++n) {
    if (skipped(n / 2)) continue;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int key = block + 8 * n + 2 * (lane_id() & 3) + e % 2;
      const float score = scoring(s[n][e], rows.entry[e / 2] + key);
      s[n][e] = rows.sight[e / 2].sees(key) ? score : kNothing;
      largest[e / 2] = fmaxf(largest[e / 2], s[n][e]);
    }
  }
  float base[2], factor[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float& most = largest[half];
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 1));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 2));
    const float top = fmaxf(sums.top[half], __fmul_rn(most, kLog2e));
    base[half] = base_of(top);
    factor[half] = exp2_of(__fsub_rn(sums.top[half], base[half]));
    sums.top[half] = top;
  }

  uint32_t p[2 * kChunks][2];  // for every eight columns, rows g and g + 8
  float block_sum[2] = {0.0f, 0.0f};
#pragma unroll
  for (int n = 0; n < 2 * kChunks; ++n) {
    if (skipped(n / 2)) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float p0 = exp2_of(__fmaf_rn(s[n][2 * half], kLog2e, -base[half]));
      const float p1 = exp2_of(__fmaf_rn(s[n][2 * half + 1], kLog2e, -base[half]));
      p[n][half] = pack_bf16(p0, p1);
      block_sum[half] = __fadd_rn(block_sum[half], low_of(p[n][half]));
      block_sum[half] = __fadd_rn(block_sum[half], high_of(p[n][half]));
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    sums.sum[half] = __fadd_rn(__fmul_rn(sums.sum[half], factor[half]), block_sum[half]);
  }
#pragma unroll
  for (auto& each : sums.acc) {
#pragma unroll
    for (int e = 0; e < 4; ++e) each[e] = __fmul_rn(each[e], factor[e / 2]);
  }
#pragma unroll
  for (int group = 0; group < kChunks; ++group) {
    if (skipped(group)) continue;
    const Fragment a{{p[2 * group][0], p[2 * group][1], p[2 * group + 1][0], p[2 * group + 1][1]}};
#pragma unroll
    for (int n = 0; n < kDim / 16; ++n) {
      const Fragment b = values.right_transposed(group * kSlice, 16 * n);
      mma(sums.acc[2 * n], a, b.x[0], b.x[1]);
      mma(sums.acc[2 * n + 1], a, b.x[2], b.x[3]);
    }
  }
}

template <int kDim, class Queries, class Tile>
__device__ __forceinline__ void attend_block(Sums<kDim>& sums, const SliceRows& rows,
                                             const Scoring& scoring, const Queries& queries,
                                             const Tile& keys, const Tile& values, int block) {
  const int begin = max(rows.first - block, 0) / kSlice;
  const int end = min(rows.last - block + kSlice - 1, kBlock) / kSlice;
  if (begin >= end) return;  // every row stays as it was
  if (kDim <= 128 && begin == 0 && end == kChunks) {
    attend_groups<kDim, true>(sums, rows, scoring, queries, keys, values, block, begin, end);
  } else {
    attend_groups<kDim, false>(sums, rows, scoring, queries, keys, values, block, begin, end);
  }
}

// The sum over all columns, in every lane of the row.
__device__ __forceinline__ float whole_sum(float sum) {
  sum = __fadd_rn(sum, __shfl_xor_sync(kAllLanes, sum, 1));
  return __fadd_rn(sum, __shfl_xor_sync(kAllLanes, sum, 2));
}

// At the end of a span, merges in the result of earlier spans (`saved`, if there were any).
template <int kDim>
__device__ __forceinline__ void end_span(Sums<kDim>& sums, const float* saved) {
#pragma unroll
  for (int half = 0; half < 2; ++half) sums.sum[half] = whole_sum(sums.sum[half]);
  if (saved == nullptr) return;
  const auto at = [&](int i) {
    return saved[i * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)];
  };
  float before[2], now[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float earlier = at(kDim / 2 + half);
    const float top = fmaxf(earlier, sums.top[half]);
    before[half] = exp2_of(__fsub_rn(earlier, base_of(top)));
    now[half] = exp2_of(__fsub_rn(sums.top[half], base_of(top)));
    sums.top[half] = top;
    sums.sum[half] =
        __fmaf_rn(sums.sum[half], now[half], __fmul_rn(at(kDim / 2 + 2 + half), before[half]));
  }
#pragma unroll
  for (int i = 0; i < kDim / 8; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      sums.acc[i][e] =
          __fmaf_rn(sums.acc[i][e], now[e / 2], __fmul_rn(at(4 * i + e), before[e / 2]));
    }
  }
}
template <int kDim>
__device__ __forceinline__ void save(const Sums<kDim>& sums, float* saved) {
  const auto put = [&](int i, float value) {
    saved[i * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)] = value;
  };
#pragma unroll
  for (int i = 0; i < kDim / 8; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) put(4 * i + e, sums.acc[i][e]);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    put(kDim / 2 + half, sums.top[half]);
    put(kDim / 2 + 2 + half, sums.sum[half]);
  }
}

// Writes rows g and g + 8, where row[half] >= 0.
template <int kDim>
__device__ __forceinline__ void store_rows(const ForwardLaunch& launch, const Sums<kDim>& sums,
                                           const SliceRows& rows, int head,
                                           const int64_t (&row)[2]) {
  const AttentionForward& a = launch.args;
  float inverse[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    inverse[half] = rows.sight[half].empty() ? 0.0f : __fdiv_rn(1.0f, sums.sum[half]);
    if (a.stats != nullptr && row[half] >= 0 && (lane_id() & 3) == 0) {
      const float top = rows.sight[half].empty() ? 0.0f : sums.top[half];
      *reinterpret_cast<float2*>(a.stats + (row[half] * a.shape.heads + head) * 2) =
          make_float2(top, inverse[half]);
    }
  }
  store_slice<kDim>(head_out(a.out, a.out_stride, head, a.shape.head_dim, launch.out_aligned), row,
                    0, [&](int i, int half, int e) {
                      const float out =
                          __fadd_rn(__fmul_rn(sums.acc[i][2 * half + e], inverse[half]), 0.0f);
                      return rows.sight[half].empty() ? 0.0f : out;
                    });
}

// ---- one row ------------------------------------------------------------------------------------
__device__ __forceinline__ HeadRows key_rows(const ForwardLaunch& launch, const AttentionTile& tile,
                                             const void* base, int head) {
  const AttentionForward& a = launch.args;
  const int kv_head = head / static_cast<int>(a.shape.heads / a.shape.kv_heads);
  HeadRows rows = head_rows(base, a.kv_stride, kv_head, a.shape.head_dim, launch.kv_aligned);
  if (a.table != nullptr) rows.table = a.table + tile.row_begin * a.table_stride;
  return rows;
}

__device__ __forceinline__ int block_of(const AttentionTile& tile, int key) {
  return (key - tile.origin) / kBlock;
}

// One row of a tile alone, by one warp, with everything outside its interval zero.
template <int kDim>
__device__ __noinline__ void attend_row(const ForwardLaunch& launch, const AttentionTile& tile,
                                        int row, int head, float* saved) {
  const AttentionForward& a = launch.args;
  const Sight sight = sight_of(a.shape, tile.sequence_end, a.intervals[row], row, head, a.table);
  const bool mine = lane_id() < 4;
  SliceRows rows;
  if (mine) rows.sight[0] = sight;
  rows.entry[0] = rows.entry[1] = bias_entry(a.shape, row, tile.origin);
  rows.first = sight.lo;
  rows.last = sight.hi;
  const ReadQueries<DirectTile> queries{
      {head_rows(a.q, a.q_stride, head, a.shape.head_dim, launch.q_aligned), row, 0, 1}, 0};
  Sums<kDim> sums;
  sums.clear();
  const float* earlier = nullptr;
  const int last = block_of(tile, sight.hi - 1);
  for (int number = block_of(tile, sight.lo); number <= last; ++number) {
    const int block = tile.origin + number * kBlock;
    DirectTile keys{key_rows(launch, tile, a.k, head), block, sight.lo - block, sight.hi - block};
    DirectTile values = keys;
    values.rows = key_rows(launch, tile, a.v, head);
    attend_block(sums, rows, Scoring(a.shape, head), queries, keys, values, block);
    if (number == last) break;
    if ((number + 1) % kBlocksPerSpan == 0) {
      end_span(sums, earlier);
      save(sums, saved);
      earlier = saved;
      sums.clear();
    }
  }
  end_span(sums, earlier);
  const int64_t target[2] = {mine ? row : -1, -1};
  store_rows(launch, sums, rows, head, target);
}

// Computes rows of a tile whose result is not finite again, one by one: something that only other
// rows may see could have reached them. Rarely needed, so it is done after everything is written.
template <int kDim>
__device__ __forceinline__ void repair_tile(const ForwardLaunch& launch, const AttentionTile& tile,
                                            int head, float* saved) {
  const AttentionForward& a = launch.args;
  if (tile.key_begin >= tile.key_end) return;
  const HeadRows out = head_rows(a.out, a.out_stride, head, a.shape.head_dim, launch.out_aligned);
  for (int row = tile.row_begin + warp_id(); row < tile.row_end;
       row += static_cast<int>(blockDim.x) / 32) {
    bool finite = true;
    for (int c = lane_id(); c < a.shape.head_dim; c += 32) {
      finite = finite && (out.row(row)[c] & 0x7f80u) != 0x7f80u;
    }
    if (!__all_sync(kAllLanes, finite)) attend_row<kDim>(launch, tile, row, head, saved);
  }
}

}  // namespace tril::kernels::cuda
