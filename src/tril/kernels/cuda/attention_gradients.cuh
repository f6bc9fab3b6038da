// Shared by the bf16 kernels of the backward pass: what one tile of rows and one block of keys
// contribute to the gradients, by a warp, either to dk and dv of a slice of keys or to dq of a
// slice of rows; how gradients are stored; and one row or one key alone. For the sources of this
// folder.
#pragma once

#include "tril/kernels/cuda/attention_tiles.cuh"

namespace tril::kernels::cuda {

struct BackwardLaunch {
  AttentionBackward args;
  const RowFact* facts = nullptr;  // [heads, query]
  bool q_aligned = false, kv_aligned = false, dout_aligned = false;
  bool dq_aligned = false, dkv_aligned = false;
  bool after_long = false;  // long sequences are done by other kernels
};

// ---- one pair -----------------------------------------------------------------------------------
struct Pair {
  float p, ds;
};
// Probability and score gradient of a row and a key, from two products. `factor` is scale times
// log2e; the scale itself is applied when dq and dk are stored.
__device__ __forceinline__ Pair pair_of(float product, float dp, float factor, float base,
                                        float delta) {
  const float p = exp2_of(__fmaf_rn(product, factor, -base));
  return {p, __fmul_rn(p, __fsub_rn(dp, delta))};
}
__host__ __device__ __forceinline__ float factor_of(const AttentionShape& shape) {
  return shape.scale * kLog2e;
}

// The facts of the rows of a tile, in shared or in global memory.
struct TileFacts {
  AttentionTile tile;
  const RowFact* facts = nullptr;  // of the tile's first row
};
struct SeenFact {
  Sight sight;
  float base = 0.0f, delta = 0.0f;
  int entry = 0;  // index into the bias
};
__device__ __forceinline__ Sight sight_at(const AttentionShape& shape, const TileFacts& rows,
                                          int local, int head) {
  const int row = rows.tile.row_begin + local;
  if (row >= rows.tile.row_end) return {};
  const Interval interval{rows.tile.origin, rows.facts[local].lo, rows.facts[local].hi};
  return sight_of(shape, rows.tile.sequence_end, interval, row, head, nullptr);
}
__device__ __forceinline__ SeenFact fact_at(const AttentionShape& shape, const TileFacts& rows,
                                            int local, int head) {
  SeenFact fact;
  fact.sight = sight_at(shape, rows, local, head);
  if (fact.sight.empty()) return fact;
  fact.base = rows.facts[local].base;
  fact.delta = rows.facts[local].delta;
  fact.entry = bias_entry(shape, rows.tile.row_begin + local, rows.tile.origin);
  return fact;
}

// Pairs of a head; both parts are zero if the row does not see the key.
struct Pairing {
  float factor = 1.0f;
  const float* bias = nullptr;  // of the head
  int offsets = 0;

  __device__ __forceinline__ Pairing(const AttentionShape& shape, int head)
      : factor(factor_of(shape)),
        bias(shape.bias == nullptr ? nullptr : shape.bias + head * shape.bias_offsets),
        offsets(static_cast<int>(shape.bias_offsets)) {}
  __device__ __forceinline__ Pair operator()(const SeenFact& fact, int key, float product,
                                             float dp) const {
    float base = fact.base;
    if (bias != nullptr) {  // outside the table: only keys that are masked afterwards
      base = __fmaf_rn(-bias[max(0, min(fact.entry + key, offsets - 1))], kLog2e, base);
    }
    const Pair pair = pair_of(product, dp, factor, base, fact.delta);
    const bool sees = fact.sight.sees(key);
    return {sees ? pair.p : 0.0f, sees ? pair.ds : 0.0f};
  }
};

template <int kCount>
__device__ __forceinline__ void clear(float (&sums)[kCount][4]) {
#pragma unroll
  for (auto& each : sums) each[0] = each[1] = each[2] = each[3] = 0.0f;
}

// ---- by mma -------------------------------------------------------------------------------------
// Adds the contribution of a tile's rows to the 16 keys from `key` on, which begin at row `slice`
// of the tiles of keys and values: columns [column, column + kOut) of dk and dv.
template <int kDim, int kOut, class Tile>
__device__ __forceinline__ void add_key_gradients(
    float (&dk)[kOut / 8][4], float (&dv)[kOut / 8][4], const AttentionShape& shape,
    const TileFacts& facts, int head, int key, int slice, int column, const Tile& keys,
    const Tile& values, const Tile& queries, const Tile& douts) {
  const int g = lane_id() >> 2, t = lane_id() & 3;
  const Pairing pairing(shape, head);
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
      const SeenFact fact[2] = {fact_at(shape, facts, begin + 8 * n + 2 * t, head),
                                fact_at(shape, facts, begin + 8 * n + 2 * t + 1, head)};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = key + g + 8 * half;
        const Pair x = pairing(fact[0], at, s[n][2 * half], dp[n][2 * half]);
        const Pair y = pairing(fact[1], at, s[n][2 * half + 1], dp[n][2 * half + 1]);
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
  SeenFact fact[2];
  int first = 0, last = 0;
};
__device__ __forceinline__ SliceFacts slice_facts(const AttentionShape& shape,
                                                  const TileFacts& facts, int slice, int head) {
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

// Adds the contribution of the keys of the block from `block` on to the rows of a slice, which
// begin at row `slice` of the tiles of queries and douts.
template <int kDim, class Tile>
__device__ __forceinline__ void add_query_gradients(float (&dq)[kDim / 8][4],
                                                    const Pairing& pairing, const SliceFacts& rows,
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
        const SeenFact& fact = rows.fact[half];
        const Pair x = pairing(fact, key, s[n][2 * half], dp[n][2 * half]);
        const Pair y = pairing(fact, key + 1, s[n][2 * half + 1], dp[n][2 * half + 1]);
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

// ---- rows and keys of a head --------------------------------------------------------------------
__device__ __forceinline__ int group_of(const AttentionShape& shape) {
  return static_cast<int>(shape.heads / shape.kv_heads);
}
__device__ __forceinline__ HeadRows queries_of(const BackwardLaunch& launch, int head) {
  return head_rows(launch.args.q, launch.args.q_stride, head, launch.args.shape.head_dim,
                   launch.q_aligned);
}
__device__ __forceinline__ HeadRows douts_of(const BackwardLaunch& launch, int head) {
  return head_rows(launch.args.dout, launch.args.dout_stride, head, launch.args.shape.head_dim,
                   launch.dout_aligned);
}
__device__ __forceinline__ HeadRows keys_of(const BackwardLaunch& launch, int kv_head) {
  return head_rows(launch.args.k, launch.args.kv_stride, kv_head, launch.args.shape.head_dim,
                   launch.kv_aligned);
}
__device__ __forceinline__ HeadRows values_of(const BackwardLaunch& launch, int kv_head) {
  return head_rows(launch.args.v, launch.args.kv_stride, kv_head, launch.args.shape.head_dim,
                   launch.kv_aligned);
}
__device__ __forceinline__ const RowFact* facts_of(const BackwardLaunch& launch, int row,
                                                   int head) {
  return launch.facts + head * launch.args.shape.query + row;
}

// Where gradients are stored, and the factor they are multiplied by.
struct GradientOut {
  HeadOut to;
  float factor = 1.0f;
};
__device__ __forceinline__ GradientOut dq_of(const BackwardLaunch& launch, int head) {
  const AttentionBackward& a = launch.args;
  return {head_out(a.dq, a.dq_stride, head, a.shape.head_dim, launch.dq_aligned), a.shape.scale};
}
__device__ __forceinline__ GradientOut dk_of(const BackwardLaunch& launch, int kv_head) {
  const AttentionBackward& a = launch.args;
  return {head_out(a.dk, a.dkv_stride, kv_head, a.shape.head_dim, launch.dkv_aligned),
          a.shape.scale};
}
__device__ __forceinline__ GradientOut dv_of(const BackwardLaunch& launch, int kv_head) {
  const AttentionBackward& a = launch.args;
  return {head_out(a.dv, a.dkv_stride, kv_head, a.shape.head_dim, launch.dkv_aligned), 1.0f};
}
// Columns from `column` on of the rows (or keys) of this warp's slice, which begins at `begin`.
template <int kCount>
__device__ __forceinline__ void store_sums(const GradientOut& out, const float (&sums)[kCount][4],
                                           int64_t begin, int64_t end, int column) {
  const int64_t at = begin + lane_id() / 4;
  const int64_t rows[2] = {at < end ? at : -1, at + 8 < end ? at + 8 : -1};
  store_slice<kCount * 8>(out.to, rows, column, [&](int i, int half, int e) {
    return __fadd_rn(__fmul_rn(sums[i][2 * half + e], out.factor), 0.0f);
  });
}
// Whether columns [begin, end) of a row that was written contain an infinity or NaN: all columns,
// or those of a part if another block writes the others.
__device__ __forceinline__ bool is_poisoned(const GradientOut& out, int64_t row, int begin = 0,
                                            int end = static_cast<int>(kMaxHeadDim)) {
  bool finite = true;
  for (int c = begin + lane_id(); c < min(end, static_cast<int>(out.to.head_dim)); c += 32) {
    finite = finite && (out.to.base[row * out.to.stride + c] & 0x7f80u) != 0x7f80u;
  }
  return !__all_sync(kAllLanes, finite);
}

// ---- one row, or one key ------------------------------------------------------------------------
// dq of one row of a tile alone, by one warp, with everything outside its interval zero.
template <int kDim>
__device__ __noinline__ void row_alone(const BackwardLaunch& launch, const AttentionTile& tile,
                                       int row, int head) {
  const AttentionBackward& a = launch.args;
  AttentionTile one = tile;
  one.row_begin = row;
  one.row_end = row + 1;
  const SliceFacts facts = slice_facts(a.shape, {one, facts_of(launch, row, head)}, 0, head);
  const int kv_head = head / group_of(a.shape);
  const DirectTile queries{queries_of(launch, head), row, 0, 1};
  const DirectTile douts{douts_of(launch, head), row, 0, 1};
  float dq[kDim / 8][4];
  clear(dq);
  for (int block = tile.origin + (facts.first - tile.origin) / kBlock * kBlock; block < facts.last;
       block += kBlock) {
    const int begin = facts.first - block, end = facts.last - block;
    add_query_gradients<kDim>(dq, Pairing(a.shape, head), facts, block, 0,
                              DirectTile{keys_of(launch, kv_head), block, begin, end},
                              DirectTile{values_of(launch, kv_head), block, begin, end}, queries,
                              douts);
  }
  store_sums(dq_of(launch, head), dq, row, row + 1, 0);
}

// Columns [column, column + kOut) of dk and dv of one key alone, which only rows of the tiles
// [tile_begin, tile_end) see; rows that do not see it are zero.
template <int kDim, int kOut>
__device__ __noinline__ void key_alone(const BackwardLaunch& launch, int tile_begin, int tile_end,
                                       int key, int kv_head, int column) {
  const AttentionBackward& a = launch.args;
  const int group = group_of(a.shape);
  const DirectTile keys{keys_of(launch, kv_head), key, 0, 1};
  const DirectTile values{values_of(launch, kv_head), key, 0, 1};
  float dk[kOut / 8][4], dv[kOut / 8][4];
  clear(dk);
  clear(dv);
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (int number = tile_begin; number < tile_end; ++number) {
      const AttentionTile rows = a.key_tiles.rows[number];
      const TileFacts facts{rows, facts_of(launch, rows.row_begin, head)};
      int first = kBlock, last = 0;  // the rows that see it, which are consecutive
      for (int local = lane_id(); local < rows.row_end - rows.row_begin; local += 32) {
        if (!sight_at(a.shape, facts, local, head).sees(key)) continue;
        first = min(first, local);
        last = max(last, local + 1);
      }
      first = __reduce_min_sync(kAllLanes, first);
      last = __reduce_max_sync(kAllLanes, last);
      if (first >= last) continue;
      add_key_gradients<kDim, kOut>(
          dk, dv, a.shape, facts, head, key, 0, column, keys, values,
          DirectTile{queries_of(launch, head), rows.row_begin, first, last},
          DirectTile{douts_of(launch, head), rows.row_begin, first, last});
    }
  }
  store_sums(dk_of(launch, kv_head), dk, key, key + 1, column);
  store_sums(dv_of(launch, kv_head), dv, key, key + 1, column);
}

}  // namespace tril::kernels::cuda
