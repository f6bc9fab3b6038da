// Our own bf16 products: tiles of any size, stride and orientation; and which kernel computes a
// product.
#include <cstdint>

#include "tril/kernels/cuda/gemm_parts.cuh"

namespace tril::kernels::cuda {
namespace {

constexpr int kDepth = 64;   // terms of a tile
constexpr int kStages = 3;   // tiles being fetched or multiplied
constexpr int kWarpN = 32;   // a warp's columns of c
constexpr int kGroup = 8;    // tiles of rows that share what they read of b in L2
constexpr int kNarrow = 64;  // sides of a tile of c
constexpr int kWide = 128;

template <int kSide>
constexpr int kGemmThreads = 2 * kSide;  // warps are arranged 2 by kSide / 32
template <int kSide>
constexpr int kStageElements = 2 * kSide* kDepth;

// An operand: how its tiles are loaded, from `begin` of its rows (or columns) of c on, and read.
template <TermsAre kTerms, int kSide, Alignment kAligned>
struct Operand {
  static constexpr bool kAlongRows = kTerms == TermsAre::columns;
  TileLoader<kAlongRows ? kSide : kDepth, kAlongRows ? kDepth : kSide, kGemmThreads<kSide>, kTerms,
             kAligned>
      loader;

  __device__ Operand(const void* data, int64_t stride, int size, int k, int begin, int thread)
      : loader(Matrix{static_cast<const bf16*>(data), stride, kAlongRows ? size : k,
                      kAlongRows ? k : size},
               kAlongRows ? begin : 0, kAlongRows ? 0 : begin, thread) {}

  // The fragment of 16 rows of c from `row` on, 16 terms from `term` on.
  __device__ static void left(uint32_t (&to)[4], const bf16* tile, int row, int term, int lane) {
    if constexpr (kAlongRows) {
      const int r = row + lane % 16;
      const int piece = term / core::kPiece + lane / 16;
      core::load_matrices(to, tile + core::place<kDepth>(r, piece));
    } else {
      const int r = term + lane % 8 + lane / 16 * 8;
      const int piece = row / core::kPiece + lane / 8 % 2;
      core::load_matrices_transposed(to, tile + core::place<kSide>(r, piece));
    }
  }
  // The two fragments of 8 columns of c each from `column` on: to[0], to[1] and to[2], to[3].
  __device__ static void right(uint32_t (&to)[4], const bf16* tile, int column, int term,
                               int lane) {
    if constexpr (kAlongRows) {
      const int r = column + lane % 8 + lane / 16 * 8;
      const int piece = term / core::kPiece + lane / 8 % 2;
      core::load_matrices(to, tile + core::place<kDepth>(r, piece));
    } else {
      const int r = term + lane % 16;
      const int piece = column / core::kPiece + lane / 16;
      core::load_matrices_transposed(to, tile + core::place<kSide>(r, piece));
    }
  }
};

// Which tile of c a block computes: groups of kGroup tiles of rows go through all columns together.
template <int kSide>
__device__ void tile_of_block(int m, int n, int& row, int& column) {
  const int down = (m + kSide - 1) / kSide;
  const int across = (n + kSide - 1) / kSide;
  const int group = static_cast<int>(blockIdx.x) / (kGroup * across);
  const int within = static_cast<int>(blockIdx.x) % (kGroup * across);
  const int high = min(down - group * kGroup, kGroup);
  row = (group * kGroup + within % high) * kSide;
  column = within / high * kSide;
}

template <Orientation kOrientation, int kSide, Alignment kAligned>
__global__ void __launch_bounds__(kGemmThreads<kSide>, 2) tiled_kernel(const Gemm p) {
  extern __shared__ __align__(128) unsigned char memory[];
  bf16* tiles = reinterpret_cast<bf16*>(memory);
  constexpr int kRowTiles = kSide / 2 / 16;
  constexpr int kColumnTiles = kWarpN / 8;
  const int m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
  int row = 0, column = 0;
  tile_of_block<kSide>(m, n, row, column);
  using Left = Operand<terms_of_a(kOrientation), kSide, kAligned>;
  using Right = Operand<terms_of_b(kOrientation), kSide, kAligned>;
  const int thread = static_cast<int>(threadIdx.x);
  Left a(p.a, p.a_stride, m, k, row, thread);
  Right b(p.b, p.b_stride, n, k, column, thread);
  const int lane = thread % 32;
  const int warp_row = thread / 32 % 2 * (kSide / 2);
  const int warp_column = thread / 64 * kWarpN;
  float sums[kRowTiles][kColumnTiles][4] = {};

  const auto load = [&](int term, int stage) {
    if (term < k) {
      bf16* tile = tiles + stage * kStageElements<kSide>;
      a.loader.load(tile);
      b.loader.load(tile + kSide * kDepth);
    }
    core::commit_copies();  // even an empty one: waiting counts them
  };
  // The first `steps` times 16 terms of a stage.
  const auto multiply = [&](int stage, int steps) {
    const bf16* tile = tiles + stage * kStageElements<kSide>;
#pragma unroll
    for (int step = 0; step < kDepth / core::kTerms; ++step) {
      if (step >= steps) break;
      const int term = step * core::kTerms;
      uint32_t left[kRowTiles][4];
      uint32_t right[kColumnTiles / 2][4];
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) Left::left(left[i], tile, warp_row + 16 * i, term, lane);
#pragma unroll
      for (int j = 0; j < kColumnTiles / 2; ++j) {
        Right::right(right[j], tile + kSide * kDepth, warp_column + 16 * j, term, lane);
      }
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
        for (int j = 0; j < kColumnTiles; ++j) {
          core::multiply_add(sums[i][j], left[i], right[j / 2][j % 2 * 2],
                             right[j / 2][j % 2 * 2 + 1]);
        }
      }
    }
  };
  for (int i = 0; i < kStages - 1; ++i) load(i * kDepth, i);
  int reading = 0, loading = kStages - 1;
  for (int term = 0; term < k; term += kDepth) {
    core::wait_for_copies<kStages - 2>();
    __syncthreads();  // the tile has arrived, and the one loaded next is no longer read
    load(term + (kStages - 1) * kDepth, loading);
    if (k - term >= kDepth) {
      multiply(reading, kDepth / core::kTerms);
    } else {  // zeros up to a multiple of 16, no further
      multiply(reading, (k - term + core::kTerms - 1) / core::kTerms);
    }
    reading = after<kStages>(reading);
    loading = after<kStages>(loading);
  }
  const Result result(p);
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int j = 0; j < kColumnTiles; ++j) {
      const int r = row + warp_row + 16 * i + lane / 4;
      const int c = column + warp_column + 8 * j + lane % 4 * 2;
      result.store_pair(r, c, sums[i][j][0], sums[i][j][1]);
      result.store_pair(r + 8, c, sums[i][j][2], sums[i][j][3]);
    }
  }
}

template <Orientation kOrientation, int kSide, Alignment kAligned>
void launch(cudaStream_t stream, const Gemm& p) {
  constexpr int kBytes = kStages * kStageElements<kSide> * static_cast<int>(sizeof(bf16));
  constexpr auto kKernel = tiled_kernel<kOrientation, kSide, kAligned>;
  allow_shared_memory<kKernel>(kBytes);
  const int64_t blocks = ((p.m + kSide - 1) / kSide) * ((p.n + kSide - 1) / kSide);
  kKernel<<<static_cast<unsigned>(blocks), kGemmThreads<kSide>, kBytes, stream>>>(p);
}

template <Orientation kOrientation>
void launch(cudaStream_t stream, const Gemm& p) {
  if (!aligned_rows(p.a, p.a_stride, p.type) || !aligned_rows(p.b, p.b_stride, p.type)) {
    return launch<kOrientation, kNarrow, Alignment::none>(stream, p);
  }
  // Large tiles read less, small ones give more blocks.
  constexpr int64_t kEnoughBlocks = 128;
  const int64_t wide = ((p.m + kWide - 1) / kWide) * ((p.n + kWide - 1) / kWide);
  if (wide >= kEnoughBlocks) return launch<kOrientation, kWide, Alignment::rows>(stream, p);
  launch<kOrientation, kNarrow, Alignment::rows>(stream, p);
}

}  // namespace

void gemm_tiled(cudaStream_t stream, const Gemm& product) {
  switch (product.orientation) {
    case Orientation::forward: return launch<Orientation::forward>(stream, product);
    case Orientation::input_gradient: return launch<Orientation::input_gradient>(stream, product);
    case Orientation::weight_gradient: return launch<Orientation::weight_gradient>(stream, product);
  }
}

void gemm_own(Stream stream, const Gemm& product) {
  if (product.m == 0 || product.n == 0) return;
  const auto queue = static_cast<cudaStream_t>(stream.handle);
  if (product.type == DType::f32) return gemm_f32(queue, product);
  const bool few = has_few_rows(product) &&
                   aligned_rows(product.a, product.a_stride, product.type) &&
                   aligned_rows(product.b, product.b_stride, product.type);
  if (few) return gemm_few_rows(stream, product);
  gemm_tiled(queue, product);
}

}  // namespace tril::kernels::cuda
