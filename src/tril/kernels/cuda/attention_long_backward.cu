// The backward pass in bf16 for long sequences, on sm_90a: the order and the bits of
// attention_backward.cu, with products of warpgroups.
//
// Two kernels, which are one: a block owns a part, up to kGroups tiles of 64 keys or of 64 rows,
// one a warpgroup, and the tiles of the other side stream past it. With own tiles x, y and streamed
// ones u, w, both kernels make s = x uᵀ and dp = y wᵀ, from them p and ds, and add ds u to one sum:
// dk where x, y, u, w are keys, values, queries, douts, and dq where they are queries, douts, keys,
// values. That of keys adds p w to another sum, dv. The weights never leave registers: as the
// products leave them they are operands of the next.
//
// A thread of one more warpgroup asks the copy engine for tiles, as far ahead as there is room,
// also of the next part. While a warpgroup makes weights the others have products.
#include <algorithm>

#include "tril/kernels/cuda/attention_gradients.cuh"
#include "tril/kernels/cuda/attention_long.cuh"
#include "tril/kernels/cuda/attention_panels.cuh"

namespace tril::kernels::cuda {
namespace {

enum class Side { keys, rows };  // what a block owns

struct LongLaunch {
  CUtensorMap q, k, v, dout;
  BackwardLaunch backward;
  AttentionLongParts parts;
};

// Rows [begin, end), of whose keys some row sees [first, last). Or keys, which are both.
struct Stretch {
  int begin = 0, end = 0;
  int first = 0, last = 0;
};

template <int kDim>
struct Layout {
  static constexpr int kGroups = kDim == 64 ? 3 : 2;  // as registers allow
  static constexpr int kStages = kDim == 64 ? 4 : 2;  // as shared memory allows
  static constexpr int kConsumers = kGroups * kGroupThreads;
  static constexpr int kThreads = kConsumers + kGroupThreads;
  // Registers of a thread that multiplies, and of one that only asks for copies: as many in all as
  // the block starts with.
  static constexpr int kManyRegisters = kDim == 64 ? 160 : 232;
  static constexpr int kFewRegisters = kDim == 64 ? 32 : 40;
  static_assert(kManyRegisters * kConsumers + kFewRegisters * kGroupThreads ==
                65536 / kThreads / 8 * 8 * kThreads);
  static constexpr int kPlace = kDim == 64 ? 1 : 0;  // in kLongWidths
  static_assert(kLongWidths[kPlace] == kGroups);

  // Two tiles, and what is known of their rows, where they are rows.
  static constexpr int kTileBytes = kDim / kPanelColumns * kPanelBytes;
  static constexpr int kFactBytes = kBlock * int{sizeof(RowFact)};
  static constexpr int kPieceBytes = 2 * kTileBytes + kFactBytes;
  static constexpr int kAlignment = 1024;
  static_assert(kPieceBytes % kAlignment == 0);

  // A part as it is worked on: what each warpgroup owns, and how many tiles stream past.
  struct Part {
    int steps = 0;
    int first = 0;  // key that streams past, where rows are owned
    int head = 0;
    Stretch own[kGroups] = {};
  };
  static constexpr int kStagesAt = 2 * kGroups * kPieceBytes;
  static constexpr int kPartsAt = kStagesAt + kStages * kPieceBytes;
  static constexpr int kStretchesAt = kPartsAt + 2 * 64;
  static constexpr int kBarriersAt = kStretchesAt + kStages * int{sizeof(Stretch)};
  static constexpr int kBytes = kBarriersAt + (2 * kStages + 4) * 8 + kAlignment;
  static_assert(sizeof(Part) <= 64);
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <int kDim>
struct Piece {
  unsigned char* memory;
  __device__ __forceinline__ unsigned char* tile(int which) const {
    return memory + which * Layout<kDim>::kTileBytes;
  }
  __device__ __forceinline__ RowFact* facts() const { return reinterpret_cast<RowFact*>(tile(2)); }
};

template <int kDim>
struct LongShared {
  using L = Layout<kDim>;
  using Part = typename L::Part;
  unsigned char* memory;

  __device__ __forceinline__ Piece<kDim> own(int number, int group) const {
    return {memory + (number % 2 * L::kGroups + group) * L::kPieceBytes};
  }
  __device__ __forceinline__ Piece<kDim> streamed(int stage) const {
    return {memory + L::kStagesAt + stage * L::kPieceBytes};
  }
  __device__ __forceinline__ Part& part(int number) const {
    return *reinterpret_cast<Part*>(memory + L::kPartsAt + number % 2 * 64);
  }
  __device__ __forceinline__ Stretch& stretch(int stage) const {
    return reinterpret_cast<Stretch*>(memory + L::kStretchesAt)[stage];
  }
  __device__ __forceinline__ Barrier* barrier(int number) const {
    return reinterpret_cast<Barrier*>(memory + L::kBarriersAt) + number;
  }
  // What streams past is there; it is no longer needed. The same for what is owned.
  __device__ __forceinline__ Barrier* full(int stage) const { return barrier(stage); }
  __device__ __forceinline__ Barrier* empty(int stage) const { return barrier(L::kStages + stage); }
  __device__ __forceinline__ Barrier* part_full(int number) const {
    return barrier(2 * L::kStages + number % 2);
  }
  __device__ __forceinline__ Barrier* part_empty(int number) const {
    return barrier(2 * L::kStages + 2 + number % 2);
  }
  __device__ __forceinline__ void make_barriers() const {
    constexpr int kWarps = L::kConsumers / 32;
    for (int i = 0; i < L::kStages; ++i) {
      barrier_init(full(i), 1);
      barrier_init(empty(i), kWarps);
    }
    for (int i = 0; i < 2; ++i) {
      barrier_init(part_full(i), 1);
      barrier_init(part_empty(i), kWarps);
    }
    barriers_made();
  }
};

template <Side kSide>
__device__ __forceinline__ LongItem item_at(const LongLaunch& launch, int number) {
  const AttentionShape& shape = launch.backward.args.shape;
  return LongItem(kSide == Side::keys ? shape.kv_heads : shape.heads, number);
}

// ---- copies -------------------------------------------------------------------------------------
// Asks the copy engine for everything, in the order in which it is needed; by one thread.
template <int kDim, Side kSide>
struct Producer {
  using L = Layout<kDim>;
  const LongLaunch& launch;
  LongShared<kDim> shared;
  int step = 0;  // of all parts

  __device__ __forceinline__ void copy_rows(const Piece<kDim>& to, int row, int head,
                                            Barrier* barrier) const {
    copy_tile<kDim>(to.tile(0), launch.q, head, row, barrier);
    copy_tile<kDim>(to.tile(1), launch.dout, head, row, barrier);
    copy_bytes(to.facts(), facts_of(launch.backward, row, head), L::kFactBytes, barrier);
  }
  __device__ __forceinline__ void copy_keys(const Piece<kDim>& to, int key, int kv_head,
                                            Barrier* barrier) const {
    copy_tile<kDim>(to.tile(0), launch.k, kv_head, key, barrier);
    copy_tile<kDim>(to.tile(1), launch.v, kv_head, key, barrier);
  }

  __device__ __forceinline__ void own_keys(const AttentionLongPart& from, int number, int kv_head) {
    auto& part = shared.part(number);
    Barrier* const full = shared.part_full(number);
    const int blocks = (from.end - from.begin + kBlock - 1) / kBlock;
    part.head = kv_head;
    part.steps = (from.last - from.first) * group_of(launch.backward.args.shape);
    for (int group = 0; group < L::kGroups; ++group) {
      const int begin = from.begin + group * kBlock, end = min(begin + kBlock, from.end);
      part.own[group] = group < blocks ? Stretch{begin, end, begin, end} : Stretch{};
    }
    barrier_expect(full, blocks * 2 * L::kTileBytes);
    for (int group = 0; group < blocks; ++group) {
      copy_keys(shared.own(number, group), from.begin + group * kBlock, kv_head, full);
    }
  }
  __device__ __forceinline__ void own_rows(const AttentionLongPart& from, int number, int head) {
    auto& part = shared.part(number);
    Barrier* const full = shared.part_full(number);
    const int tiles = from.end - from.begin;
    part.head = head;
    part.steps = (from.last - from.first + kBlock - 1) / kBlock;
    part.first = from.first;
    for (int group = 0; group < L::kGroups; ++group) {
      part.own[group] = group < tiles ? rows_at(from.begin + group) : Stretch{};
    }
    barrier_expect(full, tiles * L::kPieceBytes);
    for (int group = 0; group < tiles; ++group) {
      copy_rows(shared.own(number, group), part.own[group].begin, head, full);
    }
  }

  __device__ __forceinline__ Stretch rows_at(int tile) const {
    const AttentionTile& rows = launch.backward.args.key_tiles.rows[tile];
    return {rows.row_begin, rows.row_end, rows.key_begin, rows.key_end};
  }
  // A place for what streams past.
  __device__ __forceinline__ int next_stage(const Stretch& stretch, int bytes) {
    const int stage = step % L::kStages;
    barrier_wait(shared.empty(stage), parity_of(step / L::kStages) ^ 1);
    shared.stretch(stage) = stretch;
    barrier_expect(shared.full(stage), bytes);
    ++step;
    return stage;
  }
  __device__ __forceinline__ void stream_rows(const AttentionLongPart& part, int kv_head) {
    if (part.first >= part.last) return;
    const int group = group_of(launch.backward.args.shape);
    Stretch next = rows_at(part.first);  // read ahead: it lies far away
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      for (int tile = part.first; tile < part.last; ++tile) {
        const Stretch rows = next;
        next = rows_at(tile + 1 < part.last ? tile + 1 : part.first);
        const int stage = next_stage(rows, L::kPieceBytes);
        copy_rows(shared.streamed(stage), rows.begin, head, shared.full(stage));
      }
    }
  }
  __device__ __forceinline__ void stream_keys(const AttentionLongPart& part, int head) {
    const int kv_head = head / group_of(launch.backward.args.shape);
    for (int key = part.first; key < part.last; key += kBlock) {
      const int end = key + kBlock;  // rows do not see those of a neighbour
      const int stage = next_stage({key, end, key, end}, 2 * L::kTileBytes);
      copy_keys(shared.streamed(stage), key, kv_head, shared.full(stage));
    }
  }

  __device__ __forceinline__ void run(int items) {
    for (int number = 0; number < items; ++number) {
      const LongItem item = item_at<kSide>(launch, number);
      const AttentionLongPart part = launch.parts.parts[item.tile];
      barrier_wait(shared.part_empty(number), parity_of(number / 2) ^ 1);
      if constexpr (kSide == Side::keys) {
        own_keys(part, number, item.head);
        stream_rows(part, item.head);
      } else {
        own_rows(part, number, item.head);
        stream_keys(part, item.head);
      }
    }
  }
};

// ---- weights ------------------------------------------------------------------------------------
// p and ds of 64 by 64 pairs, two columns a register: lane (g, t) of a warp has rows g and g + 8 of
// its slice and columns 8 n + 2 t and the next.
struct Weights {
  uint32_t p[8][2], ds[8][2];
};

// Where rows of attention are columns: those of `facts`, the first `count` of them; this thread has
// the keys `key` and key + 8.
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

// Where keys are columns, from `key` on; this thread has two rows of attention. Only ds is made.
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

// ---- sums ---------------------------------------------------------------------------------------
// What a warpgroup has of a block of shared memory and of the work.
template <int kDim, Side kSide>
struct Worker {
  using L = Layout<kDim>;
  const LongLaunch& launch;
  LongShared<kDim> shared;
  int group = 0;
  int step = 0;  // of all parts
  bool poisoned = false;
  float ds_sums[kDim / 8][4];                           // dk or dq
  float p_sums[kSide == Side::keys ? kDim / 8 : 1][4];  // dv
  RowFact fact[2];                                      // of this thread's rows, where it has some

  // This warp no longer needs something.
  __device__ __forceinline__ void drop(Barrier* barrier) {
    __syncwarp();
    if (lane_id() == 0) barrier_arrive(barrier);
  }
  __device__ __forceinline__ int first_of_thread(int begin) const {
    return begin + warp_id() % 4 * kSlice + lane_id() / 4;
  }

  // All rows see all keys: those of a sequence see no less to the left and no more to the right
  // than those after them.
  __device__ __forceinline__ bool is_whole(const Stretch& rows, const RowFact* facts,
                                           int key) const {
    const int count = rows.end - rows.begin;
    return facts[count - 1].lo <= key && key + kBlock <= facts[0].hi;
  }
  __device__ __forceinline__ void wait_for(int which) {
    barrier_wait(shared.full(which % L::kStages), parity_of(which / L::kStages));
  }
  __device__ __forceinline__ Piece<kDim> streamed(int which) const {
    return shared.streamed(which % L::kStages);
  }
  __device__ __forceinline__ void end_step() {
    drop(shared.empty(step % L::kStages));
    ++step;
  }
  __device__ __forceinline__ void skip(int steps) {
    for (int i = 0; i < steps; ++i) {
      wait_for(step);
      end_step();
    }
  }
  // Starts s = x uᵀ and dp = y wᵀ.
  __device__ __forceinline__ void start_scores(float (&s)[8][4], float (&dp)[8][4],
                                               const Piece<kDim>& mine, const Piece<kDim>& other) {
    start_rows<kDim>(s, place_of(mine.tile(0)), place_of(other.tile(0)));
    start_rows<kDim>(dp, place_of(mine.tile(1)), place_of(other.tile(1)));
  }

  // What the rows of one tile add to dk and dv.
  __device__ __forceinline__ void add_rows(const Stretch& own, const Piece<kDim>& mine,
                                           const Stretch& rows) {
    const Piece<kDim> other = streamed(step);
    float s[8][4], dp[8][4];
    products_begin();
    start_scores(s, dp, mine, other);
    products_commit();
    products_wait();
    pin(s);
    pin(dp);
    Weights weights;
    const float factor = factor_of(launch.backward.args.shape);
    const int count = rows.end - rows.begin, key = first_of_thread(own.begin);
    if (count == kBlock && is_whole(rows, other.facts(), own.begin)) {
      weigh_keys<false>(weights, s, dp, other.facts(), factor, count, key);
    } else {
      weigh_keys<true>(weights, s, dp, other.facts(), factor, count, key);
    }
    pin(weights.p);
    pin(weights.ds);
    pin(p_sums);
    pin(ds_sums);
    products_begin();
    start_columns(p_sums, weights.p, place_of(other.tile(1)));
    start_columns(ds_sums, weights.ds, place_of(other.tile(0)));
    products_commit();
    products_wait();
    pin(p_sums);
    pin(ds_sums);
  }
  __device__ __forceinline__ void pass_rows(const Stretch& own, const Piece<kDim>& mine,
                                            int steps) {
    for (int i = 0; i < steps; ++i) {
      wait_for(step);
      const Stretch rows = shared.stretch(step % L::kStages);
      const bool touches = own.first < rows.last && rows.first < own.last;
      if (same_for_warp(touches ? 1 : 0) != 0) add_rows(own, mine, rows);
      end_step();
    }
  }

  // What blocks of keys add to dq, `count` of them from `key` on. There are registers enough to
  // start the scores of the next together with the products of this one.
  __device__ __forceinline__ void add_keys(const Stretch& own, const Piece<kDim>& mine, int key,
                                           int count) {
    const float factor = factor_of(launch.backward.args.shape);
    float s[8][4], dp[8][4];
    Weights weights;
    const auto weigh = [&] {
      if (is_whole(own, mine.facts(), key)) {
        weigh_rows<false>(weights, s, dp, fact, factor, key);
      } else {
        weigh_rows<true>(weights, s, dp, fact, factor, key);
      }
      key += kBlock;
    };
    wait_for(step);
    products_begin();
    start_scores(s, dp, mine, streamed(step));
    products_commit();
    products_wait();
    pin(s);
    pin(dp);
    for (int i = 1; i < count; ++i) {
      weigh();
      wait_for(step + 1);
      pin(weights.ds);
      pin(ds_sums);
      pin(s);
      pin(dp);
      products_begin();
      start_columns(ds_sums, weights.ds, place_of(streamed(step).tile(0)));
      start_scores(s, dp, mine, streamed(step + 1));
      products_commit();
      products_wait();
      pin(ds_sums);
      pin(s);
      pin(dp);
      end_step();
    }
    weigh();
    pin(weights.ds);
    pin(ds_sums);
    products_begin();
    start_columns(ds_sums, weights.ds, place_of(streamed(step).tile(0)));
    products_commit();
    products_wait();
    pin(ds_sums);
    end_step();
  }
  __device__ __forceinline__ void pass_keys(const Stretch& own, const Piece<kDim>& mine, int first,
                                            int steps) {
    const bool any = own.first < own.last;
    const int begin = same_for_warp(any ? (own.first - first) / kBlock : 0);
    const int end = same_for_warp(any ? (own.last - first + kBlock - 1) / kBlock : 0);
    for (int i = 0; i < 2; ++i) fact[i] = mine.facts()[first_of_thread(0) + 8 * i];
    skip(begin);
    if (begin < end) add_keys(own, mine, first + begin * kBlock, end - begin);
    skip(steps - end);
  }

  __device__ __forceinline__ void store(const Stretch& own, int head) {
    const int64_t begin = own.begin + warp_id() % 4 * kSlice, at = begin + lane_id() / 4;
    const int64_t rows[2] = {at < own.end ? at : -1, at + 8 < own.end ? at + 8 : -1};
    poisoned = rows_not_finite(ds_sums, rows) || poisoned;
    if constexpr (kSide == Side::keys) {
      poisoned = rows_not_finite(p_sums, rows) || poisoned;
      store_sums(dk_of(launch.backward, head), ds_sums, begin, own.end, 0);
      store_sums(dv_of(launch.backward, head), p_sums, begin, own.end, 0);
    } else {
      store_sums(dq_of(launch.backward, head), ds_sums, begin, own.end, 0);
    }
  }

  __device__ __forceinline__ void work(int number) {
    barrier_wait(shared.part_full(number), parity_of(number / 2));
    const auto& part = shared.part(number);
    const Stretch own = part.own[group];
    const Piece<kDim> mine = shared.own(number, group);
    const int head = part.head, steps = same_for_warp(part.steps);
    clear(ds_sums);
    clear(p_sums);
    if constexpr (kSide == Side::keys) {
      pass_rows(own, mine, steps);
    } else {
      pass_keys(own, mine, same_for_warp(part.first), steps);
    }
    drop(shared.part_empty(number));
    if (same_for_warp(own.end - own.begin) > 0) store(own, head);
  }
};

// ---- what is not finite -------------------------------------------------------------------------
// Runs keys or rows again whose gradients are not finite, each alone.
template <int kDim, Side kSide>
__device__ __noinline__ void repair_long(const LongLaunch& launch, int items) {
  const BackwardLaunch& backward = launch.backward;
  const int warps = Layout<kDim>::kConsumers / 32;
  for (int number = 0; number < items; ++number) {
    const LongItem item = item_at<kSide>(launch, number);
    const AttentionLongPart part = launch.parts.parts[item.tile];
    if constexpr (kSide == Side::keys) {
      for (int key = part.begin + warp_id(); key < part.end; key += warps) {
        if (!is_poisoned(dk_of(backward, item.head), key) &&
            !is_poisoned(dv_of(backward, item.head), key)) {
          continue;
        }
        key_alone<kDim, kDim>(backward, part.first, part.last, key, item.head, 0);
      }
    } else {
      for (int number_of = part.begin; number_of < part.end; ++number_of) {
        const AttentionTile tile = backward.args.key_tiles.rows[number_of];
        for (int row = tile.row_begin + warp_id(); row < tile.row_end; row += warps) {
          if (is_poisoned(dq_of(backward, item.head), row)) {
            row_alone<kDim>(backward, tile, row, item.head);
          }
        }
      }
    }
  }
}

#endif  // sm_90a

template <int kDim, Side kSide>
__global__ void __launch_bounds__(Layout<kDim>::kThreads, 1)
    long_gradients_kernel(const __grid_constant__ LongLaunch launch) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using L = Layout<kDim>;
  unsigned char* memory = dynamic_shared();
  memory += -shared_address(memory) % L::kAlignment;
  const LongShared<kDim> shared{memory};
  if (threadIdx.x == 0) shared.make_barriers();
  __syncthreads();
  const AttentionShape& shape = launch.backward.args.shape;
  const auto heads = static_cast<int>(kSide == Side::keys ? shape.kv_heads : shape.heads);
  const int items = same_for_warp(long_items(*launch.parts.count * heads));
  const int group = same_for_warp(static_cast<int>(threadIdx.x) / kGroupThreads);
  if (group == L::kGroups) {
    registers_down_to<L::kFewRegisters>();
    if (same_for_warp(warp_id()) == L::kConsumers / 32 && is_elected()) {
      Producer<kDim, kSide>{launch, shared}.run(items);
    }
    __syncthreads_or(0);
  } else {
    registers_up_to<L::kManyRegisters>();
    Worker<kDim, kSide> worker{launch, shared, group};
    for (int number = 0; number < items; ++number) worker.work(number);
    if (__syncthreads_or(worker.poisoned)) repair_long<kDim, kSide>(launch, items);
  }
#endif
}

// ---- on the host --------------------------------------------------------------------------------
template <int kDim, Side kSide>
void start_side(Stream stream, LongLaunch& launch, const AttentionLongParts& parts) {
  using L = Layout<kDim>;
  static const int64_t blocks =
      resident_blocks(long_gradients_kernel<kDim, kSide>, L::kThreads, L::kBytes);
  const AttentionShape& shape = launch.backward.args.shape;
  const int64_t heads = kSide == Side::keys ? shape.kv_heads : shape.heads;
  launch.parts = parts;
  start(stream, long_gradients_kernel<kDim, kSide>, std::min(blocks, parts.capacity * heads),
        L::kThreads, L::kBytes, launch);
}

template <int kDim>
bool start_long(Stream stream, const BackwardLaunch& backward) {
  const AttentionBackward& a = backward.args;
  const AttentionLongParts& keys = a.long_gradients.keys[Layout<kDim>::kPlace];
  if (keys.capacity == 0) return false;
  LongLaunch launch{};
  launch.backward = backward;
  if (!describe_rows(&launch.q, a.q, a.shape.query, a.shape.heads, kDim, a.q_stride) ||
      !describe_rows(&launch.k, a.k, a.shape.key, a.shape.kv_heads, kDim, a.kv_stride) ||
      !describe_rows(&launch.v, a.v, a.shape.key, a.shape.kv_heads, kDim, a.kv_stride) ||
      !describe_rows(&launch.dout, a.dout, a.shape.query, a.shape.heads, kDim, a.dout_stride)) {
    return false;
  }
  start_side<kDim, Side::keys>(stream, launch, keys);
  start_side<kDim, Side::rows>(stream, launch, a.long_gradients.rows[Layout<kDim>::kPlace]);
  return true;
}

}  // namespace

bool start_long_gradients(Stream stream, const BackwardLaunch& launch) {
  const bool aligned = launch.q_aligned && launch.kv_aligned && launch.dout_aligned;
  if (!is_long_shape(launch.args.shape) || !aligned) return false;
  if (launch.args.shape.head_dim == 64) return start_long<64>(stream, launch);
  return start_long<128>(stream, launch);
}

}  // namespace tril::kernels::cuda
