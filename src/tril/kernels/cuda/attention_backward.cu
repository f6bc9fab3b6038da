// The backward pass in bf16: no sum is shared between blocks, so no atomics and one order.
//
// keys_kernel owns 64 keys of one head of keys and goes over the heads of its group and the tiles
// of rows that see them: dk and dv stay in registers, a warp having 16 keys. Where a sequence has
// no other keys and heads are narrow, what a tile of rows needs for dq is then all there, and dq is
// written too, by the warps in reverse, so that a short sentence keeps all four busy.
// queries_kernel owns a tile of rows of one head and goes over its blocks of keys, for the others.
// Each walks its list with a persistent grid, bringing the next tiles while it works.
#include <algorithm>
#include <type_traits>

#include "tril/kernels/cuda/attention_gradients.cuh"

namespace tril::kernels::cuda {

void attention_backward_f32(Stream stream, const AttentionBackward& args, const float* delta);
void attention_delta(Stream stream, const AttentionBackward& args, float* delta);

namespace {

struct Launch {
  AttentionBackward args;
  const float* delta = nullptr;  // [query, heads]
  bool q_aligned = false, kv_aligned = false, dout_aligned = false;
  bool dq_aligned = false, dkv_aligned = false;
};

// How shared memory is laid out: the tiles a block keeps for an item, those that stream past it,
// and facts about rows.
template <int kDim>
struct Layout {
  static constexpr int kKept = kDim <= 64 ? 2 : 1;       // items there at a time
  static constexpr int kStreamed = kDim <= 128 ? 2 : 1;  // steps there at a time
  static constexpr int kFactBytes = kBlock * (int{sizeof(Interval)} + 12);
  static constexpr int kBytes = 2 * (kKept + kStreamed) * kTileBytes<kDim> + 2 * kFactBytes;
  static constexpr int kResident = kDim <= 64 ? 3 : kDim == 128 ? 2 : 1;
  static constexpr int kOut = kDim <= 128 ? kDim : 128;  // columns of dk and dv at a time
  static constexpr int kParts = kDim / kOut;
  static constexpr bool kFused = kDim <= 64;  // keys_kernel makes dq of short sequences

  unsigned char* memory;
  __device__ __forceinline__ SharedTile<kDim> kept(int which, int item) const {
    return {memory + (2 * item + which) * kTileBytes<kDim>};
  }
  __device__ __forceinline__ SharedTile<kDim> streamed(int which, int step) const {
    return {memory + (2 * kKept + 2 * step + which) * kTileBytes<kDim>};
  }
  __device__ __forceinline__ unsigned char* facts(int number) const {
    return memory + 2 * (kKept + kStreamed) * kTileBytes<kDim> + number * kFactBytes;
  }
};

// ---- facts --------------------------------------------------------------------------------------
__device__ __forceinline__ RowFacts facts_in_shared(const AttentionTile& tile,
                                                    const unsigned char* memory) {
  RowFacts facts;
  facts.tile = tile;
  facts.stats = reinterpret_cast<const float*>(memory);
  facts.stats_stride = 2;
  facts.delta = facts.stats + 2 * kBlock;
  facts.delta_stride = 1;
  facts.intervals = reinterpret_cast<const Interval*>(facts.delta + kBlock);
  return facts;
}
__device__ __forceinline__ RowFacts facts_in_global(const Launch& launch, const AttentionTile& tile,
                                                    int head) {
  const int64_t heads = launch.args.shape.heads;
  const int64_t first = tile.row_begin * heads + head;
  RowFacts facts;
  facts.tile = tile;
  facts.intervals = launch.args.intervals + tile.row_begin;
  facts.stats = launch.args.stats + 2 * first;
  facts.stats_stride = 2 * heads;
  facts.delta = launch.delta + first;
  facts.delta_stride = heads;
  return facts;
}
__device__ __forceinline__ void bring_facts(const Launch& launch, const AttentionTile& tile,
                                            int head, unsigned char* memory) {
  const RowFacts from = facts_in_global(launch, tile, head);
  auto* stats = reinterpret_cast<float*>(memory);
  float* delta = stats + 2 * kBlock;
  auto* intervals = reinterpret_cast<int32_t*>(delta + kBlock);
  const int rows = tile.row_end - tile.row_begin;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < rows) {
    copy_8(stats + 2 * thread, from.stats + thread * from.stats_stride);
  } else if (thread >= kBlock && thread - kBlock < rows) {
    copy_4(delta + thread - kBlock, from.delta + (thread - kBlock) * from.delta_stride);
  }
  constexpr int kWords = sizeof(Interval) / 4;
  for (int i = thread; i < rows * kWords; i += kThreads) {
    copy_4(intervals + i, reinterpret_cast<const int32_t*>(from.intervals) + i);
  }
}

// ---- rows and keys of a head --------------------------------------------------------------------
__device__ __forceinline__ int group_of(const AttentionShape& shape) {
  return static_cast<int>(shape.heads / shape.kv_heads);
}
__device__ __forceinline__ HeadRows queries_of(const Launch& launch, int head) {
  return head_rows(launch.args.q, launch.args.q_stride, head, launch.args.shape.head_dim,
                   launch.q_aligned);
}
__device__ __forceinline__ HeadRows douts_of(const Launch& launch, int head) {
  return head_rows(launch.args.dout, launch.args.dout_stride, head, launch.args.shape.head_dim,
                   launch.dout_aligned);
}
__device__ __forceinline__ HeadRows keys_of(const Launch& launch, int kv_head) {
  return head_rows(launch.args.k, launch.args.kv_stride, kv_head, launch.args.shape.head_dim,
                   launch.kv_aligned);
}
__device__ __forceinline__ HeadRows values_of(const Launch& launch, int kv_head) {
  return head_rows(launch.args.v, launch.args.kv_stride, kv_head, launch.args.shape.head_dim,
                   launch.kv_aligned);
}

template <int kCount>
__device__ __forceinline__ void store_sums(const HeadOut& to, const float (&sums)[kCount][4],
                                           int64_t begin, int64_t end, int column) {
  const int64_t at = begin + lane_id() / 4;
  const int64_t rows[2] = {at < end ? at : -1, at + 8 < end ? at + 8 : -1};
  store_slice<kCount * 8>(to, rows, column, [&](int i, int half, int e) {
    return __fadd_rn(sums[i][2 * half + e], 0.0f);
  });
}
__device__ __forceinline__ HeadOut dq_of(const Launch& launch, int head) {
  return head_out(launch.args.dq, launch.args.dq_stride, head, launch.args.shape.head_dim,
                  launch.dq_aligned);
}
__device__ __forceinline__ HeadOut dkv_of(const Launch& launch, void* base, int kv_head) {
  return head_out(base, launch.args.dkv_stride, kv_head, launch.args.shape.head_dim,
                  launch.dkv_aligned);
}
// Whether a row that was written holds something infinite or not a number.
__device__ __forceinline__ bool is_poisoned(const HeadOut& out, int64_t row) {
  bool finite = true;
  for (int c = lane_id(); c < out.head_dim; c += 32) {
    finite = finite && (out.base[row * out.stride + c] & 0x7f80u) != 0x7f80u;
  }
  return !__all_sync(kAllLanes, finite);
}

// ---- one row, or one key ------------------------------------------------------------------------
// dq of a row of a tile alone, by one warp, everything outside its interval being zero.
template <int kDim>
__device__ __noinline__ void row_alone(const Launch& launch, const AttentionTile& tile, int row,
                                       int head) {
  const AttentionBackward& a = launch.args;
  AttentionTile one = tile;
  one.row_begin = row;
  one.row_end = row + 1;
  const SliceFacts facts = slice_facts(a.shape, facts_in_global(launch, one, head), 0, head);
  const int kv_head = head / group_of(a.shape);
  const DirectTile queries{queries_of(launch, head), row, 0, 1};
  const DirectTile douts{douts_of(launch, head), row, 0, 1};
  float dq[kDim / 8][4];
  clear(dq);
  for (int block = tile.origin + (facts.first - tile.origin) / kBlock * kBlock; block < facts.last;
       block += kBlock) {
    const int begin = facts.first - block, end = facts.last - block;
    add_query_gradients<kDim>(dq, Scoring(a.shape, head), facts, block, 0,
                              DirectTile{keys_of(launch, kv_head), block, begin, end},
                              DirectTile{values_of(launch, kv_head), block, begin, end}, queries,
                              douts);
  }
  store_sums(dq_of(launch, head), dq, row, row + 1, 0);
}

// Columns [column, column + kOut) of dk and dv of one key alone, rows that do not see it being
// zero.
template <int kDim, int kOut>
__device__ __noinline__ void key_alone(const Launch& launch, const AttentionKeyTile& tile, int key,
                                       int kv_head, int column) {
  const AttentionBackward& a = launch.args;
  const int group = group_of(a.shape);
  const DirectTile keys{keys_of(launch, kv_head), key, 0, 1};
  const DirectTile values{values_of(launch, kv_head), key, 0, 1};
  float dk[kOut / 8][4], dv[kOut / 8][4];
  clear(dk);
  clear(dv);
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (int number = tile.tile_begin; number < tile.tile_end; ++number) {
      const AttentionTile rows = a.key_tiles.rows[number];
      const RowFacts facts = facts_in_global(launch, rows, head);
      int first = kBlock, last = 0;  // the rows that see it: a stretch
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
  store_sums(dkv_of(launch, a.dk, kv_head), dk, key, key + 1, column);
  store_sums(dkv_of(launch, a.dv, kv_head), dv, key, key + 1, column);
}

// ---- keys ---------------------------------------------------------------------------------------
// Where a block of keys_kernel is: a tile of keys, a head of keys and a part of its columns; and a
// head of the group with a tile of rows.
struct KeyPlace {
  int item = 0, items = 0, parts = 1;
  int part = 0, kv_head = 0, head = 0;
  int number = 0;  // of the tile of rows
  int parity = 0;
  bool begins = false, ends = false;
  AttentionKeyTile keys, next_keys;
  AttentionTile rows;

  __device__ __forceinline__ bool valid() const { return item < items; }
  __device__ __forceinline__ bool has_rows() const { return keys.tile_begin < keys.tile_end; }
  __device__ __forceinline__ AttentionKeyTile fetch(const AttentionBackward& a, int at) const {
    if (at >= items) return {};
    const int tile = at / parts / static_cast<int>(a.shape.kv_heads);
    const int beyond = tile - *a.key_tiles.count;
    if (beyond < 0) return a.key_tiles.tiles[tile];
    const int begin = *a.key_tiles.covered + beyond * kBlock;
    return {begin, min(begin + kBlock, static_cast<int>(a.shape.key)), 0, 0};
  }
  __device__ __forceinline__ void fetch_rows(const AttentionBackward& a) {
    if (has_rows()) rows = widened(a.key_tiles.rows[number], a.shape, nullptr);
    ends = !has_rows() ||
           (number + 1 == keys.tile_end && head + 1 == (kv_head + 1) * group_of(a.shape));
  }
  __device__ __forceinline__ void enter(const AttentionBackward& a) {
    const int pair = item / parts;
    part = item % parts;
    kv_head = pair % static_cast<int>(a.shape.kv_heads);
    head = kv_head * group_of(a.shape);
    number = keys.tile_begin;
    begins = true;
    next_keys = fetch(a, item + static_cast<int>(gridDim.x));
    fetch_rows(a);
  }
  __device__ __forceinline__ void begin(const AttentionBackward& a, int part_count) {
    const int uncovered = static_cast<int>(a.shape.key) - *a.key_tiles.covered;
    const int tiles = *a.key_tiles.count + (max(uncovered, 0) + kBlock - 1) / kBlock;
    parts = part_count;
    items = tiles * static_cast<int>(a.shape.kv_heads) * parts;
    item = static_cast<int>(blockIdx.x);
    keys = fetch(a, item);
    enter(a);
  }
  __device__ __forceinline__ void leave(const AttentionBackward& a) {
    item += static_cast<int>(gridDim.x);
    parity ^= 1;
    keys = next_keys;
    enter(a);
  }
  __device__ __forceinline__ void advance(const AttentionBackward& a) {
    if (ends) return leave(a);
    begins = false;
    if (++number == keys.tile_end) {
      number = keys.tile_begin;
      ++head;
    }
    fetch_rows(a);
  }
};

template <int kDim>
__device__ __forceinline__ void bring(const Launch& launch, const KeyPlace& place,
                                      const Layout<kDim>& shared, int stage) {
  if (!place.has_rows()) return;
  if (place.begins) {
    const int item = Layout<kDim>::kKept == 2 ? place.parity : 0;
    const int count = place.keys.key_end - place.keys.key_begin;
    bring_tile(shared.kept(0, item), keys_of(launch, place.kv_head), place.keys.key_begin, 0,
               count);
    bring_tile(shared.kept(1, item), values_of(launch, place.kv_head), place.keys.key_begin, 0,
               count);
  }
  const int rows = place.rows.row_end - place.rows.row_begin;
  bring_tile(shared.streamed(0, stage), queries_of(launch, place.head), place.rows.row_begin, 0,
             rows);
  bring_tile(shared.streamed(1, stage), douts_of(launch, place.head), place.rows.row_begin, 0,
             rows);
  bring_facts(launch, place.rows, place.head, shared.facts(stage));
}

__device__ __forceinline__ bool is_short(const AttentionTile& tile) {
  return tile.key_begin < tile.key_end && tile.sequence_end - tile.origin <= kBlock;
}

// Runs keys and rows again whose gradients are not finite, each alone.
template <int kDim>
__device__ __noinline__ void repair_keys(const Launch& launch) {
  using L = Layout<kDim>;
  const AttentionBackward& a = launch.args;
  KeyPlace place;
  for (place.begin(a, L::kParts); place.valid(); place.leave(a)) {
    if (!place.has_rows()) continue;
    for (int key = place.keys.key_begin + warp_id(); key < place.keys.key_end;
         key += kThreads / 32) {
      if (is_poisoned(dkv_of(launch, a.dk, place.kv_head), key) ||
          is_poisoned(dkv_of(launch, a.dv, place.kv_head), key)) {
        key_alone<kDim, L::kOut>(launch, place.keys, key, place.kv_head, place.part * L::kOut);
      }
    }
    if (!L::kFused || !is_short(place.rows)) continue;
    const int first_head = place.kv_head * group_of(a.shape);
    for (int head = first_head; head < first_head + group_of(a.shape); ++head) {
      for (int number = place.keys.tile_begin; number < place.keys.tile_end; ++number) {
        const AttentionTile rows = a.key_tiles.rows[number];
        for (int row = rows.row_begin + warp_id(); row < rows.row_end; row += kThreads / 32) {
          if (is_poisoned(dq_of(launch, head), row)) row_alone<kDim>(launch, rows, row, head);
        }
      }
    }
  }
}

template <int kDim>
__global__ void __launch_bounds__(kThreads, Layout<kDim>::kResident)
    keys_kernel(const __grid_constant__ Launch launch) {
  using L = Layout<kDim>;
  const AttentionBackward& a = launch.args;
  const L shared{dynamic_shared()};
  const int slice = warp_id() * kSlice;

  KeyPlace next;
  next.begin(a, L::kParts);
  if (next.valid()) bring(launch, next, shared, 0);
  float dk[L::kOut / 8][4], dv[L::kOut / 8][4];
  bool poisoned = false;
  for (int step = 0; next.valid(); ++step) {
    const KeyPlace now = next;
    const int stage = L::kStreamed == 2 ? step & 1 : 0;
    next.advance(a);
    copies_wait();
    __syncthreads();  // what is needed is there; nobody reads the other half any more
    const bool early = L::kStreamed == 2 && (L::kKept == 2 || !next.begins);
    if (early && next.valid()) bring(launch, next, shared, stage ^ 1);

    if (now.begins) {
      clear(dk);
      clear(dv);
    }
    const int item = L::kKept == 2 ? now.parity : 0;
    const auto keys = shared.kept(0, item), values = shared.kept(1, item);
    const auto queries = shared.streamed(0, stage), douts = shared.streamed(1, stage);
    const int key = now.keys.key_begin + slice;
    if (now.has_rows()) {
      const RowFacts facts = facts_in_shared(now.rows, shared.facts(stage));
      if (key < now.keys.key_end) {
        add_key_gradients<kDim, L::kOut>(dk, dv, a.shape, facts, now.head, key, slice,
                                         now.part * L::kOut, keys, values, queries, douts);
      }
      if constexpr (L::kFused) {
        const int mine = kBlock - kSlice - slice;
        if (is_short(now.rows) && now.rows.row_begin + mine < now.rows.row_end) {
          float dq[kDim / 8][4];
          clear(dq);
          add_query_gradients<kDim>(dq, Scoring(a.shape, now.head),
                                    slice_facts(a.shape, facts, mine, now.head), now.keys.key_begin,
                                    mine, keys, values, queries, douts);
          poisoned = not_finite(dq) != 0 || poisoned;
          store_sums(dq_of(launch, now.head), dq, now.rows.row_begin + mine, now.rows.row_end, 0);
        }
      }
    }
    if (now.ends && key < now.keys.key_end) {
      poisoned = (not_finite(dk) | not_finite(dv)) != 0 || poisoned;
      store_sums(dkv_of(launch, a.dk, now.kv_head), dk, key, now.keys.key_end, now.part * L::kOut);
      store_sums(dkv_of(launch, a.dv, now.kv_head), dv, key, now.keys.key_end, now.part * L::kOut);
    }
    if (!early && next.valid()) {
      __syncthreads();
      bring(launch, next, shared, L::kStreamed == 2 ? stage ^ 1 : 0);
    }
  }
  if (__syncthreads_or(poisoned)) repair_keys<kDim>(launch);
}

// ---- queries ------------------------------------------------------------------------------------
// Where a block of queries_kernel is: a tile of rows and a head, and a block of keys.
struct QueryPlace {
  int item = 0, items = 0;
  int head = 0;
  int step = 0, steps = 0;
  int block = 0;  // its first key
  int parity = 0;
  AttentionTile tile, next_tile;

  __device__ __forceinline__ bool valid() const { return item < items; }
  __device__ __forceinline__ bool has_keys() const { return tile.key_begin < tile.key_end; }
  __device__ __forceinline__ AttentionTile fetch(const AttentionBackward& a, int at) const {
    if (at >= items) return {};
    return widened(a.tiles.tiles[at / static_cast<int>(a.shape.heads)], a.shape, nullptr);
  }
  __device__ __forceinline__ void enter(const AttentionBackward& a) {
    head = item % static_cast<int>(a.shape.heads);
    step = 0;
    steps = 1;
    if (has_keys()) {
      block = tile.origin + (tile.key_begin - tile.origin) / kBlock * kBlock;
      steps = (tile.key_end - block + kBlock - 1) / kBlock;
    }
    next_tile = fetch(a, item + static_cast<int>(gridDim.x));
  }
  // `part`: of the list, all or the first.
  __device__ __forceinline__ void begin(const AttentionBackward& a, int part) {
    items = a.tiles.count[part] * static_cast<int>(a.shape.heads);
    item = static_cast<int>(blockIdx.x);
    tile = fetch(a, item);
    enter(a);
  }
  __device__ __forceinline__ void leave(const AttentionBackward& a) {
    item += static_cast<int>(gridDim.x);
    parity ^= 1;
    tile = next_tile;
    enter(a);
  }
  __device__ __forceinline__ void advance(const AttentionBackward& a) {
    block += kBlock;
    if (++step == steps) leave(a);
  }
};

template <int kDim>
__device__ __forceinline__ void bring(const Launch& launch, const QueryPlace& place,
                                      const Layout<kDim>& shared, int stage) {
  if (!place.has_keys()) return;
  const AttentionTile& tile = place.tile;
  if (place.step == 0) {
    const int item = Layout<kDim>::kKept == 2 ? place.parity : 0;
    const int rows = tile.row_end - tile.row_begin;
    bring_tile(shared.kept(0, item), queries_of(launch, place.head), tile.row_begin, 0, rows);
    bring_tile(shared.kept(1, item), douts_of(launch, place.head), tile.row_begin, 0, rows);
    bring_facts(launch, tile, place.head, shared.facts(item));
  }
  const int kv_head = place.head / group_of(launch.args.shape);
  const int begin = max(tile.key_begin - place.block, 0);
  const int end = min(tile.key_end - place.block, kBlock);
  bring_tile(shared.streamed(0, stage), keys_of(launch, kv_head), place.block, begin, end);
  bring_tile(shared.streamed(1, stage), values_of(launch, kv_head), place.block, begin, end);
}

template <int kDim>
__device__ __noinline__ void repair_queries(const Launch& launch, int part) {
  QueryPlace place;
  for (place.begin(launch.args, part); place.valid(); place.leave(launch.args)) {
    if (!place.has_keys()) continue;
    for (int row = place.tile.row_begin + warp_id(); row < place.tile.row_end;
         row += kThreads / 32) {
      if (is_poisoned(dq_of(launch, place.head), row)) {
        row_alone<kDim>(launch, place.tile, row, place.head);
      }
    }
  }
}

template <int kDim>
__global__ void __launch_bounds__(kThreads, Layout<kDim>::kResident)
    queries_kernel(const __grid_constant__ Launch launch) {
  using L = Layout<kDim>;
  constexpr int kPart = L::kFused ? 1 : 0;
  const AttentionBackward& a = launch.args;
  const L shared{dynamic_shared()};
  const int slice = warp_id() * kSlice;

  QueryPlace next;
  next.begin(a, kPart);
  if (next.valid()) bring(launch, next, shared, 0);
  float dq[kDim / 8][4];
  SliceFacts rows;
  bool poisoned = false;
  for (int step = 0; next.valid(); ++step) {
    const QueryPlace now = next;
    const int stage = L::kStreamed == 2 ? step & 1 : 0;
    next.advance(a);
    copies_wait();
    __syncthreads();
    const bool early = L::kStreamed == 2 && (L::kKept == 2 || next.step != 0);
    if (early && next.valid()) bring(launch, next, shared, stage ^ 1);

    if (now.tile.row_begin + slice < now.tile.row_end) {
      const int item = L::kKept == 2 ? now.parity : 0;
      if (now.step == 0) clear(dq);
      if (now.has_keys()) {
        if (now.step == 0) {
          rows =
              slice_facts(a.shape, facts_in_shared(now.tile, shared.facts(item)), slice, now.head);
        }
        add_query_gradients<kDim>(dq, Scoring(a.shape, now.head), rows, now.block, slice,
                                  shared.streamed(0, stage), shared.streamed(1, stage),
                                  shared.kept(0, item), shared.kept(1, item));
      }
      if (now.step + 1 == now.steps) {
        poisoned = not_finite(dq) != 0 || poisoned;
        store_sums(dq_of(launch, now.head), dq, now.tile.row_begin + slice, now.tile.row_end, 0);
      }
    }
    if (!early && next.valid()) {
      __syncthreads();
      bring(launch, next, shared, L::kStreamed == 2 ? stage ^ 1 : 0);
    }
  }
  if (__syncthreads_or(poisoned)) repair_queries<kDim>(launch, kPart);
}

template <int kDim>
void start_backward(Stream stream, const Launch& launch) {
  using L = Layout<kDim>;
  static const int64_t key_blocks = resident_blocks(keys_kernel<kDim>, kThreads, L::kBytes);
  static const int64_t query_blocks = resident_blocks(queries_kernel<kDim>, kThreads, L::kBytes);
  const AttentionShape& shape = launch.args.shape;
  if (shape.key > 0) {
    const int64_t items = (shape.key + launch.args.key_tiles.capacity) * shape.kv_heads * L::kParts;
    start(stream, keys_kernel<kDim>, std::min(key_blocks, items), kThreads, L::kBytes, launch);
  }
  if (shape.query > 0) {
    const int64_t items = launch.args.tiles.capacity * shape.heads;
    start(stream, queries_kernel<kDim>, std::min(query_blocks, items), kThreads, L::kBytes, launch);
  }
}

}  // namespace

int64_t attention_backward_workspace(const AttentionShape& shape) {
  return shape.query * shape.heads * int64_t{sizeof(float)};
}

void attention_backward(Stream stream, const AttentionBackward& args) {
  auto* delta = static_cast<float*>(args.workspace);
  if (args.shape.query > 0) attention_delta(stream, args, delta);
  if (args.shape.type == DType::f32) return attention_backward_f32(stream, args, delta);
  const int64_t head_dim = args.shape.head_dim;
  Launch launch;
  launch.args = args;
  launch.delta = delta;
  launch.q_aligned = is_aligned(args.q, args.q_stride, head_dim);
  launch.kv_aligned =
      is_aligned(args.k, args.kv_stride, head_dim) && is_aligned(args.v, args.kv_stride, head_dim);
  launch.dout_aligned = is_aligned(args.dout, args.dout_stride, head_dim);
  launch.dq_aligned = is_aligned(args.dq, args.dq_stride, head_dim);
  launch.dkv_aligned = is_aligned(args.dk, args.dkv_stride, head_dim) &&
                       is_aligned(args.dv, args.dkv_stride, head_dim);
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
