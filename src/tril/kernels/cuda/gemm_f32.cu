// Products in fp32, the mode for checking: one chain of fused multiply-adds over terms ascending
// for each element, in tiles of shared memory.
#include <cstdint>

#include "tril/kernels/cuda/gemm_parts.cuh"

namespace tril::kernels::cuda {
namespace {

constexpr int kSide = 64;      // of a tile of c
constexpr int kF32Depth = 16;  // terms of a tile
constexpr int kGemmF32Threads = 256;
constexpr int kEach = 4;  // a thread makes 4 x 4 elements
constexpr int kRow = kSide + 4;

using Tile = float[kF32Depth][kRow];

// tile[term][i] = element (begin + i, from + term) of an operand, whose rows are terms or i.
template <TermsAre kTerms>
__device__ void load(Tile& tile, const float* data, int64_t stride, int64_t size, int64_t k,
                     int64_t begin, int64_t from) {
  constexpr bool kAlongRows = kTerms == TermsAre::columns;
  constexpr int kWidth = kAlongRows ? kF32Depth : kSide;
#pragma unroll
  for (int first = 0; first < kSide * kF32Depth; first += kGemmF32Threads) {
    const int at = first + static_cast<int>(threadIdx.x);
    const int term = kAlongRows ? at % kWidth : at / kWidth;
    const int i = kAlongRows ? at / kWidth : at % kWidth;
    const bool there = begin + i < size && from + term < k;
    const int64_t place =
        kAlongRows ? (begin + i) * stride + from + term : (from + term) * stride + begin + i;
    tile[term][i] = there ? data[place] : 0.0f;
  }
}

template <Orientation kOrientation>
__global__ void __launch_bounds__(kGemmF32Threads) chain_kernel(const Gemm p) {
  __shared__ Tile a, b;
  const int64_t across = (p.n + kSide - 1) / kSide;
  const int64_t row = blockIdx.x / across * kSide;
  const int64_t column = blockIdx.x % across * kSide;
  const int my_row = static_cast<int>(threadIdx.x) / (kSide / kEach) * kEach;
  const int my_column = static_cast<int>(threadIdx.x) % (kSide / kEach) * kEach;
  float sums[kEach][kEach] = {};
  for (int64_t term = 0; term < p.k; term += kF32Depth) {
    __syncthreads();
    load<terms_of_a(kOrientation)>(a, static_cast<const float*>(p.a), p.a_stride, p.m, p.k, row,
                                   term);
    load<terms_of_b(kOrientation)>(b, static_cast<const float*>(p.b), p.b_stride, p.n, p.k, column,
                                   term);
    __syncthreads();
    const int terms = p.k - term < kF32Depth ? static_cast<int>(p.k - term) : kF32Depth;
    for (int t = 0; t < terms; ++t) {  // and no further: adding zero would change a -0
      float left[kEach], right[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) left[i] = a[t][my_row + i];
#pragma unroll
      for (int j = 0; j < kEach; ++j) right[j] = b[t][my_column + j];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) sums[i][j] = __fmaf_rn(left[i], right[j], sums[i][j]);
      }
    }
  }
  if constexpr (kOrientation == Orientation::weight_gradient) {  // a sum over tokens is never -0
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int j = 0; j < kEach; ++j) sums[i][j] += 0.0f;
    }
  }
  const Result result(p);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
#pragma unroll
    for (int j = 0; j < kEach; j += 2) {
      result.store_pair(row + my_row + i, column + my_column + j, sums[i][j], sums[i][j + 1]);
    }
  }
}

template <Orientation kOrientation>
void launch_chain(cudaStream_t stream, const Gemm& p) {
  const int64_t blocks = ((p.m + kSide - 1) / kSide) * ((p.n + kSide - 1) / kSide);
  chain_kernel<kOrientation><<<static_cast<unsigned>(blocks), kGemmF32Threads, 0, stream>>>(p);
}

}  // namespace

void gemm_f32(cudaStream_t stream, const Gemm& product) {
  switch (product.orientation) {
    case Orientation::forward: return launch_chain<Orientation::forward>(stream, product);
    case Orientation::input_gradient:
      return launch_chain<Orientation::input_gradient>(stream, product);
    case Orientation::weight_gradient:
      return launch_chain<Orientation::weight_gradient>(stream, product);
  }
}

}  // namespace tril::kernels::cuda
