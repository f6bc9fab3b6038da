// The normaliser of a softmax over the vocabulary, log-probabilities, and the loss.
#include <algorithm>

#include "tril/kernels/cuda/rows.h"
#include "tril/kernels/cuda/softmax_sums.cuh"
#include "tril/kernels/cuda/tensor_core.cuh"

namespace tril::kernels::cuda {
namespace {

constexpr int kThreads = kSoftmaxThreads;  // a block a row
constexpr int kWarps = kSoftmaxWarps;

// Adds the lanes' packs of a row, as they come.
__device__ void add(const Pack& pack, int count, Sums& sums) {
  // Where all so far are -infinity (or no numbers), one by one.
  if (count == kPack && (sums.top > -INFINITY || pack.at[0] > -INFINITY)) {
    add_whole_pack(pack, sums);
  } else {
    add_pack(pack, count, sums);
  }
}

// The sums of all threads of a block, for all of them. f(sums) is done by one thread, first.
// between() by all, when everybody has given theirs.
template <class F, class Between>
__device__ Sums joined_in_block(Sums sums, const F& f, const Between& between) {
  __shared__ Sums of_warps[kWarps];
  __shared__ Sums whole;
  sums = joined_in_warp(sums);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  if (lane_of_thread() == 0) of_warps[warp] = sums;
  __syncthreads();
  between();
  if (warp == 0) {
    sums = joined_in_warp(of_warps[lane_of_thread()]);
    if (lane_of_thread() == 0) {
      whole = sums;
      f(sums);
    }
  }
  __syncthreads();
  return whole;
}

// Of a row, by all threads of a block and for all of them.
template <class F>
__device__ Sums sums_of_row(const float* x, int64_t vocab, Access access, const F& f) {
  Sums sums{-INFINITY, 0.0f, 0.0f};
  for (int64_t at = int64_t{threadIdx.x} * kPack; at < vocab; at += kThreads * kPack) {
    const int count = count_below(at, vocab);
    add(load(x + at, count, access), count, sums);
  }
  return joined_in_block(sums, f, [] {});
}

__global__ void __launch_bounds__(kThreads)
    normalisers_kernel(const float* logits, int64_t vocab, int64_t stride, Access access,
                       float* norms) {
  sums_of_row(logits + int64_t{blockIdx.x} * stride, vocab, access,
              [&](const Sums& sums) { norms[blockIdx.x] = normaliser(sums); });
}

template <class T>
__device__ void clear_row(int64_t stride, Access access, T* to) {
  for (int64_t at = int64_t{threadIdx.x} * kPack; at < stride; at += kThreads * kPack) {
    store(Pack{}, to + at, count_below(at, stride), access);
  }
}

// What a row leaves behind, and what its gradients are made with.
struct RowLoss {
  float norm, loss;
  __device__ RowLoss(const CrossEntropy& c, const Sums& sums, float right) {
    norm = normaliser(sums);
    const float mean = sums.plain * (1.0f / static_cast<float>(c.vocab));
    loss = c.smoothing == 0.0f ? norm - right
                               : norm - (1.0f - c.smoothing) * right - c.smoothing * mean;
  }
};
struct Slope {
  float norm, spread, right, factor;
  int32_t label;
  __device__ Slope(const CrossEntropy& c, float row_norm, int32_t row_label)
      : norm(row_norm),
        spread(c.smoothing / static_cast<float>(c.vocab)),
        right(1.0f - c.smoothing),
        factor(*c.factor),
        label(row_label) {}
  // Of the logits from `at` on, the first `inside` of which are in the vocabulary.
  __device__ Pack at(const Pack& from, int64_t at, int inside) const {
    Pack gradient;
#pragma unroll
    for (int i = 0; i < kPack; ++i) gradient.at[i] = (expf(from.at[i] - norm) - spread) * factor;
    // One pack of the row has the label, one may reach behind the vocabulary.
    if (label >= at && label < at + kPack) {
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        if (at + i != label) continue;
        gradient.at[i] = (expf(from.at[i] - norm) - spread - right) * factor;
      }
    }
    if (inside < kPack) {
#pragma unroll
      for (int i = 0; i < kPack; ++i) gradient.at[i] = i < inside ? gradient.at[i] : 0.0f;
    }
    return gradient;
  }
};

// A row a block, read twice: the second time from the cache.
template <class T>
__global__ void __launch_bounds__(kThreads, 2)  // one row's logits come while another's are done
    cross_entropy_kernel(CrossEntropy c, Access access, float* norms, float* losses, T* dlogits) {
  __shared__ float norm_of_row;
  const int64_t row = blockIdx.x;
  const int32_t label = c.labels[row];
  T* to = dlogits + row * c.stride;
  if (label < 0) {
    if (dlogits != nullptr) clear_row(c.stride, access, to);
    if (threadIdx.x == 0) norms[row] = losses[row] = 0.0f;
    return;
  }
  const float* x = c.logits + row * c.stride;
  sums_of_row(x, c.vocab, access, [&](const Sums& sums) {
    const RowLoss done(c, sums, x[label]);  // before the gradients may overwrite it
    losses[row] = done.loss;
    norms[row] = norm_of_row = done.norm;
  });
  if (dlogits == nullptr) return;
  const Slope slope(c, norm_of_row, label);
  for (int64_t at = int64_t{threadIdx.x} * kPack; at < c.stride; at += kThreads * kPack) {
    const int inside = count_below(at, c.vocab);
    store(slope.at(load(x + at, inside, access), at, inside), to + at, count_below(at, c.stride),
          access);
  }
}

// Rows that fit into registers, read once: a block does one after the other, and the next comes
// into shared memory meanwhile. Rows begin at 16 bytes.
constexpr int kMostPacks = 4;  // a thread's of a row
template <class T, int kPacks>
__global__ void __launch_bounds__(kThreads, 1)
    cross_entropy_rows_kernel(CrossEntropy c, float* norms, float* losses, T* dlogits) {
  extern __shared__ float4 coming[];  // [kPacks * kThreads * 2], a row
  __shared__ float norm_of_row;
  const auto thread = static_cast<int>(threadIdx.x);
  // Pieces of four logits; the two of a pack change places in every other four packs, so that
  // eight threads read from all banks.
  const auto place = [](int piece) { return piece ^ (piece >> 3 & 1); };
  const auto fetch = [&](int64_t row) {
    if (row < c.rows && c.labels[row] >= 0) {
      const float* x = c.logits + row * c.stride;
#pragma unroll
      for (int i = 0; i < 2 * kPacks; ++i) {
        const int piece = i * kThreads + thread;
        if (piece * 4 < c.stride) core::copy_async(coming + place(piece), x + piece * 4, 16);
      }
    }
    core::commit_copies();
  };
  fetch(blockIdx.x);
  for (int64_t row = blockIdx.x; row < c.rows; row += gridDim.x) {
    const int32_t label = c.labels[row];
    T* to = dlogits + row * c.stride;
    core::wait_for_copies<0>();
    __syncthreads();
    if (label < 0) {
      fetch(row + gridDim.x);
      clear_row(c.stride, Access::vector, to);
      if (thread == 0) norms[row] = losses[row] = 0.0f;
      continue;
    }
    Pack held[kPacks];
    Sums sums{-INFINITY, 0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int pack = i * kThreads + thread;
      held[i] = widened(StoredPack<float>{coming[place(2 * pack)], coming[place(2 * pack + 1)]});
      const int count = count_below(int64_t{pack} * kPack, c.vocab);
      if (count > 0) add(held[i], count, sums);
    }
    joined_in_block(
        sums,
        [&](const Sums& whole) {
          const RowLoss done(c, whole, c.logits[row * c.stride + label]);
          losses[row] = done.loss;
          norms[row] = norm_of_row = done.norm;
        },
        [&] { fetch(row + gridDim.x); });
    const Slope slope(c, norm_of_row, label);
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int64_t at = (int64_t{i} * kThreads + thread) * kPack;
      if (at >= c.stride) continue;
      store(slope.at(held[i], at, count_below(at, c.vocab)), to + at, kPack, Access::vector);
    }
  }
}

template <class T, int kPacks>
void launch_rows(cudaStream_t stream, const CrossEntropy& args, float* norms, float* losses,
                 T* dlogits) {
  constexpr int kBytes = kPacks * kThreads * 2 * static_cast<int>(sizeof(float4));
  const auto kernel = cross_entropy_rows_kernel<T, kPacks>;
  static const bool allowed =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes) ==
      cudaSuccess;
  static_cast<void>(allowed);  // else the launch fails, and says so
  int device = 0, processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(args.rows, processors));
  kernel<<<blocks, kThreads, kBytes, stream>>>(args, norms, losses, dlogits);
}

constexpr int kPartThreads = 256;
constexpr int64_t kPart = kPartThreads * kPack;  // of a row, a block

__global__ void __launch_bounds__(kPartThreads)
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

__global__ void __launch_bounds__(kThreads)
    total_kernel(const float* losses, int64_t rows, const float* factor, float* total) {
  __shared__ double of_warps[kWarps];
  double sum = 0.0;
#pragma unroll 4
  for (int64_t row = threadIdx.x; row < rows; row += kThreads) {
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

void softmax_normalisers(Stream stream, const float* logits, int64_t rows, int64_t vocab,
                         int64_t stride, float* norms) {
  if (rows == 0) return;
  normalisers_kernel<<<static_cast<unsigned>(rows), kThreads, 0, handle_of(stream)>>>(
      logits, vocab, stride, access_of(stride, logits), norms);
}

void subtract_rows(Stream stream, const float* logits, const float* norms, int64_t rows,
                   int64_t vocab, int64_t stride, float* out) {
  const int64_t blocks = rows * ((vocab + kPart - 1) / kPart);
  if (blocks == 0) return;
  const bool whole = vocab % kPack == 0;
  subtract_kernel<<<static_cast<unsigned>(blocks), kPartThreads, 0, handle_of(stream)>>>(
      logits, norms, vocab, stride, whole ? access_of(stride, logits, out) : Access::scalar, out);
}

template <class T>
void cross_entropy(Stream stream, const CrossEntropy& args, float* norms, float* losses,
                   T* dlogits) {
  if (args.rows == 0) return;
  const cudaStream_t on = handle_of(stream);
  const Access access = access_of(args.stride, args.logits, dlogits);
  const int64_t packs = (args.stride + kThreads * kPack - 1) / (kThreads * kPack);
  if (access == Access::vector && dlogits != nullptr && packs <= kMostPacks) {
    switch (packs) {
      case 1: return launch_rows<T, 1>(on, args, norms, losses, dlogits);
      case 2: return launch_rows<T, 2>(on, args, norms, losses, dlogits);
      case 3: return launch_rows<T, 3>(on, args, norms, losses, dlogits);
      default: return launch_rows<T, 4>(on, args, norms, losses, dlogits);
    }
  }
  cross_entropy_kernel<<<static_cast<unsigned>(args.rows), kThreads, 0, on>>>(args, access, norms,
                                                                              losses, dlogits);
}
template void cross_entropy(Stream, const CrossEntropy&, float*, float*, float*);
template void cross_entropy(Stream, const CrossEntropy&, float*, float*, BFloat16*);

void total_loss(Stream stream, const float* losses, int64_t rows, const float* factor,
                float* total) {
  total_kernel<<<1, kThreads, 0, handle_of(stream)>>>(losses, rows, factor, total);
}

}  // namespace tril::kernels::cuda
