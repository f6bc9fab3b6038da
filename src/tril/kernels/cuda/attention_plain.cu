// Attention in f32, a mode for checking: one warp per row and head, or per key and key head, with
// plain chains of fused multiply-adds. And the small kernels that both types share: dout · out with
// the other facts about rows, and writing into a cache.
//
// A key outside a row's interval is never multiplied into that row, so nothing has to be repaired.
#include <algorithm>

#include "tril/kernels/cuda/attention_tiles.cuh"
#include "tril/kernels/cuda/launch.cuh"

namespace tril::kernels::cuda {
namespace {

constexpr float kNothing = -__builtin_huge_valf();
constexpr int kWarps = kThreads / 32;
constexpr int kColumns = static_cast<int>(kMaxHeadDim) / 32;  // of a lane, at most

__device__ __forceinline__ float sum_of_lanes(float x) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    x = __fadd_rn(x, __shfl_xor_sync(kAllLanes, x, apart));
  }
  return x;
}
__device__ __forceinline__ float largest_of_lanes(float x) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, apart));
  }
  return x;
}
__device__ __forceinline__ float dot(const float* a, const float* b, int64_t size) {
  float sum = 0.0f;
  for (int64_t i = 0; i < size; ++i) sum = __fmaf_rn(a[i], b[i], sum);
  return sum;
}
__device__ __forceinline__ float base_of(float top) { return top == kNothing ? 0.0f : top; }

// The sum of one span: columns of the head by lane, maximum and sum in all lanes.
struct RowSums {
  float acc[kColumns];
  float top, sum;
  __device__ __forceinline__ void clear() {
    for (float& each : acc) each = 0.0f;
    top = kNothing;
    sum = 0.0f;
  }
};

// One row of one head against the keys it sees. key(j) and value(j) return their addresses.
template <class Key, class Value>
__device__ RowSums attend_row(const AttentionShape& shape, int head, int row, int origin,
                              const Sight& sight, const float* q, const Key& key,
                              const Value& value) {
  const Scoring scoring(shape, head);
  const int entry = bias_entry(shape, row, origin);
  const int lane = lane_id();
  RowSums total, span;
  total.clear();
  span.clear();
  const auto merge = [&] {  // for a span whose sum is spread over lanes
    span.sum = sum_of_lanes(span.sum);
    const float top = fmaxf(total.top, span.top);
    const float before = exp2_of(__fsub_rn(total.top, base_of(top)));
    const float now = exp2_of(__fsub_rn(span.top, base_of(top)));
    for (int c = 0; c < kColumns; ++c) {
      total.acc[c] = __fmaf_rn(span.acc[c], now, __fmul_rn(total.acc[c], before));
    }
    total.sum = __fmaf_rn(span.sum, now, __fmul_rn(total.sum, before));
    total.top = top;
    span.clear();
  };
  const int first = (sight.lo - origin) / kBlock, last = (sight.hi - 1 - origin) / kBlock;
  constexpr int kBlocksPerSpan = static_cast<int>(kKeySpan / kKeyBlock);
  for (int number = first; number <= last; ++number) {
    // Test hook: the blocks of a span in reverse order.
    const int span_begin = number / kBlocksPerSpan * kBlocksPerSpan;
    const int turned = max(first, span_begin) + min(last, span_begin + kBlocksPerSpan - 1) - number;
    const int block = origin + (shape.descending_blocks ? turned : number) * kBlock;
    float s[2];
    for (int half = 0; half < 2; ++half) {
      const int j = block + lane + 32 * half;
      s[half] = sight.sees(j) ? scoring(dot(q, key(j), shape.head_dim), entry + j) : kNothing;
    }
    const float largest = largest_of_lanes(fmaxf(s[0], s[1]));
    const float top = fmaxf(span.top, __fmul_rn(largest, kLog2e));
    const float base = base_of(top);
    const float factor = exp2_of(__fsub_rn(span.top, base));
    span.top = top;
    float p[2];
    for (int half = 0; half < 2; ++half) p[half] = exp2_of(__fmaf_rn(s[half], kLog2e, -base));
    span.sum = __fadd_rn(__fmul_rn(span.sum, factor), __fadd_rn(p[0], p[1]));
    for (float& each : span.acc) each = __fmul_rn(each, factor);
    for (int j = max(sight.lo, block); j < min(sight.hi, block + kBlock); ++j) {
      const float weight = __shfl_sync(kAllLanes, j - block < 32 ? p[0] : p[1], (j - block) % 32);
      for (int c = 0; lane + 32 * c < shape.head_dim; ++c) {
        span.acc[c] = __fmaf_rn(weight, value(j)[lane + 32 * c], span.acc[c]);
      }
    }
    if ((number + 1) % kBlocksPerSpan == 0) merge();
  }
  merge();
  return total;
}

__global__ void __launch_bounds__(kThreads)
    forward_f32_kernel(const __grid_constant__ AttentionForward a) {
  const int heads = static_cast<int>(a.shape.heads);
  const int64_t tiles = tile_count(a.tiles, a.shape);
  const int64_t columns = a.shape.head_dim;
  for (int64_t item = blockIdx.x; item < tiles * heads; item += gridDim.x) {
    const int head = static_cast<int>(item % heads);
    const AttentionTile tile = tile_at(a.tiles, a.intervals, static_cast<int>(item / heads));
    const int64_t kv_column = head / (heads / a.shape.kv_heads) * columns;
    const auto entry = [&](int64_t j) -> int64_t {
      return (a.table == nullptr ? j : a.table[tile.row_begin * a.table_stride + j]) * a.kv_stride;
    };
    const auto key = [&](int j) { return static_cast<const float*>(a.k) + entry(j) + kv_column; };
    const auto value = [&](int j) { return static_cast<const float*>(a.v) + entry(j) + kv_column; };
    for (int row = tile.row_begin + warp_id(); row < tile.row_end; row += kWarps) {
      const Sight sight =
          sight_of(a.shape, tile.sequence_end, a.intervals[row], row, head, a.table);
      float* out = static_cast<float*>(a.out) + row * a.out_stride + head * columns;
      float* stats = a.stats == nullptr ? nullptr : a.stats + (row * a.shape.heads + head) * 2;
      RowSums sums;
      float inverse = 0.0f;
      if (sight.empty()) {
        sums.clear();
        sums.top = 0.0f;
      } else {
        const float* q = static_cast<const float*>(a.q) + row * a.q_stride + head * columns;
        sums = attend_row(a.shape, head, row, tile.origin, sight, q, key, value);
        inverse = __fdiv_rn(1.0f, sums.sum);
      }
      for (int c = 0; lane_id() + 32 * c < columns; ++c) {
        out[lane_id() + 32 * c] = __fadd_rn(__fmul_rn(sums.acc[c], inverse), 0.0f);
      }
      if (stats != nullptr && lane_id() == 0) {
        stats[0] = sums.top;
        stats[1] = inverse;
      }
    }
  }
}

struct BackwardF32 {
  AttentionBackward args;
  const float* delta = nullptr;

  __device__ __forceinline__ const float* query(int64_t row, int head) const {
    return static_cast<const float*>(args.q) + row * args.q_stride + head * args.shape.head_dim;
  }
  __device__ __forceinline__ const float* dout(int64_t row, int head) const {
    return static_cast<const float*>(args.dout) + row * args.dout_stride +
           head * args.shape.head_dim;
  }
  __device__ __forceinline__ int64_t at_key(int64_t key, int kv_head) const {
    return key * args.kv_stride + kv_head * args.shape.head_dim;
  }
  __device__ __forceinline__ const float* key(int64_t j, int kv_head) const {
    return static_cast<const float*>(args.k) + at_key(j, kv_head);
  }
  __device__ __forceinline__ const float* value(int64_t j, int kv_head) const {
    return static_cast<const float*>(args.v) + at_key(j, kv_head);
  }
  __device__ __forceinline__ Sight sight(const AttentionTile& tile, int row, int head) const {
    return sight_of(args.shape, tile.sequence_end, args.intervals[row], row, head, nullptr);
  }
};

struct PairF32 {
  float p = 0.0f, ds = 0.0f;
};
// For a row and a key that it sees.
__device__ PairF32 gradient_of(const BackwardF32& b, const AttentionTile& tile, int row, int head,
                               int key) {
  const AttentionShape& shape = b.args.shape;
  const Scoring scoring(shape, head);
  const int kv_head = head / static_cast<int>(shape.heads / shape.kv_heads);
  const float product = dot(b.query(row, head), b.key(key, kv_head), shape.head_dim);
  const float score = scoring(product, bias_entry(shape, row, tile.origin) + key);
  const float dp = dot(b.dout(row, head), b.value(key, kv_head), shape.head_dim);
  const int64_t at = row * shape.heads + head;
  const float p =
      __fmul_rn(exp2_of(__fmaf_rn(score, kLog2e, -b.args.stats[2 * at])), b.args.stats[2 * at + 1]);
  return {p, __fmul_rn(__fmul_rn(p, __fsub_rn(dp, b.delta[at])), scoring.scale)};
}

__global__ void __launch_bounds__(kThreads)
    queries_f32_kernel(const __grid_constant__ BackwardF32 b) {
  const AttentionShape& shape = b.args.shape;
  const int heads = static_cast<int>(shape.heads);
  const int64_t items = int64_t{*b.args.tiles.count} * heads;
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const int head = static_cast<int>(item % heads);
    const int kv_head = head / static_cast<int>(shape.heads / shape.kv_heads);
    const AttentionTile tile = b.args.tiles.tiles[item / heads];
    for (int row = tile.row_begin + warp_id(); row < tile.row_end; row += kWarps) {
      const Sight sight = b.sight(tile, row, head);
      float sums[kColumns] = {};
      for (int begin = sight.lo; begin < sight.hi; begin += 32) {
        const int mine = begin + lane_id();
        const float ds = mine < sight.hi ? gradient_of(b, tile, row, head, mine).ds : 0.0f;
        for (int j = begin; j < min(begin + 32, sight.hi); ++j) {
          const float weight = __shfl_sync(kAllLanes, ds, j - begin);
          for (int c = 0; lane_id() + 32 * c < shape.head_dim; ++c) {
            sums[c] = __fmaf_rn(weight, b.key(j, kv_head)[lane_id() + 32 * c], sums[c]);
          }
        }
      }
      float* dq = static_cast<float*>(b.args.dq) + row * b.args.dq_stride + head * shape.head_dim;
      for (int c = 0; lane_id() + 32 * c < shape.head_dim; ++c) {
        dq[lane_id() + 32 * c] = sums[c];
      }
    }
  }
}

// dk and dv of one key: over the heads of the group and the rows that see it.
__device__ void key_gradients(const BackwardF32& b, const AttentionKeyTile& tile, int key,
                              int kv_head) {
  const AttentionShape& shape = b.args.shape;
  const int group = static_cast<int>(shape.heads / shape.kv_heads);
  float dk[kColumns] = {}, dv[kColumns] = {};
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (int number = tile.tile_begin; number < tile.tile_end; ++number) {
      const AttentionTile rows = b.args.key_tiles.rows[number];
      for (int begin = rows.row_begin; begin < rows.row_end; begin += 32) {
        const int mine = begin + lane_id();
        const bool sees = mine < rows.row_end && b.sight(rows, mine, head).sees(key);
        PairF32 pair;
        if (sees) pair = gradient_of(b, rows, mine, head, key);
        const unsigned seeing = __ballot_sync(kAllLanes, sees);
        for (int i = 0; i < 32; ++i) {
          if ((seeing >> i & 1u) == 0) continue;
          const float p = __shfl_sync(kAllLanes, pair.p, i);
          const float ds = __shfl_sync(kAllLanes, pair.ds, i);
          for (int c = 0; lane_id() + 32 * c < shape.head_dim; ++c) {
            const int column = lane_id() + 32 * c;
            dk[c] = __fmaf_rn(ds, b.query(begin + i, head)[column], dk[c]);
            dv[c] = __fmaf_rn(p, b.dout(begin + i, head)[column], dv[c]);
          }
        }
      }
    }
  }
  const int64_t at = key * b.args.dkv_stride + kv_head * shape.head_dim;
  for (int c = 0; lane_id() + 32 * c < shape.head_dim; ++c) {
    static_cast<float*>(b.args.dk)[at + lane_id() + 32 * c] = dk[c];
    static_cast<float*>(b.args.dv)[at + lane_id() + 32 * c] = dv[c];
  }
}

__global__ void __launch_bounds__(kThreads) keys_f32_kernel(const __grid_constant__ BackwardF32 b) {
  const AttentionKeyTiles& tiles = b.args.key_tiles;
  const int kv_heads = static_cast<int>(b.args.shape.kv_heads);
  const int keys = static_cast<int>(b.args.shape.key);
  const int covered = *tiles.covered;
  const int64_t count = *tiles.count + (max(keys - covered, 0) + kBlock - 1) / kBlock;
  for (int64_t item = blockIdx.x; item < count * kv_heads; item += gridDim.x) {
    const int number = static_cast<int>(item / kv_heads), beyond = number - *tiles.count;
    AttentionKeyTile tile;
    if (beyond < 0) {
      tile = tiles.tiles[number];
    } else {
      tile.key_begin = covered + beyond * kBlock;
      tile.key_end = min(tile.key_begin + kBlock, keys);
    }
    for (int key = tile.key_begin + warp_id(); key < tile.key_end; key += kWarps) {
      key_gradients(b, tile, key, static_cast<int>(item % kv_heads));
    }
  }
}

// ---- dout · out ---------------------------------------------------------------------------------
// Eight lanes per row and head; each takes every eighth chunk of eight columns.
struct Delta {
  const void *out = nullptr, *dout = nullptr;
  int64_t out_stride = 0, dout_stride = 0;
  int64_t query = 0, heads = 0, head_dim = 0;
  bool aligned = false;
  const float* stats = nullptr;  // with `facts`
  const Interval* intervals = nullptr;
  float* delta = nullptr;    // f32: [query, heads]
  RowFact* facts = nullptr;  // bf16: [heads, query]

  __device__ __forceinline__ void put(int64_t row, int64_t head, float sum) const {
    const int64_t item = row * heads + head;
    if (facts == nullptr) {
      delta[item] = sum;
      return;
    }
    const float base = __fsub_rn(stats[2 * item], log2_of(stats[2 * item + 1]));
    facts[head * query + row] = {base, sum, intervals[row].lo, intervals[row].hi};
  }
};

__device__ __forceinline__ float value_of(float x) { return x; }
__device__ __forceinline__ float value_of(uint16_t bits) {
  return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}

template <class T>
__global__ void __launch_bounds__(kThreads) delta_kernel(const __grid_constant__ Delta d) {
  constexpr int kLanes = 8;
  const int lane = lane_id() % kLanes;
  const int64_t begin = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / kLanes;
  const int64_t step = int64_t{gridDim.x} * kThreads / kLanes;
  const int64_t rounds = (d.query * d.heads + step - 1) / step;
  // Divided once, because a division takes longer than the sums.
  const int64_t step_rows = step / d.heads, step_heads = step % d.heads;
  int64_t row = begin / d.heads, head = begin % d.heads;
  for (int64_t round = 0; round < rounds; ++round) {
    const bool there = row < d.query;
    float sum = 0.0f;
    if (there) {
      const int64_t column = head * d.head_dim;
      const T* out = static_cast<const T*>(d.out) + row * d.out_stride + column;
      const T* dout = static_cast<const T*>(d.dout) + row * d.dout_stride + column;
      for (int64_t c = lane * 8; c < d.head_dim; c += kLanes * 8) {
        if (d.aligned) {
          constexpr int kWords = sizeof(T) * 8 / 16;
          alignas(16) T a[8], b[8];
          for (int w = 0; w < kWords; ++w) {
            reinterpret_cast<uint4*>(a)[w] = reinterpret_cast<const uint4*>(out + c)[w];
            reinterpret_cast<uint4*>(b)[w] = reinterpret_cast<const uint4*>(dout + c)[w];
          }
#pragma unroll
          for (int i = 0; i < 8; ++i) sum = __fmaf_rn(value_of(a[i]), value_of(b[i]), sum);
        } else {
          for (int64_t i = c; i < c + 8 && i < d.head_dim; ++i) {
            sum = __fmaf_rn(value_of(out[i]), value_of(dout[i]), sum);
          }
        }
      }
    }
#pragma unroll
    for (int apart = kLanes / 2; apart > 0; apart /= 2) {
      sum = __fadd_rn(sum, __shfl_xor_sync(kAllLanes, sum, apart));
    }
    if (there && lane == 0) d.put(row, head, sum);
    row += step_rows;
    head += step_heads;
    if (head >= d.heads) {
      head -= d.heads;
      ++row;
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) store_kernel(const __grid_constant__ StoreKeyValues s) {
  let_next_begin();
  wait_for_earlier();
  const int64_t all = s.rows * s.width;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < all;
       i += int64_t{gridDim.x} * kThreads) {
    const int64_t row = i / s.width, column = i % s.width;
    const int64_t entry = s.entries[row];
    if (entry < 0) continue;
    const int64_t to = entry * s.to_stride + column, from = row * s.stride + column;
    static_cast<T*>(s.to_k)[to] = static_cast<const T*>(s.k)[from];
    static_cast<T*>(s.to_v)[to] = static_cast<const T*>(s.v)[from];
  }
}

constexpr int64_t kMostBlocks = 4096;
int64_t blocks_for(int64_t items, int64_t each) {
  return std::clamp<int64_t>((items + each - 1) / each, 1, kMostBlocks);
}

}  // namespace

void attention_forward_f32(Stream stream, const AttentionForward& args) {
  const int64_t tiles = args.tiles.tiles != nullptr ? args.tiles.capacity : args.shape.query;
  start(stream, forward_f32_kernel, blocks_for(tiles * args.shape.heads, 1), kThreads, 0, args);
}

void attention_backward_f32(Stream stream, const AttentionBackward& args, const float* delta) {
  const BackwardF32 b{args, delta};
  if (args.shape.query > 0) {
    start(stream, queries_f32_kernel, blocks_for(args.tiles.capacity * args.shape.heads, 1),
          kThreads, 0, b);
  }
  if (args.shape.key > 0) {
    const int64_t tiles = args.key_tiles.capacity + args.shape.key / kBlock + 1;
    start(stream, keys_f32_kernel, blocks_for(tiles * args.shape.kv_heads, 1), kThreads, 0, b);
  }
}

namespace {
Delta delta_of(const AttentionBackward& args) {
  const AttentionShape& shape = args.shape;
  const bool aligned = is_aligned(args.out, args.out_stride, shape.head_dim) &&
                       is_aligned(args.dout, args.dout_stride, shape.head_dim);
  Delta d{args.out,    args.dout,   args.out_stride, args.dout_stride,
          shape.query, shape.heads, shape.head_dim,  aligned};
  d.stats = args.stats;
  d.intervals = args.intervals;
  return d;
}
int64_t delta_blocks(const AttentionShape& shape) {
  return blocks_for(shape.query * shape.heads, kThreads / 8);
}
}  // namespace

void attention_delta(Stream stream, const AttentionBackward& args, float* delta) {
  Delta d = delta_of(args);
  d.delta = delta;
  start(stream, delta_kernel<float>, delta_blocks(args.shape), kThreads, 0, d);
}

void attention_facts(Stream stream, const AttentionBackward& args, RowFact* facts) {
  Delta d = delta_of(args);
  d.facts = facts;
  start(stream, delta_kernel<uint16_t>, delta_blocks(args.shape), kThreads, 0, d);
}

void store_key_values(Stream stream, const StoreKeyValues& args) {
  if (args.rows == 0 || args.width == 0) return;
  const dim3 blocks(static_cast<unsigned>(blocks_for(args.rows * args.width, kThreads)));
  if (args.type == DType::f32) {
    launch(stream, store_kernel<float>, blocks, kThreads, 0, args);
  } else {
    launch(stream, store_kernel<uint16_t>, blocks, kThreads, 0, args);
  }
}

}  // namespace tril::kernels::cuda
