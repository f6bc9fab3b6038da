// The backward pass in bf16: no sum is shared between blocks, so no atomics and one order.
//
// keys_kernel owns 64 keys of one key head and goes over the heads of its group and the tiles of
// rows that see them: dk and dv stay in registers, 16 keys per warp. If a sequence has no other
// keys and heads are narrow, everything that a tile of rows needs for dq is then there, and dq is
// written too, by the warps in reverse order, so that a short sentence keeps all four busy.
// queries_kernel owns a tile of rows of one head and goes over its blocks of keys, for the others.
// Each goes through its list with a persistent grid, fetching the next tiles while it computes.
// Long sequences may have been left to attention_long_backward.cu.
#include <algorithm>
#include <type_traits>

#include "tril/kernels/cuda/attention_gradients.cuh"
#include "tril/kernels/cuda/attention_long.cuh"

namespace tril::kernels::cuda {

void attention_backward_f32(Stream stream, const AttentionBackward& args, const float* delta);
void attention_delta(Stream stream, const AttentionBackward& args, float* delta);
void attention_facts(Stream stream, const AttentionBackward& args, RowFact* facts);

namespace {

// The layout of shared memory: the tiles a block keeps for an item, those that stream past it, and
// facts about rows.
template <int kDim>
struct Layout {
  static constexpr int kKept = kDim <= 64 ? 2 : 1;       // items present at a time
  static constexpr int kStreamed = kDim <= 128 ? 2 : 1;  // steps present at a time
  static constexpr int kFactBytes = kBlock * int{sizeof(RowFact)};
  static constexpr int kTilesBytes = 2 * (kKept + kStreamed) * kTileBytes<kDim>;
  static constexpr int kRingAt = kTilesBytes + 2 * kFactBytes;
  static constexpr int kRowsAt = kRingAt + Ring<AttentionKeyTile>::kBytes;
  static constexpr int kBytes = kRowsAt + 2 * int{sizeof(AttentionTile)};
  static constexpr int kResident = kDim <= 64 ? 3 : kDim == 128 ? 2 : 1;
  static constexpr int kOut = kDim <= 128 ? kDim : 128;  // columns of dk and dv at a time
  static constexpr int kParts = kDim / kOut;
  static constexpr bool kFused = kDim <= 64;  // keys_kernel computes dq of short sequences

  unsigned char* memory;
  __device__ __forceinline__ SharedTile<kDim> kept(int which, int item) const {
    return {memory + (2 * item + which) * kTileBytes<kDim>};
  }
  __device__ __forceinline__ SharedTile<kDim> streamed(int which, int step) const {
    return {memory + (2 * kKept + 2 * step + which) * kTileBytes<kDim>};
  }
  __device__ __forceinline__ RowFact* facts(int number) const {
    return reinterpret_cast<RowFact*>(memory + kTilesBytes + number * kFactBytes);
  }
  // The descriptions of items, and of the rows of a step.
  template <class T>
  __device__ __forceinline__ Ring<T> ring() const {
    static_assert(Ring<T>::kBytes <= Ring<AttentionKeyTile>::kBytes);
    return {reinterpret_cast<T*>(memory + kRingAt)};
  }
  __device__ __forceinline__ AttentionTile& rows(int stage) const {
    return reinterpret_cast<AttentionTile*>(memory + kRowsAt)[stage];
  }
};

// Starts to fetch the facts about the rows of a tile.
__device__ __forceinline__ void bring_facts(const BackwardLaunch& launch, const AttentionTile& tile,
                                            int head, RowFact* to) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= tile.row_end - tile.row_begin) return;
  copy_16(to + thread, facts_of(launch, tile.row_begin, head) + thread, sizeof(RowFact));
}

// ---- keys ---------------------------------------------------------------------------------------
// The items of keys_kernel: tiles of keys, for each key head and each part of its columns. Tiles of
// long sequences come first in the list, and may already be done.
__device__ __forceinline__ int first_key_tile(const BackwardLaunch& launch) {
  return launch.after_long ? launch.args.key_tiles.count[1] : 0;
}
struct KeyItem {
  int tile, kv_head, part;
  __device__ __forceinline__ KeyItem(const BackwardLaunch& launch, int number, int parts)
      : part(item_of(number) % parts) {
    const int kv_heads = static_cast<int>(launch.args.shape.kv_heads);
    tile = first_key_tile(launch) + item_of(number) / parts / kv_heads;
    kv_head = item_of(number) / parts % kv_heads;
  }
};
__device__ __forceinline__ int key_items(const BackwardLaunch& launch, int parts) {
  const AttentionBackward& a = launch.args;
  const int uncovered = max(static_cast<int>(a.shape.key) - *a.key_tiles.covered, 0);
  const int tiles = *a.key_tiles.count - first_key_tile(launch) + (uncovered + kBlock - 1) / kBlock;
  return tiles * static_cast<int>(a.shape.kv_heads) * parts;
}
// After the list come tiles of the keys after the last sequence.
__device__ __forceinline__ AttentionKeyTile tile_behind(const AttentionBackward& a, int tile) {
  AttentionKeyTile behind;
  behind.key_begin = *a.key_tiles.covered + (tile - *a.key_tiles.count) * kBlock;
  behind.key_end = min(behind.key_begin + kBlock, static_cast<int>(a.shape.key));
  return behind;
}
__device__ __forceinline__ void describe(const BackwardLaunch& launch,
                                         const Ring<AttentionKeyTile>& ring, int number, int items,
                                         int parts) {
  if (item_of(number) >= items) return;
  const AttentionBackward& a = launch.args;
  const int tile = KeyItem(launch, number, parts).tile;
  if (tile < *a.key_tiles.count) {
    ring.bring(number, a.key_tiles.tiles + tile);
  } else if (threadIdx.x == 0) {
    ring.at(number) = tile_behind(a, tile);
  }
}

// The position of a block: an item, and a head of the group with a tile of rows.
struct KeyPlace {
  int number = 0;  // of the item
  int kv_head = 0, part = 0;
  int head = 0;
  int tile = 0;  // of rows
  bool begins = false, ends = false;

  __device__ __forceinline__ void find_end(const AttentionShape& shape,
                                           const AttentionKeyTile& keys) {
    ends = keys.tile_begin >= keys.tile_end ||
           (tile + 1 == keys.tile_end && head + 1 == (kv_head + 1) * group_of(shape));
  }
  __device__ __forceinline__ void enter(const BackwardLaunch& launch, const AttentionKeyTile& keys,
                                        int parts) {
    const AttentionShape& shape = launch.args.shape;
    const KeyItem item(launch, number, parts);
    kv_head = item.kv_head;
    part = item.part;
    head = kv_head * group_of(shape);
    tile = keys.tile_begin;
    begins = true;
    find_end(shape, keys);
  }
  __device__ __forceinline__ void step(const AttentionShape& shape, const AttentionKeyTile& keys) {
    begins = false;
    if (++tile == keys.tile_end) {
      tile = keys.tile_begin;
      ++head;
    }
    find_end(shape, keys);
  }
};

// Starts to fetch what a step needs, and with the first step of an item the description of the
// next.
template <int kDim>
__device__ __forceinline__ void bring(const BackwardLaunch& launch, const KeyPlace& place,
                                      const Layout<kDim>& shared, int stage, int items) {
  using L = Layout<kDim>;
  const AttentionBackward& a = launch.args;
  const auto ring = shared.template ring<AttentionKeyTile>();
  const AttentionKeyTile& keys = ring.at(place.number);
  if (place.begins) describe(launch, ring, place.number + 1, items, L::kParts);
  if (keys.tile_begin >= keys.tile_end) return;
  if (place.begins) {
    const int item = place.number % L::kKept;
    const int count = keys.key_end - keys.key_begin;
    bring_tile(shared.kept(0, item), keys_of(launch, place.kv_head), keys.key_begin, 0, count);
    bring_tile(shared.kept(1, item), values_of(launch, place.kv_head), keys.key_begin, 0, count);
  }
  const AttentionTile rows =
      place.tile == keys.tile_begin ? keys.first : a.key_tiles.rows[place.tile];
  if (threadIdx.x == 0) shared.rows(stage) = rows;
  const int count = rows.row_end - rows.row_begin;
  bring_tile(shared.streamed(0, stage), queries_of(launch, place.head), rows.row_begin, 0, count);
  bring_tile(shared.streamed(1, stage), douts_of(launch, place.head), rows.row_begin, 0, count);
  bring_facts(launch, rows, place.head, shared.facts(stage));
}

__device__ __forceinline__ bool is_short(const AttentionTile& tile) {
  return tile.key_begin < tile.key_end && tile.sequence_end - tile.origin <= kBlock;
}

// Computes keys and rows whose gradients are not finite again, one by one.
template <int kDim>
__device__ __noinline__ void repair_keys(const BackwardLaunch& launch, int items) {
  using L = Layout<kDim>;
  const AttentionBackward& a = launch.args;
  for (int number = 0; item_of(number) < items; ++number) {
    const KeyItem item(launch, number, L::kParts);
    if (item.tile >= *a.key_tiles.count) continue;
    const AttentionKeyTile keys = a.key_tiles.tiles[item.tile];
    if (keys.tile_begin >= keys.tile_end) continue;
    for (int key = keys.key_begin + warp_id(); key < keys.key_end; key += kThreads / 32) {
      const int column = item.part * L::kOut;  // the first of those that this block wrote
      if (is_poisoned(dk_of(launch, item.kv_head), key, column, column + L::kOut) ||
          is_poisoned(dv_of(launch, item.kv_head), key, column, column + L::kOut)) {
        key_alone<kDim, L::kOut>(launch, keys.tile_begin, keys.tile_end, key, item.kv_head, column);
      }
    }
    if (!L::kFused || !is_short(keys.first)) continue;
    const int first_head = item.kv_head * group_of(a.shape);
    for (int head = first_head; head < first_head + group_of(a.shape); ++head) {
      for (int tile = keys.tile_begin; tile < keys.tile_end; ++tile) {
        const AttentionTile rows = a.key_tiles.rows[tile];
        for (int row = rows.row_begin + warp_id(); row < rows.row_end; row += kThreads / 32) {
          if (is_poisoned(dq_of(launch, head), row)) row_alone<kDim>(launch, rows, row, head);
        }
      }
    }
  }
}

template <int kDim>
__global__ void __launch_bounds__(kThreads, Layout<kDim>::kResident)
    keys_kernel(const __grid_constant__ BackwardLaunch launch) {
  using L = Layout<kDim>;
  const AttentionBackward& a = launch.args;
  const L shared{dynamic_shared()};
  const auto ring = shared.template ring<AttentionKeyTile>();
  const int slice = warp_id() * kSlice;
  const int items = key_items(launch, L::kParts);

  KeyPlace next;
  describe(launch, ring, 0, items, L::kParts);
  copies_wait();
  __syncthreads();
  if (item_of(0) < items) {
    next.enter(launch, ring.at(0), L::kParts);
    bring(launch, next, shared, 0, items);
  }
  float dk[L::kOut / 8][4], dv[L::kOut / 8][4];
  bool poisoned = false;
  for (int step = 0; item_of(next.number) < items; ++step) {
    copies_wait();
    __syncthreads();  // the data has arrived; the other half is no longer read
    const KeyPlace now = next;
    const int stage = step % L::kStreamed, next_stage = (step + 1) % L::kStreamed;
    if (!now.ends) {
      next.step(a.shape, ring.at(now.number));
    } else if (item_of(++next.number) < items) {
      next.enter(launch, ring.at(next.number), L::kParts);
    }
    const bool more = item_of(next.number) < items;
    const bool early = L::kStreamed == 2 && (L::kKept == 2 || !next.begins);
    if (early && more) bring(launch, next, shared, next_stage, items);

    if (now.begins) {
      clear(dk);
      clear(dv);
    }
    const AttentionKeyTile& tile = ring.at(now.number);
    const auto keys = shared.kept(0, now.number % L::kKept);
    const auto values = shared.kept(1, now.number % L::kKept);
    const auto queries = shared.streamed(0, stage), douts = shared.streamed(1, stage);
    const int key = tile.key_begin + slice;
    if (tile.tile_begin < tile.tile_end) {
      const TileFacts facts{shared.rows(stage), shared.facts(stage)};
      if (key < tile.key_end) {
        add_key_gradients<kDim, L::kOut>(dk, dv, a.shape, facts, now.head, key, slice,
                                         now.part * L::kOut, keys, values, queries, douts);
      }
      if constexpr (L::kFused) {
        const int mine = kBlock - kSlice - slice;
        if (is_short(facts.tile) && facts.tile.row_begin + mine < facts.tile.row_end) {
          float dq[kDim / 8][4];
          clear(dq);
          add_query_gradients<kDim>(dq, Pairing(a.shape, now.head),
                                    slice_facts(a.shape, facts, mine, now.head), tile.key_begin,
                                    mine, keys, values, queries, douts);
          poisoned = not_finite(dq) || poisoned;
          store_sums(dq_of(launch, now.head), dq, facts.tile.row_begin + mine, facts.tile.row_end,
                     0);
        }
      }
    }
    if (now.ends && key < tile.key_end) {
      poisoned = not_finite(dk) || not_finite(dv) || poisoned;
      store_sums(dk_of(launch, now.kv_head), dk, key, tile.key_end, now.part * L::kOut);
      store_sums(dv_of(launch, now.kv_head), dv, key, tile.key_end, now.part * L::kOut);
    }
    if (!early && more) {
      __syncthreads();
      bring(launch, next, shared, next_stage, items);
    }
  }
  if (__syncthreads_or(poisoned)) repair_keys<kDim>(launch, items);
}

// ---- queries ------------------------------------------------------------------------------------
// The items of queries_kernel: tiles of rows, of the whole list or of its first part, for each
// head. Those of long sequences come first in the list, and may already be done.
__device__ __forceinline__ int first_query_tile(const BackwardLaunch& launch) {
  return launch.after_long ? launch.args.tiles.count[2] : 0;
}
__device__ __forceinline__ int query_items(const BackwardLaunch& launch, int part) {
  const int tiles = launch.args.tiles.count[part] - first_query_tile(launch);
  return tiles * static_cast<int>(launch.args.shape.heads);
}
__device__ __forceinline__ const AttentionTile* tile_of(const BackwardLaunch& launch, int number) {
  const int tile = item_of(number) / static_cast<int>(launch.args.shape.heads);
  return launch.args.tiles.tiles + first_query_tile(launch) + tile;
}
__device__ __forceinline__ int head_of(const AttentionBackward& a, int number) {
  return item_of(number) % static_cast<int>(a.shape.heads);
}

// The position of a block: an item, and a block of keys.
struct QueryPlace {
  int number = 0;  // of the item
  int head = 0;
  int step = 0, steps = 0;
  int block = 0;  // its first key

  __device__ __forceinline__ void enter(const AttentionBackward& a, const AttentionTile& tile) {
    head = head_of(a, number);
    step = 0;
    steps = 1;
    if (tile.key_begin >= tile.key_end) return;
    block = tile.origin + (tile.key_begin - tile.origin) / kBlock * kBlock;
    steps = (tile.key_end - block + kBlock - 1) / kBlock;
  }
};

template <int kDim>
__device__ __forceinline__ void bring(const BackwardLaunch& launch, const QueryPlace& place,
                                      const Layout<kDim>& shared, int stage, int items) {
  const AttentionBackward& a = launch.args;
  const auto ring = shared.template ring<AttentionTile>();
  const AttentionTile tile = widened(ring.at(place.number), a.shape, nullptr);
  if (place.step == 0 && item_of(place.number + 1) < items) {
    ring.bring(place.number + 1, tile_of(launch, place.number + 1));
  }
  if (tile.key_begin >= tile.key_end) return;
  if (place.step == 0) {
    const int item = place.number % Layout<kDim>::kKept;
    const int rows = tile.row_end - tile.row_begin;
    bring_tile(shared.kept(0, item), queries_of(launch, place.head), tile.row_begin, 0, rows);
    bring_tile(shared.kept(1, item), douts_of(launch, place.head), tile.row_begin, 0, rows);
    bring_facts(launch, tile, place.head, shared.facts(item));
  }
  const int kv_head = place.head / group_of(a.shape);
  const int begin = max(tile.key_begin - place.block, 0);
  const int end = min(tile.key_end - place.block, kBlock);
  bring_tile(shared.streamed(0, stage), keys_of(launch, kv_head), place.block, begin, end);
  bring_tile(shared.streamed(1, stage), values_of(launch, kv_head), place.block, begin, end);
}

template <int kDim>
__device__ __noinline__ void repair_queries(const BackwardLaunch& launch, int items) {
  const AttentionBackward& a = launch.args;
  for (int number = 0; item_of(number) < items; ++number) {
    const AttentionTile tile = *tile_of(launch, number);
    const int head = head_of(a, number);
    if (tile.key_begin >= tile.key_end) continue;
    for (int row = tile.row_begin + warp_id(); row < tile.row_end; row += kThreads / 32) {
      if (is_poisoned(dq_of(launch, head), row)) row_alone<kDim>(launch, tile, row, head);
    }
  }
}

template <int kDim>
__global__ void __launch_bounds__(kThreads, Layout<kDim>::kResident)
    queries_kernel(const __grid_constant__ BackwardLaunch launch) {
  using L = Layout<kDim>;
  const AttentionBackward& a = launch.args;
  const L shared{dynamic_shared()};
  const auto ring = shared.template ring<AttentionTile>();
  const int slice = warp_id() * kSlice;
  const int items = query_items(launch, L::kFused ? 1 : 0);
  if (item_of(0) >= items) return;

  QueryPlace next;
  ring.bring(0, tile_of(launch, 0));
  copies_wait();
  __syncthreads();
  next.enter(a, widened(ring.at(0), a.shape, nullptr));
  bring(launch, next, shared, 0, items);
  float dq[kDim / 8][4];
  SliceFacts rows;
  bool poisoned = false;
  for (int step = 0; item_of(next.number) < items; ++step) {
    copies_wait();
    __syncthreads();
    const QueryPlace now = next;
    const int stage = step % L::kStreamed, next_stage = (step + 1) % L::kStreamed;
    next.block += kBlock;
    if (++next.step == next.steps && item_of(++next.number) < items) {
      next.enter(a, widened(ring.at(next.number), a.shape, nullptr));
    }
    const bool more = item_of(next.number) < items;
    const bool early = L::kStreamed == 2 && (L::kKept == 2 || next.step != 0);
    if (early && more) bring(launch, next, shared, next_stage, items);

    const AttentionTile& tile = ring.at(now.number);
    if (tile.row_begin + slice < tile.row_end) {
      const int item = now.number % L::kKept;
      if (now.step == 0) clear(dq);
      if (tile.key_begin < tile.key_end) {
        if (now.step == 0) {
          rows = slice_facts(a.shape, {tile, shared.facts(item)}, slice, now.head);
        }
        add_query_gradients<kDim>(dq, Pairing(a.shape, now.head), rows, now.block, slice,
                                  shared.streamed(0, stage), shared.streamed(1, stage),
                                  shared.kept(0, item), shared.kept(1, item));
      }
      if (now.step + 1 == now.steps) {
        poisoned = not_finite(dq) || poisoned;
        store_sums(dq_of(launch, now.head), dq, tile.row_begin + slice, tile.row_end, 0);
      }
    }
    if (!early && more) {
      __syncthreads();
      bring(launch, next, shared, next_stage, items);
    }
  }
  if (__syncthreads_or(poisoned)) repair_queries<kDim>(launch, items);
}

template <int kDim>
void start_backward(Stream stream, const BackwardLaunch& launch) {
  using L = Layout<kDim>;
  const int64_t key_blocks = resident_blocks<keys_kernel<kDim>>(kThreads, L::kBytes);
  const int64_t query_blocks = resident_blocks<queries_kernel<kDim>>(kThreads, L::kBytes);
  const AttentionShape& shape = launch.args.shape;
  if (shape.key > 0) {
    const int64_t items = (shape.key + launch.args.key_tiles.capacity) * shape.kv_heads * L::kParts;
    start(stream, keys_kernel<kDim>, std::min(key_blocks, items), kThreads, L::kBytes, launch);
  }
  if (shape.query > 0 && !(launch.after_long && launch.args.long_gradients.all)) {
    const int64_t items = launch.args.tiles.capacity * shape.heads;
    start(stream, queries_kernel<kDim>, std::min(query_blocks, items), kThreads, L::kBytes, launch);
  }
}

}  // namespace

int64_t attention_backward_workspace(const AttentionShape& shape) {
  const int64_t rows = shape.query * shape.heads;
  if (shape.type == DType::f32) return rows * int64_t{sizeof(float)};
  // Whole tiles are read, even at the end.
  return (rows + kTileRows) * int64_t{sizeof(RowFact)};
}

void attention_backward(Stream stream, const AttentionBackward& args) {
  if (args.shape.type == DType::f32) {
    auto* delta = static_cast<float*>(args.workspace);
    if (args.shape.query > 0) attention_delta(stream, args, delta);
    return attention_backward_f32(stream, args, delta);
  }
  auto* facts = static_cast<RowFact*>(args.workspace);
  if (args.shape.query > 0) attention_facts(stream, args, facts);
  const int64_t head_dim = args.shape.head_dim;
  BackwardLaunch launch;
  launch.args = args;
  launch.facts = facts;
  launch.q_aligned = is_aligned(args.q, args.q_stride, head_dim);
  launch.kv_aligned =
      is_aligned(args.k, args.kv_stride, head_dim) && is_aligned(args.v, args.kv_stride, head_dim);
  launch.dout_aligned = is_aligned(args.dout, args.dout_stride, head_dim);
  launch.dq_aligned = is_aligned(args.dq, args.dq_stride, head_dim);
  launch.dkv_aligned = is_aligned(args.dk, args.dkv_stride, head_dim) &&
                       is_aligned(args.dv, args.dkv_stride, head_dim);
  launch.after_long = start_long_gradients(stream, launch);
  if (head_dim <= 32) {
    start_backward<32>(stream, launch);
  } else if (head_dim <= 64) {
    start_backward<64>(stream, launch);
  } else if (head_dim <= 128) {
    start_backward<128>(stream, launch);
  } else {
    start_backward<256>(stream, launch);
  }
}

}  // namespace tril::kernels::cuda
