// The forward pass in bf16, for training batches and cached steps.
//
// A persistent grid goes through (tile, head) pairs. Each step of a thread block is one block of 64
// keys: while it is being used, the next one, of the same pair or of the next, is being copied into
// the other half of shared memory. A warp owns 16 query rows, with their queries, running maximum,
// sum and accumulators in registers, and skips groups of 16 keys that none of its rows sees.
#include <algorithm>
#include <type_traits>

#include "tril/kernels/cuda/attention_long.cuh"
#include "tril/kernels/cuda/attention_row.cuh"
#include "tril/kernels/cuda/attention_softmax.cuh"
#include "tril/kernels/cuda/launch.cuh"

namespace tril::kernels::cuda {

void attention_forward_f32(Stream stream, const AttentionForward& args);

namespace {

constexpr int kIntervalBytes = 2 * kBlock * int{sizeof(Interval)};
template <int kDim>
constexpr int kSharedBytes = 6 * kTileBytes<kDim> + kIntervalBytes + Ring<AttentionTile>::kBytes;
template <int kDim>
constexpr int kResident = kDim <= 64    ? 4
                          : kDim == 128 ? 2
                                        : 1;
// ---- the grid -----------------------------------------------------------------------------------
using Tiles = Ring<AttentionTile>;

template <int kDim>
struct SharedMemory {
  unsigned char* memory;
  __device__ __forceinline__ SharedTile<kDim> tile(int number) const {
    return {memory + number * kTileBytes<kDim>};
  }
  __device__ __forceinline__ SharedTile<kDim> keys(int stage) const { return tile(2 * stage); }
  __device__ __forceinline__ SharedTile<kDim> values(int stage) const {
    return tile(2 * stage + 1);
  }
  __device__ __forceinline__ SharedTile<kDim> queries(int number) const {
    return tile(4 + number % 2);
  }
  __device__ __forceinline__ Interval* intervals(int number) const {
    return reinterpret_cast<Interval*>(memory + 6 * kTileBytes<kDim>) + number % 2 * kBlock;
  }
  __device__ __forceinline__ Tiles tiles() const {
    return {reinterpret_cast<AttentionTile*>(memory + 6 * kTileBytes<kDim> + kIntervalBytes)};
  }
};

// The tile of a block's item; the heads of a tile are consecutive.
__device__ __forceinline__ int first_tile(const ForwardLaunch& launch) {
  return launch.after_long ? launch.args.tiles.count[2] : 0;
}
__device__ __forceinline__ int tile_of(const ForwardLaunch& launch, int number) {
  return first_tile(launch) + item_of(number) / static_cast<int>(launch.args.shape.heads);
}
// Starts to fetch the description of a block's item, if there is one.
__device__ __forceinline__ void describe(const ForwardLaunch& launch, const Tiles& tiles,
                                         int number, int items) {
  if (item_of(number) >= items) return;
  const AttentionForward& a = launch.args;
  const int tile = tile_of(launch, number);
  if (a.tiles.tiles != nullptr) {
    tiles.bring(number, a.tiles.tiles + tile);
  } else if (threadIdx.x == 0) {
    tiles.at(number) = row_tile(a.intervals[tile], tile);
  }
}

// The position of a thread block: an item, which is a tile and a head, and a block of its keys.
struct Place {
  int number = 0;  // of the item
  int head = 0;
  int step = 0, steps = 0;
  int first_block = 0;  // from the origin

  __device__ __forceinline__ void enter(const AttentionForward& a, const AttentionTile& tile) {
    head = item_of(number) % static_cast<int>(a.shape.heads);
    step = 0;
    const bool any = tile.key_begin < tile.key_end;
    first_block = any ? block_of(tile, tile.key_begin) : 0;
    steps = any ? block_of(tile, tile.key_end - 1) - first_block + 1 : 1;
  }
  // The number of the block of keys, from the origin.
  __device__ __forceinline__ int block(const AttentionShape& shape) const {
    const int ascending = first_block + step;
    if (!shape.descending_blocks) return ascending;
    const int span = ascending / kBlocksPerSpan * kBlocksPerSpan;
    return max(first_block, span) + min(first_block + steps, span + kBlocksPerSpan) - 1 - ascending;
  }
};

// Starts to fetch what a step needs, and with the first step of an item the description of the
// next.
template <int kDim>
__device__ __forceinline__ void bring(const ForwardLaunch& launch, const Place& place,
                                      const SharedMemory<kDim>& shared, int stage, int items) {
  const AttentionForward& a = launch.args;
  const AttentionTile tile = widened(shared.tiles().at(place.number), a.shape, a.table);
  if (place.step == 0) {
    const int rows = tile.row_end - tile.row_begin;
    bring_tile(shared.queries(place.number),
               head_rows(a.q, a.q_stride, place.head, a.shape.head_dim, launch.q_aligned),
               tile.row_begin, 0, rows);
    constexpr int kWords = sizeof(Interval) / 4;
    for (int i = static_cast<int>(threadIdx.x); i < rows * kWords; i += kThreads) {
      copy_4(reinterpret_cast<int32_t*>(shared.intervals(place.number)) + i,
             reinterpret_cast<const int32_t*>(a.intervals + tile.row_begin) + i);
    }
    describe(launch, shared.tiles(), place.number + 1, items);
  }
  const int block = tile.origin + place.block(a.shape) * kBlock;
  const int begin = max(tile.key_begin - block, 0), end = min(tile.key_end - block, kBlock);
  if (begin >= end) return;
  bring_tile(shared.keys(stage), key_rows(launch, tile, a.k, place.head), block, begin, end);
  bring_tile(shared.values(stage), key_rows(launch, tile, a.v, place.head), block, begin, end);
}

// The rows of this thread in slice `slice` of a tile.
__device__ __forceinline__ SliceRows slice_rows(const AttentionForward& a,
                                                const AttentionTile& tile, int head,
                                                const Interval* intervals, int slice) {
  SliceRows rows;
  int first = 0x7fffffff, last = 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int local = slice * kSlice + 8 * half + lane_id() / 4;
    const int row = tile.row_begin + local;
    if (row >= tile.row_end) continue;
    rows.sight[half] = sight_of(a.shape, tile.sequence_end, intervals[local], row, head, a.table);
    rows.entry[half] = bias_entry(a.shape, row, tile.origin);
    if (rows.sight[half].empty()) continue;
    first = min(first, rows.sight[half].lo);
    last = max(last, rows.sight[half].hi);
  }
  rows.first = __reduce_min_sync(kAllLanes, first);
  rows.last = __reduce_max_sync(kAllLanes, last);
  return rows;
}

template <int kDim>
__device__ __noinline__ void repair(const ForwardLaunch& launch, float* saved, int items) {
  const AttentionForward& a = launch.args;
  for (int number = 0; item_of(number) < items; ++number) {
    repair_tile<kDim>(launch, tile_at(a.tiles, a.intervals, tile_of(launch, number)),
                      item_of(number) % static_cast<int>(a.shape.heads), saved);
  }
}

template <int kDim>
__global__ void __launch_bounds__(kThreads, kResident<kDim>)
    forward_kernel(const __grid_constant__ ForwardLaunch launch) {
  constexpr bool kKeepsQueries = kDim == 128;
  let_next_begin();
  wait_for_earlier();
  const AttentionForward& a = launch.args;
  const SharedMemory<kDim> shared{dynamic_shared()};
  const Tiles tiles = shared.tiles();
  float* const saved = static_cast<float*>(a.workspace) + blockIdx.x * saved_floats<kDim>(kThreads);
  const int slice = warp_id();
  const int items =
      (tile_count(a.tiles, a.shape) - first_tile(launch)) * static_cast<int>(a.shape.heads);

  Place next;
  describe(launch, tiles, 0, items);
  copies_wait();
  __syncthreads();
  if (item_of(0) < items) {
    next.enter(a, widened(tiles.at(0), a.shape, a.table));
    bring(launch, next, shared, 0, items);
  }
  Sums<kDim> sums;
  SliceRows rows;
  KeptQueries<kKeepsQueries ? kDim : 16> kept;
  const float* earlier = nullptr;
  bool poisoned = false;
  for (int stage = 0; item_of(next.number) < items; stage ^= 1) {
    copies_wait();
    __syncthreads();  // the data has arrived; the other half is no longer read
    const Place now = next;
    if (++next.step == next.steps) {
      ++next.number;
      if (item_of(next.number) < items) {
        next.enter(a, widened(tiles.at(next.number), a.shape, a.table));
      }
    }
    if (item_of(next.number) < items) bring(launch, next, shared, stage ^ 1, items);

    const AttentionTile& tile = tiles.at(now.number);
    if (slice * kSlice >= tile.row_end - tile.row_begin) continue;
    const ReadQueries<SharedTile<kDim>> queries{shared.queries(now.number), slice * kSlice};
    if (now.step == 0) {
      sums.clear();
      rows = slice_rows(a, tile, now.head, shared.intervals(now.number), slice);
      earlier = nullptr;
      if constexpr (kKeepsQueries) {
#pragma unroll
        for (int k = 0; k < kDim / 16; ++k) kept.x[k] = queries.at(k);
      }
    }
    const Scoring scoring(a.shape, now.head);
    const int block = tile.origin + now.block(a.shape) * kBlock;
    if constexpr (kKeepsQueries) {
      attend_block(sums, rows, scoring, kept, shared.keys(stage), shared.values(stage), block);
    } else {
      attend_block(sums, rows, scoring, queries, shared.keys(stage), shared.values(stage), block);
    }
    if (now.step + 1 == now.steps) {
      end_span(sums, earlier);
      poisoned = not_finite(sums.acc) || poisoned;
      int64_t target[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = tile.row_begin + slice * kSlice + 8 * half + lane_id() / 4;
        target[half] = row < tile.row_end ? row : -1;
      }
      store_rows(launch, sums, rows, now.head, target);
    } else if ((now.first_block + now.step + 1) % kBlocksPerSpan == 0) {
      end_span(sums, earlier);
      save(sums, saved);
      earlier = saved;
      sums.clear();
    }
  }
  if (__syncthreads_or(poisoned)) repair<kDim>(launch, saved, items);
}

template <int kDim>
int64_t blocks_of() {
  return resident_blocks<forward_kernel<kDim>>(kThreads, kSharedBytes<kDim>);
}

// Calls f with the number of columns in shared memory, as a constant.
template <class F>
auto with_columns(int64_t head_dim, const F& f) {
  if (head_dim <= 32) return f(std::integral_constant<int, 32>());
  if (head_dim <= 64) return f(std::integral_constant<int, 64>());
  if (head_dim <= 128) return f(std::integral_constant<int, 128>());
  return f(std::integral_constant<int, 256>());
}

template <int kDim>
int64_t grid_of(const AttentionForward& args) {
  const int64_t tiles = args.tiles.tiles != nullptr ? args.tiles.capacity : args.shape.query;
  return std::min(blocks_of<kDim>(), tiles * args.shape.heads);
}

void store_fresh(Stream stream, const AttentionForward& a) {
  store_key_values(stream, {.type = a.shape.type,
                            .rows = a.shape.query,
                            .width = a.shape.kv_heads * a.shape.head_dim,
                            .k = a.fresh.k,
                            .v = a.fresh.v,
                            .stride = a.fresh.stride,
                            .entries = a.fresh.entries,
                            .to_k = const_cast<void*>(a.k),
                            .to_v = const_cast<void*>(a.v),
                            .to_stride = a.kv_stride});
}

}  // namespace

int64_t attention_forward_workspace(const AttentionForward& args) {
  if (args.shape.type == DType::f32 || args.tiles.most_keys <= kKeySpan) return 0;
  return with_columns(args.shape.head_dim, [&](auto columns) {
    const int64_t floats = std::max(grid_of<columns>(args) * saved_floats<columns>(kThreads),
                                    long_attention_saved_floats(args));
    return floats * int64_t{sizeof(float)};
  });
}

void attention_forward(Stream stream, const AttentionForward& args) {
  if (args.shape.query == 0) return;
  if (suits_row_attention(args)) return row_attention(stream, args);
  if (args.fresh.entries != nullptr) store_fresh(stream, args);
  if (args.shape.type == DType::f32) return attention_forward_f32(stream, args);
  ForwardLaunch launch;
  launch.args = args;
  const int64_t head_dim = args.shape.head_dim;
  launch.q_aligned = is_aligned(args.q, args.q_stride, head_dim);
  launch.kv_aligned =
      is_aligned(args.k, args.kv_stride, head_dim) && is_aligned(args.v, args.kv_stride, head_dim);
  launch.out_aligned = is_aligned(args.out, args.out_stride, head_dim);
  launch.after_long = start_long_attention(stream, launch);
  if (launch.after_long && args.long_tiles.all) return;
  with_columns(head_dim, [&](auto columns) {
    cuda::launch(stream, forward_kernel<columns>,
                 dim3(static_cast<unsigned>(grid_of<columns>(args))), kThreads,
                 kSharedBytes<columns>, launch);
  });
}

}  // namespace tril::kernels::cuda
