// The normaliser of a softmax over the vocabulary, log-probabilities, and the loss.
#include "tril/kernels/cuda/rows.h"
#include "tril/kernels/cuda/softmax_sums.cuh"

namespace tril::kernels::cuda {
namespace {

constexpr int kLossThreads = kSoftmaxThreads;  // one block per row
constexpr int kLossWarps = kSoftmaxWarps;

// For one row, by all threads of a block and for all of them.
__device__ Sums sums_of_row(const float* x, int64_t vocab, Access access) {
  __shared__ Sums of_warps[kLossWarps];
  __shared__ Sums whole;
  Sums sums{-INFINITY, 0.0f, 0.0f};
  for (int64_t at = int64_t{threadIdx.x} * kPack; at < vocab; at += kLossThreads * kPack) {
    const int count = count_below(at, vocab);
    const Pack pack = load(x + at, count, access);
    add_pack(pack, count, largest_of(pack), sums);
  }
  sums = joined_in_warp(sums);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  if (lane_of_thread() == 0) of_warps[warp] = sums;
  __syncthreads();
  if (warp == 0) {
    sums = joined_in_warp(of_warps[lane_of_thread()]);
    if (lane_of_thread() == 0) whole = sums;
  }
  __syncthreads();
  return whole;
}

__global__ void __launch_bounds__(kLossThreads)
    normalisers_kernel(const float* logits, int64_t vocab, int64_t stride, Access access,
                       float* norms) {
  const Sums sums = sums_of_row(logits + int64_t{blockIdx.x} * stride, vocab, access);
  if (threadIdx.x == 0) norms[blockIdx.x] = normaliser(sums);
}

template <class T>
__device__ void clear_row(int64_t stride, Access access, T* to) {
  for (int64_t at = int64_t{threadIdx.x} * kPack; at < stride; at += kLossThreads * kPack) {
    store(Pack{}, to + at, count_below(at, stride), access);
  }
}

template <class T>
__global__ void __launch_bounds__(kLossThreads, 2)  // one row is loaded while another is processed
    cross_entropy_kernel(CrossEntropy<T> c, Access access) {
  __shared__ float norm_of_row;
  const int64_t row = blockIdx.x;
  const int32_t label = c.labels[row];
  T* to = c.dlogits + row * c.stride;
  if (label < 0) {
    if (c.dlogits != nullptr) clear_row(c.stride, access, to);
    if (threadIdx.x == 0) c.norms[row] = c.losses[row] = 0.0f;
    return;
  }
  const float* x = c.logits + row * c.stride;
  const Sums sums = sums_of_row(x, c.vocab, access);
  if (threadIdx.x == 0) {
    const float norm = normaliser(sums);
    const float right = x[label];  // before the gradients may overwrite it
    const float mean = sums.plain * (1.0f / static_cast<float>(c.vocab));
    c.losses[row] = c.smoothing == 0.0f ? norm - right
                                        : norm - (1.0f - c.smoothing) * right - c.smoothing * mean;
    c.norms[row] = norm;
    norm_of_row = norm;
  }
  if (c.dlogits == nullptr) return;
  __syncthreads();
  const float norm = norm_of_row;
  const float g = *c.factor;
  const float spread = c.smoothing / static_cast<float>(c.vocab);
  for (int64_t at = int64_t{threadIdx.x} * kPack; at < c.stride; at += kLossThreads * kPack) {
    const int inside = count_below(at, c.vocab);
    const Pack from = load(x + at, inside, access);
    Pack gradient;
#pragma unroll
    for (int i = 0; i < kPack; ++i) gradient.at[i] = (expf(from.at[i] - norm) - spread) * g;
    // One pack of the row has the label, one may extend past the vocabulary.
    if (label >= at && label < at + kPack) {
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        if (at + i != label) continue;
        gradient.at[i] = (expf(from.at[i] - norm) - spread - (1.0f - c.smoothing)) * g;
      }
    }
    if (inside < kPack) {
#pragma unroll
      for (int i = 0; i < kPack; ++i) gradient.at[i] = i < inside ? gradient.at[i] : 0.0f;
    }
    store(gradient, to + at, count_below(at, c.stride), access);
  }
}

constexpr int kLossPartThreads = 256;
constexpr int64_t kPart = kLossPartThreads * kPack;  // of a row, per block

__global__ void __launch_bounds__(kLossPartThreads)
    subtract_kernel(const float* logits, const float* norms, int64_t vocab, int64_t stride,
                    Access access, float* out) {
  const int64_t parts = (vocab + kPart - 1) / kPart;
  const int64_t row = blockIdx.x / parts;
  const int64_t at = blockIdx.x % parts * kPart + int64_t{threadIdx.x} * kPack;
  const int count = count_below(at, vocab);
  if (count == 0) return;
  Pack pack = load(logits + row * stride + at, count, access);
  const float norm = norms[row];
#pragma unroll
  for (int i = 0; i < kPack; ++i) pack.at[i] = pack.at[i] - norm;
  store(pack, out + row * vocab + at, count, access);
}

__global__ void __launch_bounds__(kLossThreads)
    total_kernel(const float* losses, int64_t rows, const float* factor, float* total) {
  __shared__ double of_warps[kLossWarps];
  double sum = 0.0;
#pragma unroll 4
  for (int64_t row = threadIdx.x; row < rows; row += kLossThreads) {
    sum += static_cast<double>(losses[row]);
  }
  sum = warp_sum(sum);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  if (lane_of_thread() == 0) of_warps[warp] = sum;
  __syncthreads();
  if (warp != 0) return;
  sum = warp_sum(of_warps[lane_of_thread()]);
  if (lane_of_thread() == 0) total[0] = static_cast<float>(sum * static_cast<double>(*factor));
}

}  // namespace

void softmax_normalisers(Stream stream, const SoftmaxNormalisers& args) {
  if (args.rows == 0) return;
  normalisers_kernel<<<static_cast<unsigned>(args.rows), kLossThreads, 0, handle_of(stream)>>>(
      args.logits, args.vocab, args.stride, access_of(args.stride, args.logits), args.norms);
}

void subtract_rows(Stream stream, const SubtractRows& args) {
  const int64_t blocks = args.rows * ((args.vocab + kPart - 1) / kPart);
  if (blocks == 0) return;
  const bool whole = args.vocab % kPack == 0;
  subtract_kernel<<<static_cast<unsigned>(blocks), kLossPartThreads, 0, handle_of(stream)>>>(
      args.logits, args.norms, args.vocab, args.stride,
      whole ? access_of(args.stride, args.logits, args.out) : Access::scalar, args.out);
}

template <class T>
void cross_entropy(Stream stream, const CrossEntropy<T>& args) {
  if (args.rows == 0) return;
  cross_entropy_kernel<<<static_cast<unsigned>(args.rows), kLossThreads, 0, handle_of(stream)>>>(
      args, access_of(args.stride, args.logits, args.dlogits));
}
template void cross_entropy(Stream, const CrossEntropy<float>&);
template void cross_entropy(Stream, const CrossEntropy<BFloat16>&);

void total_loss(Stream stream, const TotalLoss& args) {
  total_kernel<<<1, kLossThreads, 0, handle_of(stream)>>>(args.losses, args.rows, args.factor,
                                                          args.total);
}

}  // namespace tril::kernels::cuda
