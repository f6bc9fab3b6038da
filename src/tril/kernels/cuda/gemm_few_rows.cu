// Products of few rows, as decoding makes them: bound by reading the weights once.
//
// Where outputs are few one warp of a block multiplies, so that they spread over the card; where
// they are many all four do, and share the rows of x they read.
#include <algorithm>
#include <cstdint>

#include "tril/kernels/cuda/gemm_few_rows.cuh"

namespace tril::kernels::cuda {
namespace {

using namespace few;

constexpr int64_t kMultiprocessors = 132;  // of the card this is made for

// Where the sums of a warp go.
template <int kRowTiles>
__device__ void store(const Gemm& p, int row, int output, const LaneBias& bias, int lane,
                      const float (&sums)[kRowTiles][4]) {
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int r = row + 8 * i + lane % 4 * 2 + e % 2;
      const int column = output + lane / 4 + e / 2 * 8;
      if (r >= p.m || column >= p.n) continue;
      const float biased = p.bias == nullptr ? sums[i][e] : sums[i][e] + bias.at[e / 2];
      const float value = p.relu && biased <= 0.0f ? 0.0f : biased;  // NaN stays NaN
      const int64_t at = r * p.c_stride + column;
      if (p.c_type == DType::f32) {
        static_cast<float*>(p.c)[at] = value;
      } else {
        static_cast<bf16*>(p.c)[at] = __float2bfloat16_rn(value);
      }
    }
  }
}

// The part of this block. Blocks of the same outputs are neighbours: the second finds the weights
// in L2.
template <int kRowTiles, int kWarps>
__device__ Part<kRowTiles, kWarps> part_of_block(const Gemm& p) {
  using Block = Part<kRowTiles, kWarps>;
  const int row_blocks = (static_cast<int>(p.m) + Block::kRows - 1) / Block::kRows;
  const int block = static_cast<int>(blockIdx.x);
  return {p, block % row_blocks * Block::kRows, block / row_blocks * Block::kOutputs};
}

constexpr int kHeld = 0;  // for a number of stages
template <int kRowTiles, int kWarps, int kStages>
__global__ void __launch_bounds__(kThreads) few_rows_kernel(const Gemm p) {
  extern __shared__ __align__(128) unsigned char memory[];
  bf16* tiles = reinterpret_cast<bf16*>(memory);
  let_next_begin();
  auto part = part_of_block<kRowTiles, kWarps>(p);
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int output = part.output + thread / 32 * 16;
  float sums[kRowTiles][4] = {};
  LaneBias bias;
  const auto early = [&] { bias.fetch(p, output, lane); };
  const auto late = [] {};
  if constexpr (kStages == kHeld) {
    sum_held<kRowTiles, kWarps>(p, part, tiles, sums, early, late);
  } else {
    sum_long<kRowTiles, kWarps, kStages>(p, part, tiles, sums, early, late);
  }
  if (thread < 32 * kWarps) store<kRowTiles>(p, part.row, output, bias, lane, sums);
}

template <int kRowTiles, int kWarps>
dim3 blocks_of(const Gemm& p) {
  const int64_t row_blocks = (p.m + 8 * kRowTiles - 1) / (8 * kRowTiles);
  const int64_t output_blocks = (p.n + 16 * kWarps - 1) / (16 * kWarps);
  return dim3(static_cast<unsigned>(row_blocks * output_blocks));
}

template <int kRowTiles, int kWarps, int kStages>
void launch_long(Stream stream, const Gemm& p) {
  constexpr int kBytes =
      kStages * kStageElements<kRowTiles, kWarps> * static_cast<int>(sizeof(bf16));
  const auto kernel = few_rows_kernel<kRowTiles, kWarps, kStages>;
  static const bool allowed = allow_shared_memory(kernel, kBytes);
  static_cast<void>(allowed);  // else the launch fails, and says so
  launch(stream, kernel, blocks_of<kRowTiles, kWarps>(p), kThreads, kBytes, p);
}

template <int kRowTiles, int kWarps>
void launch_held(Stream stream, const Gemm& p) {
  const auto kernel = few_rows_kernel<kRowTiles, kWarps, kHeld>;
  static const bool allowed = allow_shared_memory(kernel, static_cast<int>(held_bytes_allowed()));
  static_cast<void>(allowed);
  launch(stream, kernel, blocks_of<kRowTiles, kWarps>(p), kThreads,
         static_cast<int>(held_bytes<kRowTiles, kWarps>(p)), p);
}

// The whole of a chain is on its way at once where all blocks find room; else so many tiles that a
// multiprocessor is kept busy.
template <int kRowTiles, int kWarps>
void launch_rows(Stream stream, const Gemm& p) {
  const int64_t bytes = held_bytes<kRowTiles, kWarps>(p);
  const int64_t at_once = kMultiprocessors * (kMostHeldBytes / std::max<int64_t>(bytes, 1));
  const bool held = bytes <= held_bytes_allowed() && blocks_of<kRowTiles, kWarps>(p).x <= at_once;
  if (held) return launch_held<kRowTiles, kWarps>(stream, p);
  launch_long<kRowTiles, kWarps, kWarps == 4 ? 6 : kRowTiles <= 4 ? 17 : 9>(stream, p);
}

struct Division {
  int row_tiles = 1;
  int warps = 1;
};

// How to divide outputs and rows between blocks: that by which the time to read them is least, be
// it what the busiest multiprocessor reads or what all of them ask of L2, which serves about 50 of
// them as fast as they can read. No bit depends on it.
Division divide(const Gemm& p) {
  constexpr int64_t kServed = 50;
  Division best;
  int64_t least = INT64_MAX;
  for (const int warps : {4, 1}) {
    for (const int row_tiles : {8, 4, 2, 1}) {
      if (row_tiles > 1 && p.m <= 4 * row_tiles) continue;  // half of it would do
      const int64_t blocks =
          ((p.n + 16 * warps - 1) / (16 * warps)) * ((p.m + 8 * row_tiles - 1) / (8 * row_tiles));
      const int64_t turns = (blocks + kMultiprocessors - 1) / kMultiprocessors;
      const int64_t rows = 16 * warps + 8 * row_tiles;  // that a block reads
      const int64_t time = std::max(turns * kServed, blocks) * rows;
      if (time >= least) continue;
      least = time;
      best = {row_tiles, warps};
    }
  }
  return best;
}

template <int kRowTiles>
void launch_rows(Stream stream, const Gemm& p, int warps) {
  if (warps == 4) return launch_rows<kRowTiles, 4>(stream, p);
  launch_rows<kRowTiles, 1>(stream, p);
}

}  // namespace

void gemm_few_rows(Stream stream, const Gemm& product) {
  const Division division = divide(product);
  switch (division.row_tiles) {
    case 1: return launch_rows<1>(stream, product, division.warps);
    case 2: return launch_rows<2>(stream, product, division.warps);
    case 4: return launch_rows<4>(stream, product, division.warps);
    default: return launch_rows<8>(stream, product, division.warps);
  }
}

}  // namespace tril::kernels::cuda
