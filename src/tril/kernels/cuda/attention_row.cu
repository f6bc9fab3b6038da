// The forward pass in bf16 for one row a sequence through a table: a step of decoding. What is to
// be done is little, so all of it is about not waiting.
//
// A block has one row and head. Which keys it sees and where they are is read before earlier
// kernels have ended, and where the keys rest, they are too. Of a block of 64 keys each of the four
// warps scores 16; all four make the same weights of the scores, and each has its own columns of
// the result. Sums are those of attention_softmax.cuh: each chain goes through the same terms in
// the same order, and a row's bits do not depend on the other 15 of a slice, which are zero here.
//
// Nothing outside the row's interval is ever brought in, so nothing has to be repaired.
#include "tril/kernels/cuda/attention_row.cuh"
#include "tril/kernels/cuda/attention_softmax.cuh"
#include "tril/kernels/cuda/launch.cuh"

namespace tril::kernels::cuda {
namespace {

constexpr int kWarps = kThreads / 32;
static_assert(kWarps == kChunks, "a warp scores a group of 16 keys");

// A row's next block of keys comes while one is worked on; where rows are many, more of them at a
// time are worth more.
template <int kDim, int kStages>
constexpr int kRowBytes = kStages*(2 * kTileBytes<kDim> + kBlock * int{sizeof(float)});
constexpr int64_t kManyBlocks = 6 * 132;
template <int kDim, int kStages>
constexpr int kRowResident = kDim <= 64 && kStages == 1 ? 8 : 3;

// The row and head of a block, and what it sees.
struct RowOfBlock {
  int row, head, kv_head;
  Interval seen;
  int own;  // the entry that this step makes; -1: none, or it is in the cache already

  __device__ __forceinline__ explicit RowOfBlock(const AttentionForward& a) {
    const int heads = static_cast<int>(a.shape.heads);
    row = static_cast<int>(blockIdx.x) / heads;
    head = static_cast<int>(blockIdx.x) % heads;
    kv_head = head / (heads / static_cast<int>(a.shape.kv_heads));
    seen = a.intervals[row];
    if (seen.empty()) seen.lo = seen.hi = seen.origin;
    own = a.fresh.entries == nullptr ? -1 : a.fresh.entries[row];
  }
  __device__ __forceinline__ int first_block() const { return (seen.lo - seen.origin) / kBlock; }
  __device__ __forceinline__ int blocks_end() const {
    return (seen.hi - seen.origin + kBlock - 1) / kBlock;
  }
};

// Brings blocks of keys and values into shared memory. A thread has one chunk of 8 columns of
// every kStep-th key.
template <int kDim>
class KeyBlocks {
 public:
  __device__ __forceinline__ KeyBlocks(const AttentionForward& a, const RowOfBlock& at,
                                       unsigned char* memory)
      : a_(a), at_(at), memory_(memory) {
    column_ = static_cast<int>(threadIdx.x) % kRowChunks * 8;
  }
  __device__ __forceinline__ SharedTile<kDim> keys(int stage) const {
    return {memory_ + 2 * stage * kTileBytes<kDim>};
  }
  __device__ __forceinline__ SharedTile<kDim> values(int stage) const {
    return {memory_ + (2 * stage + 1) * kTileBytes<kDim>};
  }

  // Starts to bring block `number`, but for the entry that this step makes.
  __device__ __forceinline__ void bring(int stage, int number) {
    const int block = at_.seen.origin + number * kBlock;
    const int begin = max(at_.seen.lo - block, 0), end = min(at_.seen.hi - block, kBlock);
    const int32_t* table = a_.table + at_.row * a_.table_stride + block;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int key = key_of(i);
      entries_[i] = key >= begin && key < end ? table[key] : kOutside;
    }
    const int fill_begin = begin / kSlice * kSlice;
    const int fill_end = (end + kSlice - 1) / kSlice * kSlice;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int key = key_of(i);
      if (key < fill_begin || key >= fill_end || is_own(i)) continue;
      const bool there = entries_[i] != kOutside && column_ < a_.shape.head_dim;
      const int64_t from = there ? entries_[i] * a_.kv_stride + head_column() + column_ : 0;
      const auto* k = static_cast<const uint16_t*>(a_.k);
      const auto* v = static_cast<const uint16_t*>(a_.v);
      copy_16(keys(stage).chunk(key, column_ / 8), k + from, there ? 16 : 0);
      copy_16(values(stage).chunk(key, column_ / 8), v + from, there ? 16 : 0);
    }
  }
  // And that one from where it was made, which is not before earlier kernels have ended.
  __device__ __forceinline__ void bring_own(int stage) const {
    if (at_.own < 0) return;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (!is_own(i)) continue;
      const bool there = column_ < a_.shape.head_dim;
      *reinterpret_cast<uint4*>(keys(stage).chunk(key_of(i), column_ / 8)) =
          there ? made(a_.fresh.k) : uint4{};
      *reinterpret_cast<uint4*>(values(stage).chunk(key_of(i), column_ / 8)) =
          there ? made(a_.fresh.v) : uint4{};
    }
  }
  // Into the cache, by the first head of a group.
  __device__ __forceinline__ void store_own() const {
    const int group = static_cast<int>(a_.shape.heads / a_.shape.kv_heads);
    if (at_.own < 0 || at_.head % group != 0 || threadIdx.x >= 2 * kRowChunks) return;
    if (column_ >= a_.shape.head_dim) return;
    const bool is_key = threadIdx.x < kRowChunks;
    void* to = const_cast<void*>(is_key ? a_.k : a_.v);  // what is read here is also written
    auto* entry = static_cast<uint16_t*>(to) + at_.own * a_.kv_stride + head_column() + column_;
    *reinterpret_cast<uint4*>(entry) = made(is_key ? a_.fresh.k : a_.fresh.v);
  }

 private:
  static constexpr int kRowChunks = kDim / 8;
  static constexpr int kStep = kThreads / kRowChunks;
  static constexpr int kEach = kBlock / kStep;
  static constexpr int kOutside = -1;

  __device__ __forceinline__ int key_of(int i) const {
    return static_cast<int>(threadIdx.x) / kRowChunks + i * kStep;
  }
  __device__ __forceinline__ bool is_own(int i) const {
    return at_.own >= 0 && entries_[i] == at_.own;
  }
  __device__ __forceinline__ int64_t head_column() const { return at_.kv_head * a_.shape.head_dim; }
  __device__ __forceinline__ uint4 made(const void* from) const {
    return *reinterpret_cast<const uint4*>(static_cast<const uint16_t*>(from) +
                                           at_.row * a_.fresh.stride + head_column() + column_);
  }

  const AttentionForward& a_;
  const RowOfBlock& at_;
  unsigned char* memory_;
  int column_;
  int entries_[kEach];
};

// The row as the left operand: row 0 of 16, the others zero. Lane t of four has the columns
// 16 k + 2 t and the next, and those 8 on.
template <int kDim>
struct RowOfQueries {
  uint32_t x[kDim / 16][2];

  __device__ __forceinline__ RowOfQueries(const AttentionForward& a, const RowOfBlock& at) {
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
  __device__ __forceinline__ Fragment at(int k) const { return {{x[k][0], 0u, x[k][1], 0u}}; }
};

// A product of which only the first row counts.
__device__ __forceinline__ void mma_row(float (&c)[2], const Fragment& a, uint32_t b0,
                                        uint32_t b1) {
  float all[4] = {c[0], c[1], 0.0f, 0.0f};
  mma(all, a, b0, b1);
  c[0] = all[0];
  c[1] = all[1];
}

// What a warp keeps of the row: two eights of columns of every kWarps-th sixteen, and in all lanes
// what attention_softmax.cuh has in the four of a row.
template <int kDim>
struct RowPart {
  static constexpr int kSixteens = (kDim / 16 + kWarps - 1) / kWarps;
  float acc[2 * kSixteens][2];  // of a product's four, those of its first row
  float top, sum;

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (auto& each : acc) each[0] = each[1] = 0.0f;
    top = kNothing;
    sum = 0.0f;
  }
  // A span has ended: `earlier` and this become one, in `earlier`.
  __device__ __forceinline__ void end_span(RowPart& earlier, bool is_first) {
    sum = whole_sum(sum);
    if (!is_first) {
      const float most = fmaxf(earlier.top, top);
      const float before = exp2_of(__fsub_rn(earlier.top, base_of(most)));
      const float now = exp2_of(__fsub_rn(top, base_of(most)));
      top = most;
      sum = __fmaf_rn(sum, now, __fmul_rn(earlier.sum, before));
#pragma unroll
      for (int i = 0; i < 2 * kSixteens; ++i) {
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

// The scores of this warp's 16 keys of a block into scores[64], -inf where the row sees nothing.
template <int kDim>
__device__ __forceinline__ void score_keys(const AttentionForward& a, const RowOfBlock& at,
                                           const RowOfQueries<kDim>& q,
                                           const SharedTile<kDim>& keys, int block, int begin,
                                           int end, float* scores) {
  const int group = warp_id();
  float s[2][2] = {};
  if (group >= begin && group < end) {
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
      const Fragment b = keys.right(group * kSlice, 16 * k);
      mma_row(s[0], q.at(k), b.x[0], b.x[1]);
      mma_row(s[1], q.at(k), b.x[2], b.x[3]);
    }
  }
  if (lane_id() >= 4) return;
  const Scoring scoring(a.shape, at.head);
  const int entry = bias_entry(a.shape, at.row, at.seen.origin);
  const Sight sight{at.seen.lo, at.seen.hi};
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int column = group * kSlice + 8 * n + 2 * lane_id() + e;
      const int key = block + column;
      const float score = scoring(s[n][e], entry + key);
      scores[column] = sight.sees(key) ? score : kNothing;
    }
  }
}

// A block of keys: weights from the scores, the same in every warp, and this warp's columns.
template <int kDim>
__device__ __forceinline__ void add_values(RowPart<kDim>& part, const SharedTile<kDim>& values,
                                           const float* scores, int begin, int end) {
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
    if (lane_id() >= 4) p[n] = 0;  // only row 0 is a row
  }
  part.sum = __fadd_rn(__fmul_rn(part.sum, factor), block_sum);
#pragma unroll
  for (auto& each : part.acc) {
#pragma unroll
    for (float& e : each) e = __fmul_rn(e, factor);
  }
#pragma unroll
  for (int group = 0; group < kChunks; ++group) {
    if (group < begin || group >= end) continue;  // nothing was brought there
    const Fragment weights{{p[2 * group], 0u, p[2 * group + 1], 0u}};
#pragma unroll
    for (int i = 0; i < RowPart<kDim>::kSixteens; ++i) {
      const int sixteen = warp_id() + i * kWarps;
      if (sixteen >= kDim / 16) continue;
      const Fragment b = values.right_transposed(group * kSlice, 16 * sixteen);
      mma_row(part.acc[2 * i], weights, b.x[0], b.x[1]);
      mma_row(part.acc[2 * i + 1], weights, b.x[2], b.x[3]);
    }
  }
}

template <int kDim>
__device__ __forceinline__ void store_row(const AttentionForward& a, const RowOfBlock& at,
                                          const RowPart<kDim>& part) {
  if (lane_id() >= 4) return;
  const bool empty = at.seen.lo >= at.seen.hi;
  const float inverse = empty ? 0.0f : __fdiv_rn(1.0f, part.sum);
  const auto value = [&](float sum) {
    return empty ? 0.0f : __fadd_rn(__fmul_rn(sum, inverse), 0.0f);
  };
  auto* out = static_cast<uint16_t*>(a.out) + at.row * a.out_stride + at.head * a.shape.head_dim;
#pragma unroll
  for (int i = 0; i < 2 * RowPart<kDim>::kSixteens; ++i) {
    const int sixteen = warp_id() + i / 2 * kWarps;
    const int column = 16 * sixteen + i % 2 * 8 + 2 * lane_id();
    if (sixteen >= kDim / 16 || column >= a.shape.head_dim) continue;
    *reinterpret_cast<uint32_t*>(out + column) =
        pack_bf16(value(part.acc[i][0]), value(part.acc[i][1]));
  }
}

template <int kDim, int kStages>
__global__ void __launch_bounds__(kThreads, kRowResident<kDim, kStages>)
    row_kernel(const __grid_constant__ AttentionForward a) {
  let_next_begin();
  unsigned char* memory = dynamic_shared();
  float* const scores = reinterpret_cast<float*>(memory + kStages * 2 * kTileBytes<kDim>);
  const RowOfBlock at(a);
  KeyBlocks<kDim> blocks(a, at, memory);
  const int first = at.first_block(), end = at.blocks_end();
  if (a.keys_rest && first < end) blocks.bring(0, first);
  wait_for_earlier();
  if (!a.keys_rest && first < end) blocks.bring(0, first);
  const RowOfQueries<kDim> q(a, at);
  blocks.store_own();
  RowPart<kDim> part, earlier;
  part.clear();
  bool is_first = true;
  for (int number = first, stage = 0; number < end; ++number, stage = (stage + 1) % kStages) {
    blocks.bring_own(stage);
    copies_wait();
    __syncthreads();  // what is needed is there; nobody reads the other stage any more
    if (kStages > 1 && number + 1 < end) blocks.bring(stage ^ 1, number + 1);
    const int block = at.seen.origin + number * kBlock;
    const int groups_begin = max(at.seen.lo - block, 0) / kSlice;
    const int groups_end = (min(at.seen.hi - block, kBlock) + kSlice - 1) / kSlice;
    float* const of_block = scores + stage * kBlock;
    score_keys<kDim>(a, at, q, blocks.keys(stage), block, groups_begin, groups_end, of_block);
    __syncthreads();
    add_values<kDim>(part, blocks.values(stage), of_block, groups_begin, groups_end);
    if ((number + 1) % kBlocksPerSpan == 0 || number + 1 == end) {
      part.end_span(earlier, is_first);
      is_first = false;
    }
    if (kStages == 1 && number + 1 < end) {
      __syncthreads();  // nobody reads it any more
      blocks.bring(0, number + 1);
    }
  }
  if (first >= end) earlier.clear();
  store_row<kDim>(a, at, earlier);
}

template <int kDim, int kStages>
void start_rows(Stream stream, const AttentionForward& args) {
  const auto kernel = row_kernel<kDim, kStages>;
  constexpr int kBytes = kRowBytes<kDim, kStages>;
  static const bool allowed =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes) ==
      cudaSuccess;
  static_cast<void>(allowed);  // else the launch fails, and says so
  const auto blocks = static_cast<unsigned>(args.shape.query * args.shape.heads);
  launch(stream, kernel, dim3(blocks), kThreads, kBytes, args);
}
template <int kDim>
void start_rows(Stream stream, const AttentionForward& args) {
  if (args.shape.query * args.shape.heads > kManyBlocks) return start_rows<kDim, 1>(stream, args);
  start_rows<kDim, 2>(stream, args);
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

}  // namespace tril::kernels::cuda
