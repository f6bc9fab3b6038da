// Sums of products of few rows: what gemm_few_rows.cu and gemm_norm.cu have in common.
//
// The weights are the operand with 16 rows, so that one row of x is no less welcome than eight. A
// warp makes 16 outputs of up to 64 rows, alone through all terms; what it will multiply comes into
// shared memory ahead, brought by all four warps of a block, the weights while earlier kernels
// are still at work (launch.cuh). The sum is the same whichever operand has 16 rows: each product
// is the same, and so are the 16 that are added.
#pragma once

#include "tril/kernels/cuda/gemm_parts.cuh"
#include "tril/kernels/cuda/launch.cuh"

namespace tril::kernels::cuda::few {

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

// The block's part of a product and what brings its tiles. kOutputs weights a tile, then the rows.
template <int kRowTiles, int kWarps>
struct Part {
  static constexpr int kOutputs = 16 * kWarps;
  static constexpr int kRows = 8 * kRowTiles;
  static constexpr int kStage = kStageElements<kRowTiles, kWarps>;
  int row, output;
  TileLoader<kOutputs, kDepth, kThreads, TermsAre::columns, Alignment::rows> weights;
  TileLoader<kRows, kDepth, kThreads, TermsAre::columns, Alignment::rows> x;

  __device__ Part(const Gemm& p, int first_row, int first_output)
      : row(first_row),
        output(first_output),
        weights({static_cast<const bf16*>(p.b), p.b_stride, static_cast<int>(p.n),
                 static_cast<int>(p.k)},
                output, 0, static_cast<int>(threadIdx.x)),
        x({static_cast<const bf16*>(p.a), p.a_stride, static_cast<int>(p.m), static_cast<int>(p.k)},
          row, 0, static_cast<int>(threadIdx.x)) {}
};

// What is added to the sums of a lane: its outputs are 8 apart. Fetched before they are there, or
// waiting for it would be the last thing that every kernel does.
struct LaneBias {
  float at[2] = {};

  __device__ void fetch(const Gemm& p, int output, int lane) {
    if (p.bias == nullptr) return;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = output + lane / 4 + 8 * i;
      if (column < p.n) at[i] = __bfloat162float(static_cast<const bf16*>(p.bias)[column]);
    }
  }
};

// How many steps of 16 terms a tile has, which begins at this one: zeros to a multiple of 16, no
// further.
__device__ inline int steps_from(int term, int k) {
  return k - term >= kDepth ? kSteps : (k - term + core::kTerms - 1) / core::kTerms;
}

// The sums of a block's part, by its first kWarps warps. early() is called when the first weights
// are on their way, before earlier kernels have ended; late() when they have.
//
// Long chains: tiles come while others are multiplied.
template <int kRowTiles, int kWarps, int kStages, class Early, class Late>
__device__ void sum_long(const Gemm& p, Part<kRowTiles, kWarps>& part, bf16* tiles,
                         float (&sums)[kRowTiles][4], const Early& early, const Late& late) {
  using Block = Part<kRowTiles, kWarps>;
  const int k = static_cast<int>(p.k);
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const bool multiplies = thread < 32 * kWarps;
  const int warp_output = thread / 32 * 16;
  enum class Of { weights, x, both };
  const auto load = [&](int term, int stage, Of what) {
    bf16* tile = tiles + stage * Block::kStage;
    if (what != Of::x && term < k) part.weights.load(tile);
    if (what != Of::weights && term < k) part.x.load(tile + Block::kOutputs * kDepth);
    core::commit_copies();  // an empty one too: waiting counts them
  };
  for (int i = 0; i < kStages - 1; ++i) load(i * kDepth, i, Of::weights);
  early();
  wait_for_earlier();
  for (int i = 0; i < kStages - 1; ++i) load(i * kDepth, i, Of::x);
  late();
  Fragments<kRowTiles> fragments;
  int reading = 0, loading = kStages - 1;
  for (int term = 0; term < k; term += kDepth) {
    core::wait_for_copies<kStages - 2>();
    __syncthreads();  // the tile has come, and nobody reads the one that is loaded next
    if (multiplies) {
      const bf16* tile = tiles + reading * Block::kStage;
      fragments.read(tile + warp_output * kDepth, tile + Block::kOutputs * kDepth, lane);
    }
    load(term + (kStages - 1) * kDepth, loading, Of::both);
    if (multiplies) fragments.multiply(sums, steps_from(term, k));
    reading = after<kStages>(reading);
    loading = after<kStages>(loading);
  }
}

// Short ones: all of the chain comes at once, so that nobody waits in between.
template <int kRowTiles, int kWarps, class Early, class Late>
__device__ void sum_held(const Gemm& p, Part<kRowTiles, kWarps>& part, bf16* tiles,
                         float (&sums)[kRowTiles][4], const Early& early, const Late& late) {
  using Block = Part<kRowTiles, kWarps>;
  const int k = static_cast<int>(p.k);
  const int count = (k + kDepth - 1) / kDepth;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_output = static_cast<int>(threadIdx.x) / 32 * 16;
  for (int i = 0; i < count; ++i) part.weights.load(tiles + i * Block::kStage);
  early();
  wait_for_earlier();
  for (int i = 0; i < count; ++i) {
    part.x.load(tiles + i * Block::kStage + Block::kOutputs * kDepth);
  }
  core::commit_copies();
  late();
  core::wait_for_copies<0>();
  __syncthreads();
  if (threadIdx.x >= 32 * kWarps) return;
  const auto read = [&](Fragments<kRowTiles>& fragments, int i) {
    const bf16* tile = tiles + i * Block::kStage;
    if (i >= count) return;
    fragments.read(tile + warp_output * kDepth, tile + Block::kOutputs * kDepth, lane);
  };
  // Two at a time: one is read while the other is multiplied.
  Fragments<kRowTiles> even, odd;
  read(even, 0);
  for (int i = 0; i < count; i += 2) {
    read(odd, i + 1);
    even.multiply(sums, steps_from(i * kDepth, k));
    if (i + 1 >= count) break;
    read(even, i + 2);
    odd.multiply(sums, steps_from((i + 1) * kDepth, k));
  }
}

// What a block may have of its multiprocessor's memory: 8.6 and its like have 99 KiB, so there the
// longest chains are not held.
constexpr int64_t kMostHeldBytes = int64_t{200} << 10;
inline int64_t held_bytes_allowed() {
  static const int64_t bytes = [] {
    int device = 0, most = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    return most < kMostHeldBytes ? int64_t{most} : kMostHeldBytes;
  }();
  return bytes;
}
template <int kRowTiles, int kWarps>
int64_t held_bytes(const Gemm& p) {
  return (p.k + kDepth - 1) / kDepth * kStageElements<kRowTiles, kWarps> * int64_t{sizeof(bf16)};
}

}  // namespace tril::kernels::cuda::few
