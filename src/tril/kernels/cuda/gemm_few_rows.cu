// Products of few rows, as decoding makes them: bound by reading the weights once.
//
// The weights are the operand with 16 rows, so that one row of x costs no more than eight. A warp
// computes 16 outputs of up to 64 rows, alone through all terms; its data is fetched into shared
// memory ahead of time by all four warps of a block, the weights while earlier kernels are still
// running (launch.cuh). Where outputs are few, one warp of a block multiplies, so that they spread
// over the GPU; where they are many, all four do, and share the rows of x they read. The sum is the
// same whichever operand has 16 rows: each product is the same, and so are the 16 that are added.
#include <algorithm>
#include <cstdint>

#include "tril/kernels/cuda/gemm_parts.cuh"
#include "tril/kernels/cuda/launch.cuh"

namespace tril::kernels::cuda {
namespace {

constexpr int kFewRowsDepth = 64;  // terms of a tile: 128 bytes of each row
constexpr int kGemmFewRowsThreads = 128;
constexpr int kSteps = kFewRowsDepth / core::kTerms;
constexpr int64_t kMultiprocessors = 132;  // of the GPU this is tuned for

template <int kRowTiles, int kWarps>
constexpr int kFewRowsStageElements = (16 * kWarps + 8 * kRowTiles) * kFewRowsDepth;

// What a warp multiplies of a tile: 16 outputs by 8 kRowTiles rows.
template <int kRowTiles>
struct Fragments {
  uint32_t left[kSteps][4];
  uint32_t right[kRowTiles][kSteps / 2][4];  // for each of two steps

  __device__ void read(const bf16* outputs, const bf16* rows, int lane) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int piece = 2 * step + lane / 16;
      core::load_matrices(left[step], outputs + core::place<kFewRowsDepth>(lane % 16, piece));
    }
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int pair = 0; pair < kSteps / 2; ++pair) {
        const int piece = 4 * pair + lane / 8;
        core::load_matrices(right[i][pair],
                            rows + core::place<kFewRowsDepth>(8 * i + lane % 8, piece));
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

// Where the sums of a block are stored. The bias is fetched before they are complete; otherwise
// every kernel would end by waiting for it.
template <int kRowTiles>
class Outputs {
 public:
  __device__ Outputs(const Gemm& p, int row, int output, int lane)
      : p_(p), row_(row + lane % 4 * 2), output_(output + lane / 4) {
    if (p.bias == nullptr) return;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = output_ + 8 * i;
      if (column < p.n) bias_[i] = __bfloat162float(static_cast<const bf16*>(p.bias)[column]);
    }
  }
  __device__ void store(const float (&sums)[kRowTiles][4]) const {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) store(row_ + 8 * i + e % 2, e / 2, sums[i][e]);
    }
  }

 private:
  __device__ void store(int row, int half, float sum) const {
    const int column = output_ + 8 * half;
    if (row >= p_.m || column >= p_.n) return;
    const float biased = p_.bias == nullptr ? sum : sum + bias_[half];
    const float value = p_.relu && biased <= 0.0f ? 0.0f : biased;  // NaN stays NaN
    const int64_t at = row * p_.c_stride + column;
    if (p_.c_type == DType::f32) {
      static_cast<float*>(p_.c)[at] = value;
    } else {
      static_cast<bf16*>(p_.c)[at] = __float2bfloat16_rn(value);
    }
  }

  const Gemm& p_;
  int row_, output_;
  float bias_[2] = {};
};

// The block's part of a product and the loading of its tiles: kOutputs weights per tile, then the
// rows.
template <int kRowTiles, int kWarps>
struct Part {
  static constexpr int kOutputs = 16 * kWarps;
  static constexpr int kRows = 8 * kRowTiles;
  static constexpr int kStage = kFewRowsStageElements<kRowTiles, kWarps>;
  int row, output;
  TileLoader<kOutputs, kFewRowsDepth, kGemmFewRowsThreads, TermsAre::columns, Alignment::rows>
      weights;
  TileLoader<kRows, kFewRowsDepth, kGemmFewRowsThreads, TermsAre::columns, Alignment::rows> x;

  // Blocks of the same outputs are neighbours, so that the second finds the weights in L2.
  __device__ static int row_of(int m) {
    return static_cast<int>(blockIdx.x) % ((m + kRows - 1) / kRows) * kRows;
  }
  __device__ static int output_of(int m) {
    return static_cast<int>(blockIdx.x) / ((m + kRows - 1) / kRows) * kOutputs;
  }
  __device__ explicit Part(const Gemm& p)
      : row(row_of(static_cast<int>(p.m))),
        output(output_of(static_cast<int>(p.m))),
        weights({static_cast<const bf16*>(p.b), p.b_stride, static_cast<int>(p.n),
                 static_cast<int>(p.k)},
                output, 0, static_cast<int>(threadIdx.x)),
        x({static_cast<const bf16*>(p.a), p.a_stride, static_cast<int>(p.m), static_cast<int>(p.k)},
          row, 0, static_cast<int>(threadIdx.x)) {}
};

// The number of steps of 16 terms in the tile that begins at this term: zeros up to a multiple of
// 16, no further.
__device__ inline int steps_from(int term, int k) {
  return k - term >= kFewRowsDepth ? kSteps : (k - term + core::kTerms - 1) / core::kTerms;
}

// Long chains: tiles are fetched while others are multiplied.
template <int kRowTiles, int kWarps, int kStages>
__global__ void __launch_bounds__(kGemmFewRowsThreads) few_rows_kernel(const Gemm p) {
  extern __shared__ __align__(128) unsigned char memory[];
  bf16* tiles = reinterpret_cast<bf16*>(memory);
  using Block = Part<kRowTiles, kWarps>;
  let_next_begin();
  Block part(p);
  const int k = static_cast<int>(p.k);
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const bool multiplies = thread < 32 * kWarps;
  const int warp_output = thread / 32 * 16;
  const auto load = [&](int term, int stage, bool weights, bool x) {
    bf16* tile = tiles + stage * Block::kStage;
    if (weights && term < k) part.weights.load(tile);
    if (x && term < k) part.x.load(tile + Block::kOutputs * kFewRowsDepth);
    core::commit_copies();  // even an empty one: waiting counts them
  };
  for (int i = 0; i < kStages - 1; ++i) load(i * kFewRowsDepth, i, true, false);
  const Outputs<kRowTiles> outputs(p, part.row, part.output + warp_output, lane);
  wait_for_earlier();
  for (int i = 0; i < kStages - 1; ++i) load(i * kFewRowsDepth, i, false, true);
  float sums[kRowTiles][4] = {};
  Fragments<kRowTiles> fragments;
  int reading = 0, loading = kStages - 1;
  for (int term = 0; term < k; term += kFewRowsDepth) {
    core::wait_for_copies<kStages - 2>();
    __syncthreads();  // the tile has arrived, and the one loaded next is no longer read
    if (multiplies) {
      const bf16* tile = tiles + reading * Block::kStage;
      fragments.read(tile + warp_output * kFewRowsDepth, tile + Block::kOutputs * kFewRowsDepth,
                     lane);
    }
    load(term + (kStages - 1) * kFewRowsDepth, loading, true, true);
    if (multiplies) fragments.multiply(sums, steps_from(term, k));
    reading = after<kStages>(reading);
    loading = after<kStages>(loading);
  }
  if (multiplies) outputs.store(sums);
}

// Short chains: all terms are fetched at once, so that there is no waiting in between.
template <int kRowTiles, int kWarps>
__global__ void __launch_bounds__(kGemmFewRowsThreads) held_rows_kernel(const Gemm p) {
  extern __shared__ __align__(128) unsigned char memory[];
  bf16* tiles = reinterpret_cast<bf16*>(memory);
  using Block = Part<kRowTiles, kWarps>;
  let_next_begin();
  Block part(p);
  const int k = static_cast<int>(p.k);
  const int count = (k + kFewRowsDepth - 1) / kFewRowsDepth;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_output = static_cast<int>(threadIdx.x) / 32 * 16;
  for (int i = 0; i < count; ++i) part.weights.load(tiles + i * Block::kStage);
  const Outputs<kRowTiles> outputs(p, part.row, part.output + warp_output, lane);
  wait_for_earlier();
  for (int i = 0; i < count; ++i) {
    part.x.load(tiles + i * Block::kStage + Block::kOutputs * kFewRowsDepth);
  }
  core::commit_copies();
  core::wait_for_copies<0>();
  __syncthreads();
  if (threadIdx.x >= 32 * kWarps) return;
  float sums[kRowTiles][4] = {};
  const auto read = [&](Fragments<kRowTiles>& fragments, int i) {
    const bf16* tile = tiles + i * Block::kStage;
    if (i >= count) return;
    fragments.read(tile + warp_output * kFewRowsDepth, tile + Block::kOutputs * kFewRowsDepth,
                   lane);
  };
  // Two at a time: one is loaded while the other is multiplied.
  Fragments<kRowTiles> even, odd;
  read(even, 0);
  for (int i = 0; i < count; i += 2) {
    read(odd, i + 1);
    even.multiply(sums, steps_from(i * kFewRowsDepth, k));
    if (i + 1 >= count) break;
    read(even, i + 2);
    odd.multiply(sums, steps_from((i + 1) * kFewRowsDepth, k));
  }
  outputs.store(sums);
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
      kStages * kFewRowsStageElements<kRowTiles, kWarps> * static_cast<int>(sizeof(bf16));
  constexpr auto kKernel = few_rows_kernel<kRowTiles, kWarps, kStages>;
  allow_shared_memory<kKernel>(kBytes);
  launch(stream, kKernel, blocks_of<kRowTiles, kWarps>(p), kGemmFewRowsThreads, kBytes, p);
}

// The shared memory a block may use: GPUs such as 8.6 have 99 KiB per multiprocessor, so there the
// longest chains do not fit.
constexpr int64_t kMostHeldBytes = int64_t{200} << 10;
int64_t held_bytes_allowed() {
  static PerGpu<int64_t> bytes;
  return bytes.get([] {
    int device = 0, most = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    return most < kMostHeldBytes ? int64_t{most} : kMostHeldBytes;
  });
}
template <int kRowTiles, int kWarps>
int64_t held_bytes(const Gemm& p) {
  return (p.k + kFewRowsDepth - 1) / kFewRowsDepth * kFewRowsStageElements<kRowTiles, kWarps> *
         int64_t{sizeof(bf16)};
}
template <int kRowTiles, int kWarps>
void launch_held(Stream stream, const Gemm& p) {
  constexpr auto kKernel = held_rows_kernel<kRowTiles, kWarps>;
  allow_shared_memory<kKernel>(static_cast<int>(held_bytes_allowed()));
  launch(stream, kKernel, blocks_of<kRowTiles, kWarps>(p), kGemmFewRowsThreads,
         static_cast<int>(held_bytes<kRowTiles, kWarps>(p)), p);
}

// The whole chain is fetched at once if all blocks fit; otherwise as many tiles as keep a
// multiprocessor busy.
template <int kRowTiles, int kWarps>
void launch_rows(Stream stream, const Gemm& p) {
  const int64_t bytes = held_bytes<kRowTiles, kWarps>(p);
  const int64_t at_once = kMultiprocessors * (kMostHeldBytes / std::max<int64_t>(bytes, 1));
  const bool held = bytes <= held_bytes_allowed() && blocks_of<kRowTiles, kWarps>(p).x <= at_once;
  if (held) return launch_held<kRowTiles, kWarps>(stream, p);
  launch_long<kRowTiles, kWarps, kWarps == 4 ? 6 : 17>(stream, p);
}

struct Division {
  int row_tiles = 1;
  int warps = 1;
};

// How to divide outputs and rows between blocks: so that the busiest multiprocessor reads least.
// Where outputs are few there is little to read, and products that wait for each other cost more:
// there a warp computes fewer. No bit depends on it. Tuned on whole decoding steps.
Division divide(const Gemm& p) {
  constexpr int64_t kFewOutputs = 4096;
  const int most_tiles = p.n <= kFewOutputs ? 4 : 8;
  Division best;
  int64_t least = INT64_MAX;
  for (const int warps : {4, 1}) {
    for (const int row_tiles : {8, 4, 2, 1}) {
      if (row_tiles > 1 && p.m <= 4 * row_tiles) continue;  // half of it would be enough
      if (row_tiles > (warps == 4 ? most_tiles : 2)) continue;
      const int64_t blocks =
          ((p.n + 16 * warps - 1) / (16 * warps)) * ((p.m + 8 * row_tiles - 1) / (8 * row_tiles));
      const int64_t turns = (blocks + kMultiprocessors - 1) / kMultiprocessors;
      const int64_t read = turns * (16 * warps + 8 * row_tiles);  // rows of x and of the weights
      if (read >= least) continue;
      least = read;
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
    case 4: return launch_rows<4, 4>(stream, product);
    default: return launch_rows<8, 4>(stream, product);
  }
}

}  // namespace tril::kernels::cuda
