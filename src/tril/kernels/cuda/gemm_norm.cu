#include "tril/kernels/cuda/gemm_few_rows.cuh"
#include "tril/kernels/cuda/gemm_norm.h"
#include "tril/kernels/cuda/norm_row.cuh"

namespace tril::kernels::cuda {
namespace {

using namespace few;

constexpr int kWarps = 4;
constexpr int kOutputs = 16 * kWarps;  // of a block
constexpr int kMostBlocks = 8;         // of a cluster
constexpr int kHeld = 0;               // for a number of stages

// ---- clusters -----------------------------------------------------------------------------------
__device__ __forceinline__ void arrive_in_cluster() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_cluster() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
// Stores where `place` lies in the shared memory of another block of the cluster.
__device__ __forceinline__ void store_in_block(uint16_t* place, int block, uint16_t value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(there)
               : "r"(core::shared_address(place)), "r"(block));
  asm volatile("st.shared::cluster.u16 [%0], %1;" ::"r"(there), "h"(value) : "memory");
#endif
}

// ---- the norm -----------------------------------------------------------------------------------
// A row whose products have been gathered, and what they are added to.
template <int kStretches>
struct GatheredRow {
  const BFloat16* gathered;
  StoredPack<BFloat16> residual[kStretches];

  __device__ void fetch(const BFloat16* x, int64_t columns) {
    over_row<kStretches>(columns, [&](int i, int64_t at, int count) {
      residual[i] = load_stored(x + at, count, Access::vector);
    });
  }
  __device__ Pack first(int i, int64_t at, int count) const {
    const Pack a = widened(residual[i]);
    const Pack b = load(gathered + at, count, Access::vector);
    Pack sum;
#pragma unroll
    for (int e = 0; e < kPack; ++e) sum.at[e] = a.at[e] + b.at[e];
    return rounded<BFloat16>(sum);
  }
  __device__ Pack again(int64_t, int) const { return {}; }  // it is kept
};

// A cluster has kRows rows. Its block number b norms the rows b, b + blocks, ... of them, a warp
// each, and has their products in shared memory.
template <int kRowTiles, int kStretches, int kStages>
__global__ void __launch_bounds__(kThreads)
    gemm_norm_kernel(const __grid_constant__ GemmNorm args) {
  using Block = Part<kRowTiles, kWarps>;
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ __align__(16) uint16_t gathered[Block::kRows * kOutputs];  // [rows of its own, n]
  let_next_begin();
  arrive_in_cluster();  // this block has begun: others may store into its memory
  const Gemm& p = args.product;
  const int n = static_cast<int>(p.n), m = static_cast<int>(p.m);
  const int blocks = n / kOutputs;
  const int block = static_cast<int>(blockIdx.x) % blocks;
  const int first_row = static_cast<int>(blockIdx.x) / blocks * Block::kRows;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Block part(p, first_row, block * kOutputs);
  bf16* tiles = reinterpret_cast<bf16*>(memory);
  const auto row_of = [&](int own) { return first_row + own * blocks + block; };

  float sums[kRowTiles][4] = {};
  LaneBias bias;
  const int output = part.output + 16 * warp;
  GatheredRow<kStretches> row;
  const FetchedNormWeights<kStretches> weights(args.norm, Access::vector);
  const auto early = [&] { bias.fetch(p, output, lane); };
  const auto late = [&] {
    if (row_of(warp) < m) row.fetch(args.x + int64_t{row_of(warp)} * n, n);
  };
  if constexpr (kStages == kHeld) {
    sum_held<kRowTiles, kWarps>(p, part, tiles, sums, early, late);
  } else {
    sum_long<kRowTiles, kWarps, kStages>(p, part, tiles, sums, early, late);
  }
  wait_for_cluster();  // all have begun
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int r = 8 * i + lane % 4 * 2 + e % 2;
      const float value = p.bias == nullptr ? sums[i][e] : sums[i][e] + bias.at[e / 2];
      uint16_t* place = gathered + r / blocks * n + output + lane / 4 + e / 2 * 8;
      store_in_block(place, r % blocks, narrowed<BFloat16>(value).bits);
    }
  }
  arrive_in_cluster();
  wait_for_cluster();  // all of this block's rows are here
  for (int own = warp; own < Block::kRows / blocks; own += kWarps) {
    if (row_of(own) >= m) break;
    const int64_t at = int64_t{row_of(own)} * n;
    if (own != warp) row.fetch(args.x + at, n);
    row.gathered = reinterpret_cast<const BFloat16*>(gathered) + own * n;
    norm_row<BFloat16, kStretches>(args.norm, row, weights, Access::vector, args.y + at);
  }
}

template <int kRowTiles, int kStretches, int kStages>
void start(Stream stream, const GemmNorm& args) {
  const Gemm& p = args.product;
  constexpr int64_t kStageBytes = kStageElements<kRowTiles, kWarps> * int64_t{sizeof(bf16)};
  const int64_t bytes = kStages == kHeld ? held_bytes<kRowTiles, kWarps>(p) : kStages * kStageBytes;
  const auto kernel = gemm_norm_kernel<kRowTiles, kStretches, kStages>;
  static const bool allowed = allow_shared_memory(kernel, static_cast<int>(kMostHeldBytes));
  static_cast<void>(allowed);  // else the launch fails, and says so
  const auto cluster = static_cast<unsigned>(p.n / kOutputs);
  const auto clusters = static_cast<unsigned>((p.m + 8 * kRowTiles - 1) / (8 * kRowTiles));
  launch_clusters(stream, kernel, dim3(clusters * cluster), cluster, kThreads,
                  static_cast<int>(bytes), args);
}

template <int kRowTiles, int kStretches>
void start(Stream stream, const GemmNorm& args) {
  constexpr int64_t kStageBytes = kStageElements<kRowTiles, kWarps> * int64_t{sizeof(bf16)};
  constexpr int kStages = static_cast<int>(kMostHeldBytes / kStageBytes);
  if (held_bytes<kRowTiles, kWarps>(args.product) <= kMostHeldBytes / 2) {
    return start<kRowTiles, kStretches, kHeld>(stream, args);
  }
  start<kRowTiles, kStretches, kStages>(stream, args);
}

template <int kStretches>
void start(Stream stream, const GemmNorm& args) {
  // As few rows a cluster as leave every cluster a place at once.
  const int64_t cluster = args.product.n / kOutputs;
  const auto blocks = [&](int64_t rows) { return (args.product.m + rows - 1) / rows * cluster; };
  constexpr int64_t kAtOnce = 128;
  if (blocks(8) <= kAtOnce) return start<1, kStretches>(stream, args);
  if (blocks(16) <= kAtOnce) return start<2, kStretches>(stream, args);
  start<4, kStretches>(stream, args);
}

}  // namespace

bool suits_gemm_norm(const GemmNorm& args) {
  const Gemm& p = args.product;
  const int64_t blocks = p.n / kOutputs;
  // A row of a cluster belongs to one of its blocks, and eight rows to all alike.
  const bool divides = blocks * kOutputs == p.n && blocks > 0 && kMostBlocks % blocks == 0;
  return divides && p.type == DType::bf16 && p.orientation == Orientation::forward && p.k > 0 &&
         p.m > 0 && has_few_rows(p) && !p.relu && args.norm.columns == p.n &&
         aligned_rows(p.a, p.a_stride, p.type) && aligned_rows(p.b, p.b_stride, p.type) &&
         aligned_rows(args.x, p.n, p.type) && aligned_rows(args.y, p.n, p.type) &&
         aligned(args.norm.weight) && aligned(args.norm.bias);
}

void gemm_norm(Stream stream, const GemmNorm& args) {
  if (args.product.n <= kStretch) return start<1>(stream, args);
  start<2>(stream, args);
}

}  // namespace tril::kernels::cuda
