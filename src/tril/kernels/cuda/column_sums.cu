// Sums over rows, the gradient of a bias.
#include <cstdint>

#include "tril/kernels/cuda/gemm_parts.cuh"

namespace tril::kernels::cuda {
namespace {

constexpr int kRuns = 16;                              // of a slice, side by side
constexpr int kRunRows = int{kColumnSumRows} / kRuns;  // each a chain
constexpr int kLanes = 32;

template <class T, int kEach>
struct alignas(sizeof(T) * kEach) Several {
  T at[kEach];
};
__device__ float as_float(float value) { return value; }
__device__ float as_float(bf16 value) { return __bfloat162float(value); }

// A block computes one slice of kLanes * kEach columns.
template <class T, int kEach>
__global__ void __launch_bounds__(kLanes* kRuns)
    slice_sums_kernel(const T* in, int64_t rows, int64_t columns, int64_t stride, float* partial) {
  __shared__ float runs[kRuns][kLanes * kEach];
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int run = static_cast<int>(threadIdx.x) / kLanes;
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * kLanes + lane) * kEach;
  const int64_t begin = blockIdx.y * kColumnSumRows + run * kRunRows;
  float sums[kEach] = {};
  if (column < columns) {
    const int64_t end = begin + kRunRows < rows ? begin + kRunRows : rows;
#pragma unroll 8
    for (int64_t row = begin; row < end; ++row) {
      const auto values = *reinterpret_cast<const Several<T, kEach>*>(in + row * stride + column);
#pragma unroll
      for (int i = 0; i < kEach; ++i) sums[i] = sums[i] + as_float(values.at[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) runs[run][lane * kEach + i] = sums[i];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kLanes * kEach; i += kLanes * kRuns) {
    const int64_t to = static_cast<int64_t>(blockIdx.x) * kLanes * kEach + i;
    if (to >= columns) break;
    float total = 0.0f;
    for (int r = 0; r < kRuns; ++r) total = total + runs[r][i];
    partial[blockIdx.y * columns + to] = total;
  }
}

__global__ void merge_slices_kernel(const float* partial, int64_t slices, int64_t columns,
                                    float* out, bool adds) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  // Loaded ahead, summed in ascending order.
  constexpr int kAhead = 16;
  float total = 0.0f;
  for (int64_t slice = 0; slice < slices; slice += kAhead) {
    float ahead[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      ahead[i] = slice + i < slices ? partial[(slice + i) * columns + column] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (slice + i < slices) total = total + ahead[i];
    }
  }
  out[column] = adds ? out[column] + total : total;
}

template <class T, int kEach>
void launch_slices(cudaStream_t stream, const ColumnSums& args, int64_t slices) {
  constexpr int64_t kWidth = kLanes * kEach;
  const dim3 blocks(static_cast<unsigned>((args.columns + kWidth - 1) / kWidth),
                    static_cast<unsigned>(slices));
  slice_sums_kernel<T, kEach><<<blocks, kLanes * kRuns, 0, stream>>>(
      static_cast<const T*>(args.in), args.rows, args.columns, args.stride, args.partial);
}

// Four columns per thread if they can be read at once. No bit depends on it.
template <class T>
void launch_slices(cudaStream_t stream, const ColumnSums& args, int64_t slices) {
  const bool fours = reinterpret_cast<uintptr_t>(args.in) % (4 * sizeof(T)) == 0 &&
                     args.stride % 4 == 0 && args.columns % 4 == 0;
  if (fours) return launch_slices<T, 4>(stream, args, slices);
  launch_slices<T, 1>(stream, args, slices);
}

}  // namespace

void column_sums(Stream stream, const ColumnSums& args) {
  if (args.columns == 0) return;
  const auto queue = static_cast<cudaStream_t>(stream.handle);
  const int64_t slices = (args.rows + kColumnSumRows - 1) / kColumnSumRows;
  if (slices > 0 && args.type == DType::f32) {
    launch_slices<float>(queue, args, slices);
  } else if (slices > 0) {
    launch_slices<bf16>(queue, args, slices);
  }
  constexpr int kThreads = 128;
  const auto blocks = static_cast<unsigned>((args.columns + kThreads - 1) / kThreads);
  merge_slices_kernel<<<blocks, kThreads, 0, queue>>>(args.partial, slices, args.columns, args.out,
                                                      args.adds);
}

}  // namespace tril::kernels::cuda
