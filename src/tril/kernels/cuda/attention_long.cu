// The forward pass in bf16 for long sequences, on sm_90a: the order and the bits of
// attention_forward.cu, with warpgroup products.
//
// A block has two warpgroups, each with half of a tile of 128 rows. A persistent grid goes through
// (tile, head) pairs, longest first and back and forth, so that every block has the same amount of
// work. The copy engine fetches panels of keys and values into kStages buffers, as far ahead as
// there is room, even across pairs; one thread issues the copies between other work. A warpgroup
// starts the products of p and v of a block and those of the scores of the next together, and then
// waits: meanwhile the other warpgroups of the multiprocessor compute their softmax.
#include <algorithm>
#include <cmath>

#include "tril/kernels/cuda/attention_long.cuh"
#include "tril/kernels/cuda/attention_panels.cuh"
#include "tril/kernels/cuda/attention_softmax.cuh"

namespace tril::kernels::cuda {
namespace {

constexpr int kGroups = 2;
constexpr int kLongThreads = kGroups * kGroupThreads;
[[maybe_unused]] constexpr int kLongWarps = kLongThreads / 32;  // only used where 9.0a is compiled
constexpr int kStages = 4;
static_assert(kLongTileRows == kGroups * kBlock);

struct LongLaunch {
  CUtensorMap q, k, v;
  ForwardLaunch forward;
  // The factor of a product before log2e, and including it if both together round like one after
  // the other.
  float scale = 1.0f, factor = 1.0f;
  bool scales_exactly = false;
};

template <int kDim>
struct Layout {
  static constexpr int kPanels = kDim / kPanelColumns;
  static constexpr int kRowsBytes = kPanels * kPanelBytes;  // of 64 rows
  static constexpr int kStageBytes = 2 * kRowsBytes;
  static constexpr int kQueryBytes = kGroups * kRowsBytes;
  static constexpr int kQueriesAt = kStages * kStageBytes;
  static constexpr int kTilesAt = kQueriesAt + 2 * kQueryBytes;
  static constexpr int kBarriersAt = kTilesAt + 2 * 64;
  static constexpr int kAlignment = 1024;
  static constexpr int kBytes = kBarriersAt + (2 * kStages + 4) * 8 + kAlignment;
  static constexpr int kResident = kDim == 64 ? 2 : 1;
};
static_assert(sizeof(AttentionLongTile) <= 64);

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <int kDim>
struct LongShared {
  using L = Layout<kDim>;
  unsigned char* memory;

  __device__ __forceinline__ unsigned char* keys(int stage) const {
    return memory + stage * L::kStageBytes;
  }
  __device__ __forceinline__ unsigned char* values(int stage) const {
    return keys(stage) + L::kRowsBytes;
  }
  __device__ __forceinline__ unsigned char* queries(int number, int group) const {
    return memory + L::kQueriesAt + number % 2 * L::kQueryBytes + group * L::kRowsBytes;
  }
  __device__ __forceinline__ AttentionLongTile& tile(int number) const {
    return *reinterpret_cast<AttentionLongTile*>(memory + L::kTilesAt + number % 2 * 64);
  }
  __device__ __forceinline__ Barrier* barrier(int number) const {
    return reinterpret_cast<Barrier*>(memory + L::kBarriersAt) + number;
  }
  // Barriers: keys and values have arrived; they are no longer needed. The same for queries and
  // their tile.
  __device__ __forceinline__ Barrier* full(int stage) const { return barrier(stage); }
  __device__ __forceinline__ Barrier* empty(int stage) const { return barrier(kStages + stage); }
  __device__ __forceinline__ Barrier* item_full(int number) const {
    return barrier(2 * kStages + number % 2);
  }
  __device__ __forceinline__ Barrier* item_empty(int number) const {
    return barrier(2 * kStages + 2 + number % 2);
  }
};
__device__ __forceinline__ int stage_of(int step) { return step % kStages; }
__device__ __forceinline__ int step_parity(int step) { return parity_of(step / kStages); }

// ---- the list of work ---------------------------------------------------------------------------
// The blocks of keys of a tile, from the origin.
__device__ __forceinline__ int first_block(const AttentionLongTile& tile) {
  return (tile.key_begin - tile.origin) / kBlock;
}
__device__ __forceinline__ int blocks_end(int origin, int key_end) {
  return (key_end - origin + kBlock - 1) / kBlock;
}

// Issues the copies for the steps, in their order; by one thread.
template <int kDim>
struct Pump {
  int items = 0;
  int number = 0;  // the item of the next step
  int asked = 0;   // steps issued so far
  int left = 0;    // of the item; 0: not begun
  int key = 0;     // of the next step
  int kv_head = 0;

  __device__ __forceinline__ void begin(const LongLaunch& launch, const LongShared<kDim>& shared) {
    using L = Layout<kDim>;
    const AttentionForward& a = launch.forward.args;
    const LongItem item(a.shape.heads, number);
    const AttentionLongTile tile = a.long_tiles.tiles[item.tile];
    shared.tile(number) = tile;
    barrier_expect(shared.item_full(number), L::kQueryBytes);
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      copy_tile<kDim>(shared.queries(number, group), launch.q, item.head,
                      tile.row_begin + group * kBlock, shared.item_full(number));
    }
    key = tile.origin + first_block(tile) * kBlock;
    left = blocks_end(tile.origin, tile.key_end) - first_block(tile);
    kv_head = item.head / static_cast<int>(a.shape.heads / a.shape.kv_heads);
  }

  __device__ __forceinline__ void ask(const LongLaunch& launch, const LongShared<kDim>& shared) {
    using L = Layout<kDim>;
    if (left == 0) begin(launch, shared);
    const int stage = stage_of(asked);
    barrier_expect(shared.full(stage), L::kStageBytes);
    copy_tile<kDim>(shared.keys(stage), launch.k, kv_head, key, shared.full(stage));
    copy_tile<kDim>(shared.values(stage), launch.v, kv_head, key, shared.full(stage));
    ++asked;
    key += kBlock;
    if (--left == 0) ++number;
  }

  // As far as there is room, and in any case for step `needed`.
  __device__ __forceinline__ void run(const LongLaunch& launch, const LongShared<kDim>& shared,
                                      int needed) {
    while (number < items) {
      Barrier* const place = shared.empty(stage_of(asked));
      const int place_parity = step_parity(asked) ^ 1, item_parity = parity_of(number / 2) ^ 1;
      if (asked > needed) {
        if (!barrier_ended(place, place_parity)) return;
        if (left == 0 && !barrier_ended(shared.item_empty(number), item_parity)) return;
      } else {
        barrier_wait(place, place_parity);
        if (left == 0) barrier_wait(shared.item_empty(number), item_parity);
      }
      ask(launch, shared);
    }
  }
};

// ---- a block of keys ----------------------------------------------------------------------------
// The bias of a head, and where in it key 0 is for the two rows of this thread.
struct LongBias {
  const float* of_head = nullptr;
  int last = 0;  // of its entries
  int entry[2] = {0, 0};
};

// From products to weights, with the accumulators rescaled to the new maximum, as in
// attend_groups(). Without a bias a positive factor may be applied after the maximum.
template <int kDim, bool kBias>
__device__ __forceinline__ void weigh(Sums<kDim>& sums, float (&s)[8][4], uint32_t (&p)[8][2],
                                      const LongLaunch& launch, const LongBias& bias,
                                      const Sight (&sight)[2],
                                      const AttentionLongTile::Half& half_tile, int block) {
  if constexpr (kBias) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = bias.entry[half] + block + 2 * (lane_id() & 3);
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          // Outside the table: only keys that are masked below.
          const float added = __ldg(bias.of_head + max(0, min(at + 8 * n + e, bias.last)));
          float& score = s[n][2 * half + e];
          score = __fadd_rn(__fmul_rn(score, launch.scale), added);
        }
      }
    }
  } else if (!launch.scales_exactly) {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) s[n][e] = __fmul_rn(s[n][e], launch.scale);
    }
  }
  if (block < half_tile.all_first || block + kBlock > half_tile.all_last) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = block + 2 * (lane_id() & 3);
      const int begin = sight[half].lo - at, end = sight[half].hi - at;
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int column = 8 * n + e;
          if (!(begin <= column && column < end)) s[n][2 * half + e] = kNothing;
        }
      }
    }
  }
  float base[2], fading[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float most = kNothing;
#pragma unroll
    for (int n = 0; n < 8; ++n) most = fmaxf(most, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 1));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 2));
    if (launch.scales_exactly) most = __fmul_rn(most, launch.scale);
    const float top = fmaxf(sums.top[half], __fmul_rn(most, kLog2e));
    base[half] = base_of(top);
    fading[half] = exp2_of(__fsub_rn(sums.top[half], base[half]));
    sums.top[half] = top;
  }
  float block_sum[2] = {0.0f, 0.0f};
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float p0 = exp2_of(__fmaf_rn(s[n][2 * half], launch.factor, -base[half]));
      const float p1 = exp2_of(__fmaf_rn(s[n][2 * half + 1], launch.factor, -base[half]));
      p[n][half] = pack_bf16(p0, p1);
      block_sum[half] = __fadd_rn(block_sum[half], low_of(p[n][half]));
      block_sum[half] = __fadd_rn(block_sum[half], high_of(p[n][half]));
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    sums.sum[half] = __fadd_rn(__fmul_rn(sums.sum[half], fading[half]), block_sum[half]);
  }
  // Usually the maximum stays, and multiplying by one would change nothing.
  if (__any_sync(kAllLanes, fading[0] != 1.0f || fading[1] != 1.0f)) {
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums.acc[i][e] = __fmul_rn(sums.acc[i][e], fading[e / 2]);
    }
  }
}

// ---- the grid -----------------------------------------------------------------------------------
// The state of a warpgroup: its view of shared memory and its position in the work.
template <int kDim, bool kBias>
struct Worker {
  const LongLaunch& launch;
  LongShared<kDim> shared;
  int group = 0;
  float* saved = nullptr;
  bool pumps = false;  // this warp issues the copies
  Pump<kDim> pump{};
  int step = 0;  // of all items
  bool poisoned = false;

  __device__ __forceinline__ void run_pump(int needed) {
    if (pumps && is_elected()) pump.run(launch, shared, needed);
    __syncwarp();
  }
  __device__ __forceinline__ void wait_for(int which) {
    run_pump(which);
    barrier_wait(shared.full(stage_of(which)), step_parity(which));
  }
  // This warp no longer needs a buffer.
  __device__ __forceinline__ void drop(Barrier* barrier) {
    __syncwarp();
    if (lane_id() == 0) barrier_arrive(barrier);
  }
  __device__ __forceinline__ void skip(int steps) {
    for (int i = 0; i < steps; ++i) {
      wait_for(step);
      drop(shared.empty(stage_of(step)));
      ++step;
    }
  }

  // Processes the blocks of keys [begin, end) from the origin, which some of the rows see.
  __device__ __forceinline__ void attend(Sums<kDim>& sums, const LongBias& bias,
                                         const Sight (&sight)[2], int number, int origin,
                                         const AttentionLongTile::Half& half, int begin, int end) {
    const uint32_t queries = place_of(shared.queries(number, group));
    const float* earlier = nullptr;
    float s[8][4];
    uint32_t p[8][2];
    wait_for(step);
    products_begin();
    start_rows<kDim>(s, queries, place_of(shared.keys(stage_of(step))));
    products_commit();
    products_wait();
    pin(s);
    for (int number_of = begin; number_of + 1 < end; ++number_of) {
      weigh<kDim, kBias>(sums, s, p, launch, bias, sight, half, origin + number_of * kBlock);
      wait_for(step + 1);
      pin(sums.acc);
      pin(p);
      pin(s);
      products_begin();
      start_columns(sums.acc, p, place_of(shared.values(stage_of(step))));
      start_rows<kDim>(s, queries, place_of(shared.keys(stage_of(step + 1))));
      products_commit();
      products_wait();
      pin(sums.acc);
      pin(s);
      drop(shared.empty(stage_of(step)));
      ++step;
      if ((number_of + 1) % kBlocksPerSpan == 0) {
        end_span(sums, earlier);
        save(sums, saved);
        earlier = saved;
        sums.clear();
      }
    }
    weigh<kDim, kBias>(sums, s, p, launch, bias, sight, half, origin + (end - 1) * kBlock);
    pin(sums.acc);
    pin(p);
    products_begin();
    start_columns(sums.acc, p, place_of(shared.values(stage_of(step))));
    products_commit();
    products_wait();
    pin(sums.acc);
    drop(shared.empty(stage_of(step)));
    ++step;
    end_span(sums, earlier);
  }

  __device__ __forceinline__ void work(int number) {
    const AttentionForward& a = launch.forward.args;
    const int head = LongItem(a.shape.heads, number).head;
    run_pump(step);
    barrier_wait(shared.item_full(number), parity_of(number / 2));
    const AttentionLongTile& tile = shared.tile(number);
    const AttentionLongTile::Half half = tile.halves[group];
    const int origin = same_for_warp(tile.origin), first = same_for_warp(first_block(tile));
    const int steps = same_for_warp(blocks_end(origin, tile.key_end)) - first;
    const int local = group * kBlock + warp_id() % 4 * kSlice + lane_id() / 4;
    SliceRows rows;
    LongBias bias;
    if constexpr (kBias) {
      bias.of_head = a.shape.bias + head * a.shape.bias_offsets;
      bias.last = static_cast<int>(a.shape.bias_offsets) - 1;
    }
    int64_t target[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = tile.row_begin + local + 8 * i;
      target[i] = row < tile.row_end ? row : -1;
      if (row < tile.row_end) rows.sight[i] = {a.intervals[row].lo, a.intervals[row].hi};
      if (kBias && row < tile.row_end) bias.entry[i] = bias_entry(a.shape, row, tile.origin);
    }
    const bool any = half.first < half.last;
    const int begin = same_for_warp(any ? (half.first - origin) / kBlock : first);
    const int end = same_for_warp(any ? blocks_end(origin, half.last) : first);
    Sums<kDim> sums;
    sums.clear();
    skip(begin - first);
    if (begin < end) attend(sums, bias, rows.sight, number, origin, half, begin, end);
    skip(first + steps - end);
    drop(shared.item_empty(number));
    if (begin == end) return;
    poisoned = rows_not_finite(sums.acc, target) || poisoned;
    store_rows(launch.forward, sums, rows, head, target);
  }
};

template <int kDim>
__device__ __noinline__ void repair_long(const LongLaunch& launch, float* saved, int items) {
  const AttentionForward& a = launch.forward.args;
  for (int number = 0; number < items; ++number) {
    const LongItem item(a.shape.heads, number);
    const AttentionLongTile& tile = a.long_tiles.tiles[item.tile];
    repair_tile<kDim>(
        launch.forward,
        {tile.row_begin, tile.row_end, tile.origin, tile.key_begin, tile.key_end, tile.key_end},
        item.head, saved);
  }
}

#endif  // sm_90a

template <int kDim, bool kBias>
__global__ void __launch_bounds__(kLongThreads, Layout<kDim>::kResident)
    long_kernel(const __grid_constant__ LongLaunch launch) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  const AttentionForward& a = launch.forward.args;
  unsigned char* memory = dynamic_shared();
  memory += -shared_address(memory) % Layout<kDim>::kAlignment;
  const LongShared<kDim> shared{memory};
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      barrier_init(shared.full(i), 1);
      barrier_init(shared.empty(i), kLongWarps);
    }
    for (int i = 0; i < 2; ++i) {
      barrier_init(shared.item_full(i), 1);
      barrier_init(shared.item_empty(i), kLongWarps);
    }
    barriers_made();
  }
  __syncthreads();
  const int items =
      same_for_warp(long_items(*a.long_tiles.count * static_cast<int>(a.shape.heads)));
  Worker<kDim, kBias> worker{launch, shared};
  worker.group = same_for_warp(static_cast<int>(threadIdx.x) / kGroupThreads);
  worker.saved = static_cast<float*>(a.workspace) + blockIdx.x * saved_floats<kDim>(kLongThreads);
  worker.pumps = same_for_warp(warp_id()) == 0;
  worker.pump.items = items;
  for (int number = 0; number < items; ++number) worker.work(number);
  if (__syncthreads_or(worker.poisoned)) repair_long<kDim>(launch, worker.saved, items);
#endif
}

// ---- on the host --------------------------------------------------------------------------------
bool is_for_long(const AttentionForward& args) {
  const AttentionShape& shape = args.shape;
  const bool aligned = is_aligned(args.q, args.q_stride, shape.head_dim) &&
                       is_aligned(args.k, args.kv_stride, shape.head_dim) &&
                       is_aligned(args.v, args.kv_stride, shape.head_dim);
  return args.long_tiles.capacity > 0 && is_long_shape(shape) && args.table == nullptr && aligned;
}

template <int kDim>
int64_t long_grid(const AttentionForward& args) {
  const int64_t blocks =
      args.shape.bias != nullptr
          ? resident_blocks<long_kernel<kDim, true>>(kLongThreads, Layout<kDim>::kBytes)
          : resident_blocks<long_kernel<kDim, false>>(kLongThreads, Layout<kDim>::kBytes);
  return std::min(blocks, args.long_tiles.capacity * args.shape.heads);
}

// Whether multiplying by this is exact, except for numbers too small to matter.
bool is_power_of_two(float scale) {
  int exponent = 0;
  return std::frexp(scale, &exponent) == 0.5f && exponent <= 1 && exponent >= -20;
}

template <int kDim>
bool start_long(Stream stream, const ForwardLaunch& forward) {
  const AttentionForward& a = forward.args;
  LongLaunch launch{};
  launch.forward = forward;
  launch.scale = a.shape.scale;
  // A bias is added to the scaled score.
  launch.scales_exactly = is_power_of_two(a.shape.scale) && a.shape.bias == nullptr;
  launch.factor = launch.scales_exactly ? a.shape.scale * kLog2e : kLog2e;
  if (!describe_rows(&launch.q, a.q, a.shape.query, a.shape.heads, kDim, a.q_stride) ||
      !describe_rows(&launch.k, a.k, a.shape.key, a.shape.kv_heads, kDim, a.kv_stride) ||
      !describe_rows(&launch.v, a.v, a.shape.key, a.shape.kv_heads, kDim, a.kv_stride)) {
    return false;
  }
  start(stream, a.shape.bias != nullptr ? long_kernel<kDim, true> : long_kernel<kDim, false>,
        long_grid<kDim>(a), kLongThreads, Layout<kDim>::kBytes, launch);
  return true;
}

}  // namespace

bool describe_rows(CUtensorMap* map, const void* base, int64_t rows, int64_t heads,
                   int64_t head_dim, int64_t stride) {
  using Encode = decltype(&cuTensorMapEncodeTiled);
  // The driver's function, looked up at run time: the program starts without a driver.
  static const Encode encode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found,
                                                               12000, cudaEnableDefault, &result);
    const bool there = error == cudaSuccess && result == cudaDriverEntryPointSuccess;
    return there ? reinterpret_cast<Encode>(found) : nullptr;
  }();
  if (encode == nullptr) return false;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(head_dim), static_cast<cuuint64_t>(heads),
                              static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(head_dim * 2),
                                static_cast<cuuint64_t>(stride * 2)};
  const cuuint32_t box[] = {kPanelColumns, 1, kBlock};
  const cuuint32_t steps[] = {1, 1, 1};
  return encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, const_cast<void*>(base), sizes, strides,
                box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

int64_t long_attention_saved_floats(const AttentionForward& args) {
  if (!is_for_long(args) || args.long_tiles.most_keys <= kKeySpan) return 0;
  if (args.shape.head_dim == 64) return long_grid<64>(args) * saved_floats<64>(kLongThreads);
  return long_grid<128>(args) * saved_floats<128>(kLongThreads);
}

bool start_long_attention(Stream stream, const ForwardLaunch& launch) {
  if (!is_for_long(launch.args)) return false;
  if (launch.args.shape.head_dim == 64) return start_long<64>(stream, launch);
  return start_long<128>(stream, launch);
}

}  // namespace tril::kernels::cuda
