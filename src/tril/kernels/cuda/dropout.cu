#include "tril/kernels/cuda/dropout.cuh"

namespace tril::kernels::cuda {
namespace {

constexpr int kDropoutThreads = 256;

// 256 features per warp.
template <class T>
__global__ void __launch_bounds__(kDropoutThreads)
    dropout_kernel(int64_t rows, int64_t columns, Access access, Mask mask, const T* x, T* y,
                   uint8_t* kept) {
  const int64_t stretches = (columns + kStretch - 1) / kStretch;
  const int64_t unit = int64_t{blockIdx.x} * (kDropoutThreads / kWarp) + threadIdx.x / kWarp;
  const int64_t row = unit / stretches;
  if (row >= rows) return;
  const int stretch = static_cast<int>(unit % stretches);
  const uint32_t bits = RowMask(mask, row).kept(stretch);
  const int64_t at = int64_t{stretch} * kStretch + lane_of_thread() * kPack;
  const int count = count_below(at, columns);
  if (count == 0) return;
  const int64_t offset = row * columns + at;
  store(keep(load(x + offset, count, access), bits, mask.scale), y + offset, count, access);
  kept[row * dropout_row_bytes(columns) + at / kPack] = static_cast<uint8_t>(bits);
}

// One byte of bits per thread.
template <class T>
__global__ void __launch_bounds__(kDropoutThreads)
    by_bits_kernel(int64_t rows, int64_t columns, Access access, float scale, const uint8_t* kept,
                   const T* x, T* y) {
  const int64_t unit = int64_t{blockIdx.x} * kDropoutThreads + threadIdx.x;
  const int64_t row_bytes = dropout_row_bytes(columns);
  if (unit >= rows * row_bytes) return;
  int64_t offset = unit * kPack;
  int count = kPack;
  if (access == Access::scalar) {  // rows may end within a byte
    const int64_t at = unit % row_bytes * kPack;
    offset = unit / row_bytes * columns + at;
    count = count_below(at, columns);
  }
  store(keep(load(x + offset, count, access), kept[unit], scale), y + offset, count, access);
}

}  // namespace

template <class T>
void dropout(Stream stream, const DropoutForward<T>& args) {
  const int64_t columns = args.mask.columns;
  const int64_t units = args.mask.rows * ((columns + kStretch - 1) / kStretch);
  if (units == 0) return;
  dropout_kernel<<<blocks_for(units, kDropoutThreads / kWarp), kDropoutThreads, 0,
                   handle_of(stream)>>>(args.mask.rows, columns, access_of(columns, args.x, args.y),
                                        mask_of(args.mask), args.x, args.y, args.kept);
}

template <class T>
void dropout_by_bits(Stream stream, const DropoutByBits<T>& args) {
  const int64_t units = args.rows * dropout_row_bytes(args.columns);
  if (units == 0) return;
  by_bits_kernel<<<blocks_for(units, kDropoutThreads), kDropoutThreads, 0, handle_of(stream)>>>(
      args.rows, args.columns, access_of(args.columns, args.x, args.y),
      dropout_scale(args.probability), args.kept, args.x, args.y);
}

#define TRIL_INSTANTIATE(T)                                \
  template void dropout(Stream, const DropoutForward<T>&); \
  template void dropout_by_bits(Stream, const DropoutByBits<T>&);
TRIL_INSTANTIATE(float)
TRIL_INSTANTIATE(BFloat16)

}  // namespace tril::kernels::cuda
