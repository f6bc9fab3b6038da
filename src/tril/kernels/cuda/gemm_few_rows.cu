// Products of few rows, as decoding makes them: bound by reading the weights once.
//
// The weights are the operand with 16 rows, so that one row of x is no less welcome than eight. A
// warp makes 16 outputs of up to 64 rows, alone through all terms; what it will multiply comes into
// shared memory many tiles ahead, brought by all four warps of a block. Where outputs are few one
// warp of a block multiplies, so that they spread over the card; where they are many all four do,
// and share the rows of x they read. The sum is the same
// whichever operand has 16 rows: each product is the same, and so are the 16 that are added.
#include <cstdint>

#include "tril/kernels/cuda/gemm_parts.cuh"

namespace tril::kernels::cuda {
namespace {

constexpr int kDepth = 64;  // terms of a tile: 128 bytes of each row
constexpr int kThreads = 128;
constexpr int kSteps = kDepth / core::kTerms;

template <int kRowTiles, int kWarps>
constexpr int kStageElements = (16 * kWarps + 8 * kRowTiles) * kDepth;

// What a warp multiplies of a tile: 16 outputs by 8 kRowTiles rows.
template <int kRowTiles>
struct Fragments {
  uint32_t left[kSteps][4];
  uint32_t right[kRowTiles][kSteps / 2][4];  // each of two steps

  __device__ void read(const bf16* outputs, const bf16* rows, int lane) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int piece = 2 * step + lane / 16;
      core::load_matrices(left[step], outputs + core::place<kDepth>(lane % 16, piece));
    }
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int pair = 0; pair < kSteps / 2; ++pair) {
        const int piece = 4 * pair + lane / 8;
        core::load_matrices(right[i][pair], rows + core::place<kDepth>(8 * i + lane % 8, piece));
      }
    }
  }
  __device__ void multiply(float (&sums)[kRowTiles][4], int steps) const {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (step >= steps) break;
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        const uint32_t(&terms)[4] = right[i][step / 2];
        core::multiply_add(sums[i], left[step], terms[step % 2 * 2], terms[step % 2 * 2 + 1]);
      }
    }
  }
};

template <int kRowTiles, int kWarps, int kStages>
__global__ void __launch_bounds__(kThreads) few_rows_kernel(const Gemm p) {
  extern __shared__ __align__(128) unsigned char memory[];
  bf16* tiles = reinterpret_cast<bf16*>(memory);
  constexpr int kOutputs = 16 * kWarps;
  constexpr int kRows = 8 * kRowTiles;
  constexpr int kStage = kStageElements<kRowTiles, kWarps>;
  const int m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
  // Blocks of the same outputs are neighbours: the second finds the weights in L2.
  const int row_blocks = (m + kRows - 1) / kRows;
  const int row = static_cast<int>(blockIdx.x) % row_blocks * kRows;
  const int output = static_cast<int>(blockIdx.x) / row_blocks * kOutputs;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const bool multiplies = thread < 32 * kWarps;
  const int warp_output = thread / 32 * 16;
  float sums[kRowTiles][4] = {};

  TileLoader<kOutputs, kDepth, kThreads, TermsAre::columns, Alignment::rows> weights(
      {static_cast<const bf16*>(p.b), p.b_stride, n, k}, output, 0, thread);
  TileLoader<kRows, kDepth, kThreads, TermsAre::columns, Alignment::rows> x(
      {static_cast<const bf16*>(p.a), p.a_stride, m, k}, row, 0, thread);
  const auto load = [&](int term, int stage) {
    if (term < k) {
      bf16* tile = tiles + stage * kStage;
      weights.load(tile);
      x.load(tile + kOutputs * kDepth);
    }
    core::commit_copies();  // an empty one too: waiting counts them
  };
  Fragments<kRowTiles> fragments;
  for (int i = 0; i < kStages - 1; ++i) load(i * kDepth, i);
  int reading = 0, loading = kStages - 1;
  for (int term = 0; term < k; term += kDepth) {
    core::wait_for_copies<kStages - 2>();
    __syncthreads();  // the tile has come, and nobody reads the one that is loaded next
    if (multiplies) {
      const bf16* tile = tiles + reading * kStage;
      fragments.read(tile + warp_output * kDepth, tile + kOutputs * kDepth, lane);
    }
    load(term + (kStages - 1) * kDepth, loading);
    if (multiplies && k - term >= kDepth) {
      fragments.multiply(sums, kSteps);
    } else if (multiplies) {  // zeros to a multiple of 16, no further
      fragments.multiply(sums, (k - term + core::kTerms - 1) / core::kTerms);
    }
    reading = after<kStages>(reading);
    loading = after<kStages>(loading);
  }
  if (!multiplies) return;
  const Result result(p);
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
    const int r = row + 8 * i + lane % 4 * 2;
    const int c = output + warp_output + lane / 4;
    result.store(r, c, sums[i][0]);
    result.store(r + 1, c, sums[i][1]);
    result.store(r, c + 8, sums[i][2]);
    result.store(r + 1, c + 8, sums[i][3]);
  }
}

template <int kRowTiles, int kWarps, int kStages>
void launch(cudaStream_t stream, const Gemm& p) {
  constexpr int kBytes =
      kStages * kStageElements<kRowTiles, kWarps> * static_cast<int>(sizeof(bf16));
  const auto kernel = few_rows_kernel<kRowTiles, kWarps, kStages>;
  static const bool allowed = allow_shared_memory(kernel, kBytes);
  static_cast<void>(allowed);  // else the launch fails, and says so
  const int64_t row_blocks = (p.m + 8 * kRowTiles - 1) / (8 * kRowTiles);
  const int64_t output_blocks = (p.n + 16 * kWarps - 1) / (16 * kWarps);
  kernel<<<static_cast<unsigned>(row_blocks * output_blocks), kThreads, kBytes, stream>>>(p);
}

// One warp that multiplies: the whole of a short chain is on its way at once, or 32 KiB of weights
// of a long one.
template <int kRowTiles>
void launch_rows(cudaStream_t stream, const Gemm& p, int warps) {
  if (warps == 4) return launch<kRowTiles, 4, 6>(stream, p);
  if constexpr (kRowTiles <= 4) {
    if (p.k > 8 * kDepth) return launch<kRowTiles, 1, 17>(stream, p);
  }
  launch<kRowTiles, 1, 9>(stream, p);
}

struct Division {
  int row_tiles = 1;
  int warps = 1;
};

// How to divide outputs and rows between blocks: that by which the busiest multiprocessor reads
// least. No bit depends on it.
Division divide(const Gemm& p) {
  constexpr int64_t kMultiprocessors = 132;
  Division best;
  int64_t least = INT64_MAX;
  for (const int warps : {4, 1}) {
    for (const int row_tiles : {8, 4, 2, 1}) {
      if (row_tiles > 1 && p.m <= 4 * row_tiles) continue;  // half of it would do
      const int64_t blocks =
          ((p.n + 16 * warps - 1) / (16 * warps)) * ((p.m + 8 * row_tiles - 1) / (8 * row_tiles));
      const int64_t turns = (blocks + kMultiprocessors - 1) / kMultiprocessors;
      const int64_t rows_read = turns * (16 * warps + 8 * row_tiles);
      if (rows_read >= least) continue;
      least = rows_read;
      best = {row_tiles, warps};
    }
  }
  return best;
}

}  // namespace

void gemm_few_rows(cudaStream_t stream, const Gemm& product) {
  const Division division = divide(product);
  switch (division.row_tiles) {
    case 1: return launch_rows<1>(stream, product, division.warps);
    case 2: return launch_rows<2>(stream, product, division.warps);
    case 4: return launch_rows<4>(stream, product, division.warps);
    default: return launch_rows<8>(stream, product, division.warps);
  }
}

}  // namespace tril::kernels::cuda
