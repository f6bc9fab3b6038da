// Sums over rows, the gradient of a bias; and of a ReLU with it.
#include <cstdint>
#include <initializer_list>

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
__device__ float widened(float value) { return value; }
__device__ float widened(bf16 value) { return __bfloat162float(value); }

__device__ void narrow(float value, float& to) { to = value; }
__device__ void narrow(float value, bf16& to) { to = __float2bfloat16_rn(value); }

// What is summed: a matrix in memory...
template <class T, int kEach>
struct Plain {
  const T* in;
  int64_t stride;

  __device__ Several<T, kEach> at(int64_t row, int64_t column) const {
    return *reinterpret_cast<const Several<T, kEach>*>(in + row * stride + column);
  }
};
// ... or the gradient of a ReLU, which is made here.
template <class T, int kEach>
struct OfRelu {
  const T* y;
  const T* dy;
  T* dx;
  int64_t stride;

  __device__ Several<T, kEach> at(int64_t row, int64_t column) const {
    const int64_t place = row * stride + column;
    const auto results = *reinterpret_cast<const Several<T, kEach>*>(y + place);
    auto slopes = *reinterpret_cast<const Several<T, kEach>*>(dy + place);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const float slope = widened(results.at[i]) > 0.0f ? 1.0f : 0.0f;
      narrow(widened(slopes.at[i]) * slope, slopes.at[i]);
    }
    *reinterpret_cast<Several<T, kEach>*>(dx + place) = slopes;
    return slopes;
  }
};

// A block makes one slice of kLanes * kEach columns.
template <class T, int kEach, class Source>
__global__ void __launch_bounds__(kLanes* kRuns)
    slice_sums_kernel(Source in, int64_t rows, int64_t columns, float* partial) {
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
      const Several<T, kEach> values = in.at(row, column);
#pragma unroll
      for (int i = 0; i < kEach; ++i) sums[i] = sums[i] + widened(values.at[i]);
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
  // Read ahead, summed ascending.
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

template <class T, int kEach, class Source>
void launch_slices(cudaStream_t stream, const Source& in, int64_t rows, int64_t columns,
                   float* partial) {
  constexpr int64_t kWidth = kLanes * kEach;
  const dim3 blocks(static_cast<unsigned>((columns + kWidth - 1) / kWidth),
                    static_cast<unsigned>(column_slices(rows)));
  slice_sums_kernel<T, kEach><<<blocks, kLanes * kRuns, 0, stream>>>(in, rows, columns, partial);
}

// Four columns a thread where they can be read at once. No bit depends on it.
template <class T>
bool by_fours(std::initializer_list<const void*> matrices, int64_t columns, int64_t stride) {
  bool all = stride % 4 == 0 && columns % 4 == 0;
  for (const void* matrix : matrices) {
    all = all && reinterpret_cast<uintptr_t>(matrix) % (4 * sizeof(T)) == 0;
  }
  return all;
}

template <class T>
void sum_slices(cudaStream_t stream, const void* in, int64_t rows, int64_t columns, int64_t stride,
                float* partial) {
  const auto* from = static_cast<const T*>(in);
  if (by_fours<T>({in}, columns, stride)) {
    return launch_slices<T, 4>(stream, Plain<T, 4>{from, stride}, rows, columns, partial);
  }
  launch_slices<T, 1>(stream, Plain<T, 1>{from, stride}, rows, columns, partial);
}

template <class T>
void relu_slices(cudaStream_t stream, const void* y, const void* dy, int64_t rows, int64_t columns,
                 void* dx, float* partial) {
  const auto* results = static_cast<const T*>(y);
  const auto* slopes = static_cast<const T*>(dy);
  auto* to = static_cast<T*>(dx);
  if (by_fours<T>({y, dy, dx}, columns, columns)) {
    return launch_slices<T, 4>(stream, OfRelu<T, 4>{results, slopes, to, columns}, rows, columns,
                               partial);
  }
  launch_slices<T, 1>(stream, OfRelu<T, 1>{results, slopes, to, columns}, rows, columns, partial);
}

}  // namespace

void sum_column_slices(Stream stream, DType type, const void* in, int64_t rows, int64_t columns,
                       int64_t stride, float* partial) {
  if (columns == 0 || rows == 0) return;
  const auto queue = static_cast<cudaStream_t>(stream.handle);
  if (type == DType::f32) return sum_slices<float>(queue, in, rows, columns, stride, partial);
  sum_slices<bf16>(queue, in, rows, columns, stride, partial);
}

void relu_backward_slices(Stream stream, DType type, const void* y, const void* dy, int64_t rows,
                          int64_t columns, void* dx, float* partial) {
  if (columns == 0 || rows == 0) return;
  const auto queue = static_cast<cudaStream_t>(stream.handle);
  if (type == DType::f32) return relu_slices<float>(queue, y, dy, rows, columns, dx, partial);
  relu_slices<bf16>(queue, y, dy, rows, columns, dx, partial);
}

void merge_column_slices(Stream stream, const float* partial, int64_t rows, int64_t columns,
                         float* out, bool adds) {
  if (columns == 0) return;
  constexpr int kThreads = 128;
  const auto blocks = static_cast<unsigned>((columns + kThreads - 1) / kThreads);
  merge_slices_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream.handle)>>>(
      partial, column_slices(rows), columns, out, adds);
}

}  // namespace tril::kernels::cuda
