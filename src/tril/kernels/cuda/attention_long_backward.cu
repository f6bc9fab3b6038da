// The backward pass in bf16 for long sequences, on sm_90a: the order and the bits of
// attention_backward.cu, with warpgroup products.
//
// Two kernels from one template: a block owns a part, which is some tiles of 64 keys or of 64 rows,
// one per warpgroup, and the tiles of the other side stream past it. With owned tiles x, y and
// streamed ones u, w, both kernels compute s = x uᵀ and dp = y wᵀ, from them p and ds, and add ds u
// to one sum: dk if x, y, u, w are keys, values, queries, douts, and dq if they are queries, douts,
// keys, values. The kernel for keys adds p w to another sum, dv. The weights never leave registers:
// the products leave them in the layout of the next operands.
//
// A thread of one more warpgroup issues the copies of tiles, as far ahead as there is room, even of
// the next part. While a warpgroup computes weights, the others multiply.
#include <algorithm>
#include <type_traits>

#include "tril/kernels/cuda/attention_gradients.cuh"
#include "tril/kernels/cuda/attention_long.cuh"
#include "tril/kernels/cuda/attention_long_weights.cuh"
#include "tril/kernels/cuda/attention_panels.cuh"

namespace tril::kernels::cuda {
namespace {

enum class Side { keys, rows };  // what a block owns

template <Side kSide>
struct LongLaunch {
  using Part = std::conditional_t<kSide == Side::keys, AttentionLongKeys, AttentionLongRows>;
  CUtensorMap q, k, v, dout;
  BackwardLaunch backward;
  AttentionLongParts<Part> parts;
};

// Rows or keys [begin, end) of an array, and the steps of a round in which they are used.
struct Stretch {
  int begin = 0, end = 0;
  int first = 0, last = 0;
};

template <int kDim, Side kSide>
struct Layout {
  // A thread has registers for its sums, s and dp. If there are more, they keep x and y, so that
  // products read half as much shared memory; or they keep the weights while s and dp of the next
  // tile are computed, so that these start together with the products of this one.
  static constexpr int kGroups = kDim == 64 && kSide == Side::rows ? 3 : kLongKeyBlocks;
  static constexpr bool kKeeps = (kDim == 64) == (kSide == Side::keys);
  static constexpr bool kOverlaps = kDim == 64;
  static_assert(!(kKeeps && kOverlaps) || kGroups == 2);
  static constexpr int kConsumers = kGroups * kGroupThreads;
  static constexpr int kThreads = kConsumers + kGroupThreads;
  // Registers of a thread that multiplies, and of one that only issues copies: the same total that
  // the block starts with.
  static constexpr int kManyRegisters = kGroups == 3 ? 160 : 232;
  static constexpr int kFewRegisters = kGroups == 3 ? 32 : 40;
  static_assert(kManyRegisters * kConsumers + kFewRegisters * kGroupThreads ==
                65536 / kThreads / 8 * 8 * kThreads);

  // Two tiles and, if they are tiles of rows, the facts about these.
  static constexpr int kTileBytes = kDim / kPanelColumns * kPanelBytes;
  static constexpr int kFactBytes = kBlock * int{sizeof(RowFact)};
  static constexpr int kPieceBytes = 2 * kTileBytes + kFactBytes;
  static constexpr int kAlignment = 1024;
  static_assert(kPieceBytes % kAlignment == 0);

  // A part being processed: what each warpgroup owns, and how many tiles stream past, `rounds`
  // times.
  struct Part {
    int head = 0;
    int steps = 0;
    int first_key = 0;  // the first that streams past, if rows are owned
    Stretch own[kGroups] = {};
  };
  static_assert(sizeof(Part) <= 64);
  // Parts present at a time: one that is kept in registers frees its buffer for the next at once.
  static constexpr int kParts = kKeeps ? 1 : 2;
  static constexpr int kStages = kDim == 64 ? 6 : kKeeps ? 4 : 2;
  static constexpr int kStagesAt = kParts * kGroups * kPieceBytes;
  static constexpr int kPartsAt = kStagesAt + kStages * kPieceBytes;
  static constexpr int kCountsAt = kPartsAt + kParts * 64;
  static constexpr int kBarriersAt = kCountsAt + (kStages * 4 + 7) / 8 * 8;
  static constexpr int kBytes = kBarriersAt + 2 * (kStages + kParts) * 8 + kAlignment;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <int kDim>
struct Piece {
  unsigned char* memory;
  __device__ __forceinline__ unsigned char* tile(int which) const {
    return memory + which * (kDim / kPanelColumns * kPanelBytes);
  }
  __device__ __forceinline__ RowFact* facts() const { return reinterpret_cast<RowFact*>(tile(2)); }
};

// A thread's view of shared memory. Parts and steps are counted over everything the block does.
template <int kDim, Side kSide>
struct LongShared {
  using L = Layout<kDim, kSide>;
  using Part = typename L::Part;
  unsigned char* memory;

  __device__ __forceinline__ Piece<kDim> own(int number, int group) const {
    return {memory + (number % L::kParts * L::kGroups + group) * L::kPieceBytes};
  }
  __device__ __forceinline__ Piece<kDim> streamed(int step) const {
    return {memory + L::kStagesAt + step % L::kStages * L::kPieceBytes};
  }
  __device__ __forceinline__ Part& part(int number) const {
    return *reinterpret_cast<Part*>(memory + L::kPartsAt + number % L::kParts * 64);
  }
  // How many rows stream past in a step.
  __device__ __forceinline__ int& count(int step) const {
    return reinterpret_cast<int*>(memory + L::kCountsAt)[step % L::kStages];
  }

  // Barriers: the streamed tiles have arrived; they are no longer needed. The same for owned tiles.
  __device__ __forceinline__ Barrier* barrier(int number) const {
    return reinterpret_cast<Barrier*>(memory + L::kBarriersAt) + number;
  }
  __device__ __forceinline__ Barrier* full(int step) const { return barrier(step % L::kStages); }
  __device__ __forceinline__ Barrier* empty(int step) const {
    return barrier(L::kStages + step % L::kStages);
  }
  __device__ __forceinline__ Barrier* part_full(int number) const {
    return barrier(2 * L::kStages + number % L::kParts);
  }
  __device__ __forceinline__ Barrier* part_empty(int number) const {
    return barrier(2 * L::kStages + L::kParts + number % L::kParts);
  }
  static __device__ __forceinline__ int step_parity(int step) {
    return parity_of(step / L::kStages);
  }
  static __device__ __forceinline__ int part_parity(int number) {
    return parity_of(number / L::kParts);
  }
  __device__ __forceinline__ void make_barriers() const {
    constexpr int kWarps = L::kConsumers / 32;
    for (int i = 0; i < L::kStages; ++i) {
      barrier_init(full(i), 1);
      barrier_init(empty(i), kWarps);
    }
    for (int i = 0; i < L::kParts; ++i) {
      barrier_init(part_full(i), 1);
      barrier_init(part_empty(i), kWarps);
    }
    barriers_made();
  }
};

template <Side kSide>
__device__ __forceinline__ LongItem item_at(const LongLaunch<kSide>& launch, int number) {
  const AttentionShape& shape = launch.backward.args.shape;
  return LongItem(kSide == Side::keys ? shape.kv_heads : shape.heads, number);
}
__device__ __forceinline__ int first_tile(const AttentionLongKeys& part) { return part.first[0]; }
__device__ __forceinline__ int last_tile(const AttentionLongKeys& part) {
  return max(part.last[0], part.last[1]);
}

// ---- copies -------------------------------------------------------------------------------------
// Issues all copies in the order in which they are needed; by one thread.
template <int kDim, Side kSide>
struct Producer {
  using L = Layout<kDim, kSide>;
  const LongLaunch<kSide>& launch;
  LongShared<kDim, kSide> shared;
  int step = 0;  // of all parts

  __device__ __forceinline__ const AttentionTile& rows_at(int tile) const {
    return launch.backward.args.key_tiles.rows[tile];
  }
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
  __device__ __forceinline__ void wait_for_place() {
    barrier_wait(shared.empty(step), shared.step_parity(step) ^ 1);
  }

  __device__ __forceinline__ void bring(const AttentionLongKeys& from, int number, int kv_head) {
    auto& part = shared.part(number);
    const int blocks = (from.end - from.begin + kBlock - 1) / kBlock, first = first_tile(from);
    barrier_wait(shared.part_empty(number), shared.part_parity(number) ^ 1);
    part.head = kv_head;
    part.steps = last_tile(from) - first;
    for (int group = 0; group < L::kGroups; ++group) {
      const int begin = from.begin + group * kBlock;
      part.own[group] = {begin, min(begin + kBlock, from.end), from.first[group] - first,
                         from.last[group] - first};
      if (group >= blocks) part.own[group] = {};
    }
    barrier_expect(shared.part_full(number), blocks * 2 * L::kTileBytes);
    for (int group = 0; group < blocks; ++group) {
      copy_keys(shared.own(number, group), from.begin + group * kBlock, kv_head,
                shared.part_full(number));
    }
  }
  __device__ __forceinline__ void stream(const AttentionLongKeys& part, int kv_head) {
    const int first = first_tile(part), last = last_tile(part);
    if (first >= last) return;
    const int group = group_of(launch.backward.args.shape);
    AttentionTile next = rows_at(first);  // read ahead, because its latency is high
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      for (int tile = first; tile < last; ++tile, ++step) {
        const int begin = next.row_begin, count = next.row_end - next.row_begin;
        next = rows_at(tile + 1 < last ? tile + 1 : first);
        wait_for_place();
        shared.count(step) = count;
        barrier_expect(shared.full(step), L::kPieceBytes);
        copy_rows(shared.streamed(step), begin, head, shared.full(step));
      }
    }
  }

  __device__ __forceinline__ void bring(const AttentionLongRows& from, int number, int head) {
    auto& part = shared.part(number);
    const int tiles = from.end - from.begin;
    barrier_wait(shared.part_empty(number), shared.part_parity(number) ^ 1);
    part.head = head;
    part.steps = (from.last - from.first + kBlock - 1) / kBlock;
    part.first_key = from.first;
    for (int group = 0; group < L::kGroups; ++group) {
      part.own[group] = {};
      if (group >= tiles) continue;
      const AttentionTile& rows = rows_at(from.begin + group);
      part.own[group] = {rows.row_begin, rows.row_end, (rows.key_begin - from.first) / kBlock,
                         (rows.key_end - from.first + kBlock - 1) / kBlock};
    }
    barrier_expect(shared.part_full(number), tiles * L::kPieceBytes);
    for (int group = 0; group < tiles; ++group) {
      copy_rows(shared.own(number, group), part.own[group].begin, head, shared.part_full(number));
    }
  }
  __device__ __forceinline__ void stream(const AttentionLongRows& part, int head) {
    const int kv_head = head / group_of(launch.backward.args.shape);
    for (int key = part.first; key < part.last; key += kBlock, ++step) {
      wait_for_place();
      barrier_expect(shared.full(step), 2 * L::kTileBytes);
      copy_keys(shared.streamed(step), key, kv_head, shared.full(step));
    }
  }

  __device__ __forceinline__ void run(int items) {
    for (int number = 0; number < items; ++number) {
      const LongItem item = item_at(launch, number);
      const auto part = launch.parts.parts[item.tile];
      bring(part, number, item.head);
      stream(part, item.head);
    }
  }
};

// ---- sums ---------------------------------------------------------------------------------------
// The state of a warpgroup: its view of shared memory and its position in the work.
template <int kDim, Side kSide>
struct Worker {
  using L = Layout<kDim, kSide>;
  const LongLaunch<kSide>& launch;
  LongShared<kDim, kSide> shared;
  int group = 0;
  int step = 0;  // of all parts
  bool poisoned = false;

  Stretch own{};
  Piece<kDim> mine{};
  Fragment x[L::kKeeps ? kDim / 16 : 1], y[L::kKeeps ? kDim / 16 : 1];
  RowFact fact[2];                  // of this thread's rows, if it has some,
  int all_first = 0, all_last = 0;  // all of which see these keys
  int key = 0;                      // the first of this step, if keys stream past
  float ds_sums[kDim / 8][4];       // dk or dq
  float p_sums[kSide == Side::keys ? kDim / 8 : 1][4];  // dv

  // This warp no longer needs a buffer. One lane arrives for all, after their reads, which
  // __syncwarp() orders; racecheck does not follow that, and reports every buffer that is written
  // again as a race with the earlier reads of facts and counts (scripts/cuda_sanitize.sh).
  __device__ __forceinline__ void drop(Barrier* barrier) {
    __syncwarp();
    if (lane_id() == 0) barrier_arrive(barrier);
  }
  __device__ __forceinline__ int first_of_thread(int begin) const {
    return begin + warp_id() % 4 * kSlice + lane_id() / 4;
  }
  __device__ __forceinline__ void wait_for(int which) {
    barrier_wait(shared.full(which), shared.step_parity(which));
  }
  __device__ __forceinline__ void end_step() {
    drop(shared.empty(step));
    ++step;
    key += kBlock;
  }
  __device__ __forceinline__ void skip(int steps) {
    for (int i = 0; i < steps; ++i) {
      wait_for(step);
      end_step();
    }
  }

  // Starts s = x uᵀ and dp = y wᵀ.
  __device__ __forceinline__ void start_scores(float (&s)[8][4], float (&dp)[8][4], int which) {
    const Piece<kDim> other = shared.streamed(which);
    const uint32_t u = place_of(other.tile(0)), w = place_of(other.tile(1));
    if constexpr (L::kKeeps) {
      start_rows(s, x, u);
      start_rows(dp, y, w);
    } else {
      start_rows<kDim>(s, place_of(mine.tile(0)), u);
      start_rows<kDim>(dp, place_of(mine.tile(1)), w);
    }
  }
  // Starts to add ds u, and p w.
  __device__ __forceinline__ void start_sums(const Weights& weights) {
    const Piece<kDim> other = shared.streamed(step);
    if constexpr (kSide == Side::keys) {
      start_columns(p_sums, weights.p, place_of(other.tile(1)));
    }
    start_columns(ds_sums, weights.ds, place_of(other.tile(0)));
  }
  __device__ __forceinline__ void weigh(Weights& weights, const float (&s)[8][4],
                                        const float (&dp)[8][4]) const {
    const float factor = factor_of(launch.backward.args.shape);
    if constexpr (kSide == Side::keys) {
      // All rows see all keys if the first row does, which sees no further to the right than
      // others, and the last row does, which sees no further to the left.
      const RowFact* const facts = shared.streamed(step).facts();
      const int count = shared.count(step), at = first_of_thread(own.begin);
      if (count == kBlock && facts[kBlock - 1].lo <= own.begin &&
          own.begin + kBlock <= facts[0].hi) {
        weigh_keys<false>(weights, s, dp, facts, factor, count, at);
      } else {
        weigh_keys<true>(weights, s, dp, facts, factor, count, at);
      }
    } else {
      if (all_first <= key && key + kBlock <= all_last) {
        weigh_rows<false>(weights, s, dp, fact, factor, key);
      } else {
        weigh_rows<true>(weights, s, dp, fact, factor, key);
      }
    }
  }
  __device__ __forceinline__ void pin_sums() {
    pin(ds_sums);
    if constexpr (kSide == Side::keys) pin(p_sums);
  }
  static __device__ __forceinline__ void pin_weights(Weights& weights) {
    pin(weights.ds);
    if constexpr (kSide == Side::keys) pin(weights.p);
  }

  // Adds the contribution of `count` tiles.
  __device__ __forceinline__ void add(int count) {
    float s[8][4], dp[8][4];
    Weights weights;
    const auto make_scores = [&] {
      wait_for(step);
      products_begin();
      start_scores(s, dp, step);
      products_commit();
      products_wait();
      pin(s);
      pin(dp);
    };
    const auto make_sums = [&] {
      weigh(weights, s, dp);
      pin_weights(weights);
      pin_sums();
      products_begin();
      start_sums(weights);
      products_commit();
      products_wait();
      pin_sums();
      end_step();
    };
    if constexpr (!L::kOverlaps) {
      for (int i = 0; i < count; ++i) {
        make_scores();
        make_sums();
      }
      return;
    }
    make_scores();
    for (int i = 1; i < count; ++i) {
      weigh(weights, s, dp);
      wait_for(step + 1);
      pin_weights(weights);
      pin_sums();
      pin(s);
      pin(dp);
      products_begin();
      start_sums(weights);
      start_scores(s, dp, step + 1);
      products_commit();
      products_wait();
      pin_sums();
      pin(s);
      pin(dp);
      end_step();
    }
    make_sums();
  }

  __device__ __forceinline__ void store(int head) {
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
    barrier_wait(shared.part_full(number), shared.part_parity(number));
    const auto& part = shared.part(number);
    own = part.own[group];
    mine = shared.own(number, group);
    const int head = part.head, steps = same_for_warp(part.steps), first_key = part.first_key;
    const int first = same_for_warp(own.first), last = same_for_warp(own.last);
    if constexpr (kSide == Side::rows) {
      for (int i = 0; i < 2; ++i) fact[i] = mine.facts()[first_of_thread(0) + 8 * i];
      all_first = mine.facts()[max(own.end - own.begin - 1, 0)].lo;
      all_last = mine.facts()[0].hi;
    }
    if constexpr (L::kKeeps) {
      load_rows(x, mine.tile(0));
      load_rows(y, mine.tile(1));
      drop(shared.part_empty(number));
    }
    clear(ds_sums);
    clear(p_sums);
    const int rounds = kSide == Side::keys ? group_of(launch.backward.args.shape) : 1;
    for (int round = 0; round < rounds; ++round) {
      key = first_key;
      skip(first);
      if (first < last) add(last - first);
      skip(steps - last);
    }
    if constexpr (!L::kKeeps) drop(shared.part_empty(number));
    if (same_for_warp(own.end - own.begin) > 0) store(head);
  }
};

// ---- what is not finite -------------------------------------------------------------------------
// Computes keys or rows whose gradients are not finite again, one by one.
template <int kDim>
__device__ __forceinline__ void repair_part(const BackwardLaunch& launch,
                                            const AttentionLongKeys& part, int kv_head, int warps) {
  for (int key = part.begin + warp_id(); key < part.end; key += warps) {
    if (is_poisoned(dk_of(launch, kv_head), key) || is_poisoned(dv_of(launch, kv_head), key)) {
      key_alone<kDim, kDim>(launch, first_tile(part), last_tile(part), key, kv_head, 0);
    }
  }
}
template <int kDim>
__device__ __forceinline__ void repair_part(const BackwardLaunch& launch,
                                            const AttentionLongRows& part, int head, int warps) {
  for (int number = part.begin; number < part.end; ++number) {
    const AttentionTile tile = launch.args.key_tiles.rows[number];
    for (int row = tile.row_begin + warp_id(); row < tile.row_end; row += warps) {
      if (is_poisoned(dq_of(launch, head), row)) row_alone<kDim>(launch, tile, row, head);
    }
  }
}
template <int kDim, Side kSide>
__device__ __noinline__ void repair_long(const LongLaunch<kSide>& launch, int items) {
  for (int number = 0; number < items; ++number) {
    const LongItem item = item_at(launch, number);
    repair_part<kDim>(launch.backward, launch.parts.parts[item.tile], item.head,
                      Layout<kDim, kSide>::kConsumers / 32);
  }
}

#endif  // sm_90a

template <int kDim, Side kSide>
__global__ void __launch_bounds__(Layout<kDim, kSide>::kThreads, 1)
    long_gradients_kernel(const __grid_constant__ LongLaunch<kSide> launch) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using L = Layout<kDim, kSide>;
  unsigned char* memory = dynamic_shared();
  memory += -shared_address(memory) % L::kAlignment;
  const LongShared<kDim, kSide> shared{memory};
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
bool start_side(Stream stream, const BackwardLaunch& backward,
                const AttentionLongParts<typename LongLaunch<kSide>::Part>& parts) {
  using L = Layout<kDim, kSide>;
  const int64_t blocks =
      resident_blocks<long_gradients_kernel<kDim, kSide>>(L::kThreads, L::kBytes);
  const AttentionBackward& a = backward.args;
  const AttentionShape& shape = a.shape;
  LongLaunch<kSide> launch{};
  launch.backward = backward;
  launch.parts = parts;
  if (!describe_rows(&launch.q, a.q, shape.query, shape.heads, kDim, a.q_stride) ||
      !describe_rows(&launch.k, a.k, shape.key, shape.kv_heads, kDim, a.kv_stride) ||
      !describe_rows(&launch.v, a.v, shape.key, shape.kv_heads, kDim, a.kv_stride) ||
      !describe_rows(&launch.dout, a.dout, shape.query, shape.heads, kDim, a.dout_stride)) {
    return false;
  }
  const int64_t heads = kSide == Side::keys ? shape.kv_heads : shape.heads;
  start(stream, long_gradients_kernel<kDim, kSide>, std::min(blocks, parts.capacity * heads),
        L::kThreads, L::kBytes, launch);
  return true;
}

template <int kDim>
bool start_long(Stream stream, const BackwardLaunch& launch) {
  constexpr int kTiles = Layout<kDim, Side::rows>::kGroups, kPlace = kTiles == 2 ? 0 : 1;
  static_assert(kLongRowTiles[kPlace] == kTiles);
  const AttentionLongGradients& parts = launch.args.long_gradients;
  return start_side<kDim, Side::keys>(stream, launch, parts.keys) &&
         start_side<kDim, Side::rows>(stream, launch, parts.rows[kPlace]);
}

}  // namespace

bool start_long_gradients(Stream stream, const BackwardLaunch& launch) {
  const bool aligned = launch.q_aligned && launch.kv_aligned && launch.dout_aligned;
  if (launch.args.long_gradients.keys.capacity == 0 || !is_long_shape(launch.args.shape) ||
      launch.args.shape.bias != nullptr || !aligned) {
    return false;
  }
  if (launch.args.shape.head_dim == 64) return start_long<64>(stream, launch);
  return start_long<128>(stream, launch);
}

}  // namespace tril::kernels::cuda
