// The forward pass in bf16 for one row per sequence through a table: a step of decoding. There is
// little to compute, so everything here is about not waiting: neither for memory nor for
// instructions, which have to come from memory too. So little is unrolled, and no code is
// duplicated.
//
// A team of warps has one row and head: all four of a block where rows are few, one where they are
// many, so that all fit on the GPU at once. The row's interval and its table are read before
// earlier kernels have ended, and so are the keys if no kernel of the chain writes them. In a block
// of 64 keys the warps of a team score 16 each in turn; all compute the same weights from the
// scores, and each has its own columns of the result.
//
// Sums are those of attention_softmax.cuh: each chain goes through the same terms in the same
// order, and a row's bits do not depend on the other rows of a slice. Here keys, and columns of
// values, are the operand with 16 rows, and the row is the first of eight columns, the others
// zero: half the products, and the same sums (gemm_few_rows.cu).
//
// Nothing outside the row's interval is ever loaded, so nothing has to be repaired.
#include <algorithm>

#include "tril/kernels/cuda/attention_row.cuh"
#include "tril/kernels/cuda/attention_softmax.cuh"
#include "tril/kernels/cuda/launch.cuh"
#include "tril/kernels/cuda/per_gpu.cuh"

namespace tril::kernels::cuda {
namespace {

// Warps that share a row and head, of which a block has kTeams. With two stages, a row's next block
// of keys is fetched while one is being used.
template <int kDimension, int kTeamWarps, int kStageCount>
struct Plan {
  static constexpr int kDim = kDimension;
  static constexpr int kWarps = kTeamWarps;
  static constexpr int kStages = kStageCount;
  static constexpr int kTeamThreads = 32 * kWarps;
  static constexpr int kTeams = kThreads / kTeamThreads;
  static constexpr int kSixteens = (kDim / 16 + kWarps - 1) / kWarps;  // of columns, per warp
  // Blocks per multiprocessor for which there are registers: more of them with one warp per row, so
  // that 256 sentences of eight heads are all resident at once, but not so many that registers
  // spill.
  static constexpr int kResident = kWarps == 1 ? 5 : 3;

  __device__ static int thread() { return static_cast<int>(threadIdx.x) % kTeamThreads; }
  __device__ static int team() { return static_cast<int>(threadIdx.x) / kTeamThreads; }
  __device__ static int warp() { return warp_id() % kWarps; }
  __device__ static void meet() {
    if constexpr (kWarps == 1) {
      __syncwarp();
    } else {
      static_assert(kTeams == 1);
      __syncthreads();
    }
  }
};

// A team's part of shared memory: stages of `room` keys and as many values, the scores of a block
// and the result.
template <class P>
struct Shared {
  static constexpr int kScores = P::kStages * kBlock;
  unsigned char* memory;
  int room;

  __host__ __device__ static constexpr int bytes(int room) {
    return P::kStages * 2 * room * P::kDim * 2 + (kScores + P::kDim) * int{sizeof(float)};
  }
  __device__ __forceinline__ SharedTile<P::kDim> keys(int stage) const {
    return {memory + 2 * stage * room * P::kDim * 2};
  }
  __device__ __forceinline__ SharedTile<P::kDim> values(int stage) const {
    return {memory + (2 * stage + 1) * room * P::kDim * 2};
  }
  __device__ __forceinline__ float* scores(int stage) const {
    return reinterpret_cast<float*>(memory + P::kStages * 2 * room * P::kDim * 2) + stage * kBlock;
  }
  __device__ __forceinline__ float* result() const { return scores(0) + kScores; }
};

// The row and head of a team, and what the row sees.
struct RowOfTeam {
  int row, head;
  Interval seen;
  int own;  // the entry that this step writes; -1: none, or it is already in the cache

  __device__ __forceinline__ RowOfTeam(const AttentionForward& a, int team_row, int team_head)
      : row(team_row), head(team_head) {
    seen = a.intervals[row];
    if (seen.empty()) seen.lo = seen.hi = seen.origin;
    own = a.fresh.entries == nullptr ? -1 : a.fresh.entries[row];
  }
  __device__ __forceinline__ int first_block() const { return (seen.lo - seen.origin) / kBlock; }
  __device__ __forceinline__ int blocks_end() const {
    return (seen.hi - seen.origin + kBlock - 1) / kBlock;
  }
};

// Fetches blocks of keys and values into shared memory. A thread has one chunk of 8 columns of
// every kStep-th key.
template <class P>
class KeyBlocks {
 public:
  // `group`: the number of heads that share keys.
  __device__ __forceinline__ KeyBlocks(const AttentionForward& a, const RowOfTeam& at, int group,
                                       const Shared<P>& shared)
      : a_(a), at_(at), shared_(shared), column_(P::thread() % kRowChunks * 8) {
    const int kv_head = at.head / group;
    head_column_ = kv_head * static_cast<int>(a.shape.head_dim);
    is_first_of_group_ = kv_head * group == at.head;
  }

  // Starts to fetch block `number`, except the entry that this step writes.
  __device__ __forceinline__ void bring(int stage, int number) {
    const int block = at_.seen.origin + number * kBlock;
    const int begin = max(at_.seen.lo - block, 0), end = min(at_.seen.hi - block, kBlock);
    // Every warp holds all table entries of the block, two per lane.
    const int32_t* table = a_.table + at_.row * a_.table_stride + block;
    const auto entry_at = [&](int key) {
      return key >= begin && key < end ? table[key] : kOutside;
    };
    const int low = entry_at(lane_id()), high = entry_at(lane_id() + 32);
    own_key_ = kOutside;
    const SharedTile<P::kDim> keys = shared_.keys(stage), values = shared_.values(stage);
    const int stride = static_cast<int>(a_.kv_stride);
#pragma unroll 1
    for (int first = begin / kRound * kRound; first < end; first += kRound) {
#pragma unroll
      for (int i = 0; i < kRound; i += kStep) {
        const int key = first + i + P::thread() / kRowChunks;  // on one side of 32 in all lanes
        const int entry = __shfl_sync(kAllLanes, first + i < 32 ? low : high, key % 32);
        if (at_.own >= 0 && entry == at_.own) {
          own_key_ = key;
          continue;
        }
        const bool there = entry != kOutside && column_ < a_.shape.head_dim;
        const int64_t from = there ? int64_t{entry} * stride + head_column_ + column_ : 0;
        copy_16(keys.chunk(key, column_ / 8), static_cast<const uint16_t*>(a_.k) + from,
                there ? 16 : 0);
        copy_16(values.chunk(key, column_ / 8), static_cast<const uint16_t*>(a_.v) + from,
                there ? 16 : 0);
      }
    }
  }
  // Fetches that entry from where it was computed, which exists only after earlier kernels have
  // ended.
  __device__ __forceinline__ void bring_own(int stage) const {
    if (own_key_ == kOutside) return;
    const bool there = column_ < a_.shape.head_dim;
    *reinterpret_cast<uint4*>(shared_.keys(stage).chunk(own_key_, column_ / 8)) =
        there ? made(a_.fresh.k) : uint4{};
    *reinterpret_cast<uint4*>(shared_.values(stage).chunk(own_key_, column_ / 8)) =
        there ? made(a_.fresh.v) : uint4{};
  }
  // Stores it in the cache, by the first head of a group.
  __device__ __forceinline__ void store_own() const {
    if (at_.own < 0 || !is_first_of_group_ || P::thread() >= 2 * kRowChunks) return;
    if (column_ >= a_.shape.head_dim) return;
    const bool is_key = P::thread() < kRowChunks;
    void* to = const_cast<void*>(is_key ? a_.k : a_.v);  // this memory is both read and written
    auto* entry = static_cast<uint16_t*>(to) + at_.own * a_.kv_stride + head_column_ + column_;
    *reinterpret_cast<uint4*>(entry) = made(is_key ? a_.fresh.k : a_.fresh.v);
  }

 private:
  static constexpr int kRowChunks = P::kDim / 8;
  static constexpr int kStep = P::kTeamThreads / kRowChunks;
  static constexpr int kRound = kStep > kSlice ? kStep : kSlice;
  static constexpr int kOutside = -1;

  __device__ __forceinline__ uint4 made(const void* from) const {
    return *reinterpret_cast<const uint4*>(static_cast<const uint16_t*>(from) +
                                           at_.row * a_.fresh.stride + head_column_ + column_);
  }

  const AttentionForward& a_;
  const RowOfTeam& at_;
  const Shared<P>& shared_;
  int column_, head_column_;
  bool is_first_of_group_;
  int own_key_ = kOutside;  // of the block fetched last, if this thread has it
};

// The row as the right operand: column 0 of 8, the others zero. Lane t of four has the terms 16 k +
// 2 t and the next, and those 8 further on.
template <int kDim>
struct RowOfQueries {
  uint32_t x[kDim / 16][2];

  __device__ __forceinline__ void read(const AttentionForward& a, const RowOfTeam& at) {
    const auto* from =
        static_cast<const uint16_t*>(a.q) + at.row * a.q_stride + at.head * a.shape.head_dim;
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int column = 16 * k + 8 * half + 2 * (lane_id() & 3);
        const bool there = lane_id() < 4 && column < a.shape.head_dim;
        x[k][half] = there ? *reinterpret_cast<const uint32_t*>(from + column) : 0u;
      }
    }
  }
};

// A product of which only the first column is used: c[0] is its row g, c[1] row g + 8, in the lanes
// (g, 0).
__device__ __forceinline__ void mma_column(float (&c)[2], const Fragment& a, uint32_t b0,
                                           uint32_t b1) {
  float all[4] = {c[0], 0.0f, c[1], 0.0f};
  mma(all, a, b0, b1);
  c[0] = all[0];
  c[1] = all[2];
}
__device__ __forceinline__ bool has_column() { return (lane_id() & 3) == 0; }

// What a warp keeps of the row: every kWarps-th group of sixteen columns, in the layout of
// mma_column(), and in all lanes what attention_softmax.cuh keeps in the four lanes of a row.
template <class P>
struct RowPart {
  float acc[P::kSixteens][2];
  float top, sum;

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (auto& each : acc) each[0] = each[1] = 0.0f;
    top = kNothing;
    sum = 0.0f;
  }
  // At the end of a span, merges it with `earlier`, into `earlier`.
  __device__ __forceinline__ void end_span(RowPart& earlier, bool is_first) {
    sum = whole_sum(sum);
    if (!is_first) {
      const float most = fmaxf(earlier.top, top);
      const float before = exp2_of(__fsub_rn(earlier.top, base_of(most)));
      const float now = exp2_of(__fsub_rn(top, base_of(most)));
      top = most;
      sum = __fmaf_rn(sum, now, __fmul_rn(earlier.sum, before));
#pragma unroll
      for (int i = 0; i < P::kSixteens; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          acc[i][e] = __fmaf_rn(acc[i][e], now, __fmul_rn(earlier.acc[i][e], before));
        }
      }
    }
    earlier = *this;
    clear();
  }
};

// The groups of 16 keys of a block of which the row sees some: [begin, end).
struct Groups {
  int begin, end;

  __device__ __forceinline__ Groups(const Interval& seen, int block)
      : begin(max(seen.lo - block, 0) / kSlice),
        end((min(seen.hi - block, kBlock) + kSlice - 1) / kSlice) {}
  __device__ __forceinline__ bool has(int group) const { return group >= begin && group < end; }
};

// Writes the scores of this warp's keys of a block to scores[64], -inf where the row may not see
// the key.
template <class P>
__device__ __forceinline__ void score_keys(const AttentionForward& a, const RowOfTeam& at,
                                           const RowOfQueries<P::kDim>& q,
                                           const SharedTile<P::kDim>& keys, int block,
                                           const Groups& groups, float* scores) {
  const Scoring scoring(a.shape, at.head);
  const int entry = bias_entry(a.shape, at.row, at.seen.origin);
  const Sight sight{at.seen.lo, at.seen.hi};
#pragma unroll 1
  for (int group = P::warp(); group < kChunks; group += P::kWarps) {
    float s[2] = {};
    if (groups.has(group)) {
#pragma unroll
      for (int k = 0; k < P::kDim / 16; ++k) {
        mma_column(s, keys.left(group * kSlice, 16 * k), q.x[k][0], q.x[k][1]);
      }
    }
    if (has_column()) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int column = group * kSlice + 8 * half + lane_id() / 4;
        const int key = block + column;
        const float score = scoring(s[half], entry + key);
        scores[column] = sight.sees(key) ? score : kNothing;
      }
    }
    __syncwarp();  // all lanes compute products together
  }
}

// A block of keys: computes the weights from the scores, the same in every warp, and this warp's
// columns.
template <class P>
__device__ __forceinline__ void add_values(RowPart<P>& part, const SharedTile<P::kDim>& values,
                                           const float* scores, const Groups& groups) {
  const int t = lane_id() & 3;
  float2 s[2 * kChunks];
  float most = kNothing;
#pragma unroll
  for (int n = 0; n < 2 * kChunks; ++n) {
    s[n] = *reinterpret_cast<const float2*>(scores + 8 * n + 2 * t);
    most = fmaxf(most, s[n].x);
    most = fmaxf(most, s[n].y);
  }
  most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 1));
  most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 2));
  const float top = fmaxf(part.top, __fmul_rn(most, kLog2e));
  const float base = base_of(top);
  const float factor = exp2_of(__fsub_rn(part.top, base));
  part.top = top;
  uint32_t p[2 * kChunks];
  float block_sum = 0.0f;
#pragma unroll
  for (int n = 0; n < 2 * kChunks; ++n) {
    const float p0 = exp2_of(__fmaf_rn(s[n].x, kLog2e, -base));
    const float p1 = exp2_of(__fmaf_rn(s[n].y, kLog2e, -base));
    p[n] = pack_bf16(p0, p1);
    block_sum = __fadd_rn(block_sum, low_of(p[n]));
    block_sum = __fadd_rn(block_sum, high_of(p[n]));
    if (lane_id() >= 4) p[n] = 0;  // only column 0 is the row
  }
  part.sum = __fadd_rn(__fmul_rn(part.sum, factor), block_sum);
#pragma unroll
  for (auto& each : part.acc) {
#pragma unroll
    for (float& e : each) e = __fmul_rn(e, factor);
  }
#pragma unroll
  for (int group = 0; group < kChunks; ++group) {
    if (!groups.has(group)) continue;  // nothing was fetched there
#pragma unroll
    for (int i = 0; i < P::kSixteens; ++i) {
      const int sixteen = P::warp() + i * P::kWarps;
      if (sixteen >= P::kDim / 16) continue;
      const Fragment v = values.right_transposed(group * kSlice, 16 * sixteen);
      mma_column(part.acc[i], {{v.x[0], v.x[2], v.x[1], v.x[3]}}, p[2 * group], p[2 * group + 1]);
    }
  }
}

// Stores this warp's columns, two per lane, after exchanging them through shared memory.
template <class P>
__device__ __forceinline__ void store_row(const AttentionForward& a, const RowOfTeam& at,
                                          const RowPart<P>& part, float* result) {
  const bool empty = at.seen.lo >= at.seen.hi;
  const float inverse = empty ? 0.0f : __fdiv_rn(1.0f, part.sum);
#pragma unroll
  for (int i = 0; i < P::kSixteens; ++i) {
    const int sixteen = P::warp() + i * P::kWarps;
    if (!has_column() || sixteen >= P::kDim / 16) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      result[16 * sixteen + 8 * half + lane_id() / 4] =
          empty ? 0.0f : __fadd_rn(__fmul_rn(part.acc[i][half], inverse), 0.0f);
    }
  }
  __syncwarp();
  auto* out = static_cast<uint16_t*>(a.out) + at.row * a.out_stride + at.head * a.shape.head_dim;
#pragma unroll
  for (int pair = lane_id(); pair < 8 * P::kSixteens; pair += 32) {
    const int column = 16 * (P::warp() + pair / 8 * P::kWarps) + pair % 8 * 2;
    if (column >= a.shape.head_dim) continue;
    const float2 both = *reinterpret_cast<const float2*>(result + column);
    *reinterpret_cast<uint32_t*>(out + column) = pack_bf16(both.x, both.y);
  }
}

template <class P>
__global__ void __launch_bounds__(kThreads, P::kResident)
    row_kernel(const __grid_constant__ AttentionForward a, int group, int room) {
  let_next_begin();
  const int head = static_cast<int>(blockIdx.y) * P::kTeams + P::team();
  if (head >= a.shape.heads) return wait_for_earlier();
  const Shared<P> shared{dynamic_shared() + P::team() * Shared<P>::bytes(room), room};
  const RowOfTeam at(a, static_cast<int>(blockIdx.x), head);
  KeyBlocks<P> blocks(a, at, group, shared);
  const int first = at.first_block(), end = at.blocks_end();
  RowOfQueries<P::kDim> q;
  RowPart<P> part, earlier;
  part.clear();
  earlier.clear();
  // With two stages a block is fetched while the one before it is used.
  if (!a.keys_rest) wait_for_earlier();
#pragma unroll 1
  for (int next = first; next <= end; ++next) {
    const int stage = P::kStages == 1 ? 0 : next & 1;
    const int ready = P::kStages == 1 ? 0 : stage ^ 1;
    const auto work = [&] {
      const int block = at.seen.origin + (next - 1) * kBlock;
      const Groups groups(at.seen, block);
      score_keys<P>(a, at, q, shared.keys(ready), block, groups, shared.scores(ready));
      P::meet();
      add_values<P>(part, shared.values(ready), shared.scores(ready), groups);
      if (next % kBlocksPerSpan == 0 || next == end) {
        part.end_span(earlier, (next - 1) / kBlocksPerSpan == first / kBlocksPerSpan);
      }
    };
    if (next > first) {
      blocks.bring_own(ready);
      copies_wait();
      P::meet();  // the data has arrived; the other stage is no longer read
      if (P::kStages == 1) {
        work();
        P::meet();
      }
    }
    if (next < end) blocks.bring(stage, next);
    if (next == first) {
      wait_for_earlier();
      q.read(a, at);
      blocks.store_own();
    } else if (P::kStages > 1) {
      work();
    }
  }
  store_row<P>(a, at, earlier, shared.result());
}

bool has_many_rows(const AttentionShape& shape) {
  constexpr int64_t kMany = 6 * 132;
  return shape.query * shape.heads > kMany;
}
int64_t whole_slices(int64_t keys) { return (keys + kSlice - 1) / kSlice * kSlice; }

template <class P>
void start_rows(Stream stream, const AttentionForward& args, int room) {
  constexpr auto kKernel = row_kernel<P>;
  allow_shared_memory<kKernel>(P::kTeams * Shared<P>::bytes(kBlock));
  const dim3 blocks(static_cast<unsigned>(args.shape.query),
                    static_cast<unsigned>((args.shape.heads + P::kTeams - 1) / P::kTeams));
  launch(stream, kKernel, blocks, kThreads, P::kTeams * Shared<P>::bytes(room), args,
         static_cast<int>(args.shape.heads / args.shape.kv_heads), room);
}
template <int kDim>
void start_rows(Stream stream, const AttentionForward& args) {
  if (!has_many_rows(args.shape)) return start_rows<Plan<kDim, 4, 2>>(stream, args, kBlock);
  if constexpr (kDim <= 64) {
    const int64_t keys = std::min<int64_t>(args.tiles.most_keys, kBlock);
    start_rows<Plan<kDim, 1, 1>>(stream, args, static_cast<int>(whole_slices(keys)));
  } else {
    start_rows<Plan<kDim, 4, 1>>(stream, args, kBlock);
  }
}

}  // namespace

bool suits_row_attention(const AttentionForward& args) {
  const AttentionShape& shape = args.shape;
  const auto aligned = [&](const void* base, int64_t stride) {
    return is_aligned(base, stride, shape.head_dim);
  };
  return shape.type == DType::bf16 && args.table != nullptr && args.tiles.tiles == nullptr &&
         args.stats == nullptr && !shape.descending_blocks && shape.head_dim <= 128 &&
         aligned(args.q, args.q_stride) && aligned(args.k, args.kv_stride) &&
         aligned(args.v, args.kv_stride) && aligned(args.out, args.out_stride) &&
         aligned(args.fresh.k, args.fresh.stride) && aligned(args.fresh.v, args.fresh.stride);
}

void row_attention(Stream stream, const AttentionForward& args) {
  if (args.shape.head_dim <= 32) return start_rows<32>(stream, args);
  if (args.shape.head_dim <= 64) return start_rows<64>(stream, args);
  start_rows<128>(stream, args);
}

int64_t keys_of_rows(const AttentionShape& shape, int64_t most_keys, int64_t bound) {
  const bool pays = shape.type == DType::bf16 && shape.head_dim <= 64 && has_many_rows(shape);
  return pays && most_keys <= kBlock ? whole_slices(most_keys) : bound;
}

}  // namespace tril::kernels::cuda
