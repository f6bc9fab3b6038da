// The norm of all gradients and AdamW, over all tensors at once.
#include <cmath>

#include "tril/kernels/cuda/rows.cuh"
#include "tril/kernels/cuda/rows.h"

namespace tril::kernels::cuda {
namespace {

constexpr int kOptimizerThreads = 256;
constexpr int kQuad = 4;  // elements a thread takes at once
constexpr int kQuads = static_cast<int>(kUpdateChunk) / (kOptimizerThreads * kQuad);
static_assert(kUpdateChunk == int64_t{kOptimizerThreads} * kQuad * kQuads,
              "a chunk is whole quads");

// The tensor that chunk belongs to.
__device__ int64_t tensor_of(const AdamWTensors& all, int64_t chunk) {
  int64_t low = 0;
  int64_t high = all.count;  // the first that starts after the chunk is at most this
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (all.starts[middle] <= chunk) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low - 1;
}

struct Quad {
  float at[kQuad];
};
__device__ inline bool aligned_quad(const float* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}
__device__ Quad load_quad(const float* from, int count) {
  if (count == kQuad && aligned_quad(from)) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    return {{four.x, four.y, four.z, four.w}};
  }
  Quad quad;
#pragma unroll
  for (int i = 0; i < kQuad; ++i) quad.at[i] = i < count ? from[i] : 0.0f;
  return quad;
}
__device__ void store_quad(const Quad& quad, float* to, int count) {
  if (count == kQuad && aligned_quad(to)) {
    *reinterpret_cast<float4*>(to) = make_float4(quad.at[0], quad.at[1], quad.at[2], quad.at[3]);
    return;
  }
#pragma unroll
  for (int i = 0; i < kQuad; ++i) {
    if (i < count) to[i] = quad.at[i];
  }
}

// Calls f(at, count) for this thread's quads of chunk blockIdx.x, which is `chunk` of a tensor.
template <class F>
__device__ void over_chunk(int64_t size, int64_t chunk, const F& f) {
#pragma unroll
  for (int i = 0; i < kQuads; ++i) {
    const int64_t at =
        chunk * kUpdateChunk + (i * kOptimizerThreads + static_cast<int>(threadIdx.x)) * kQuad;
    const int64_t left = size - at;
    f(at, left >= kQuad ? kQuad : left > 0 ? static_cast<int>(left) : 0);
  }
}

// Sums over a block in double, warps folded like lanes. Valid in thread 0.
template <int kBlock>
__device__ double block_sum(double value) {
  constexpr int kWarps = kBlock / kWarp;
  __shared__ double of_warps[kWarps];
  value = warp_sum(value);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  if (lane_of_thread() == 0) of_warps[warp] = value;
  __syncthreads();
  if (warp != 0) return 0.0;
  return warp_sum(lane_of_thread() < kWarps ? of_warps[lane_of_thread()] : 0.0);
}

__global__ void __launch_bounds__(kOptimizerThreads)
    squares_kernel(AdamWTensors all, double* partial) {
  const int64_t which = tensor_of(all, blockIdx.x);
  const AdamWTensor tensor = all.tensors[which];
  float sum = 0.0f;
  over_chunk(tensor.size, blockIdx.x - all.starts[which], [&](int64_t at, int count) {
    const Quad g = load_quad(tensor.gradient + at, count);
#pragma unroll
    for (int i = 0; i < kQuad; ++i) sum = __fmaf_rn(g.at[i], g.at[i], sum);
  });
  const double total = block_sum<kOptimizerThreads>(static_cast<double>(sum));
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

constexpr int kSumThreads = 1024;
__global__ void __launch_bounds__(kSumThreads)
    sum_chunks_kernel(const double* partial, int64_t chunks, double* squares) {
  double sum = 0.0;
#pragma unroll 4
  for (int64_t chunk = threadIdx.x; chunk < chunks; chunk += kSumThreads) sum += partial[chunk];
  const double total = block_sum<kSumThreads>(sum);
  if (threadIdx.x == 0) squares[0] = total;
}

__global__ void begin_kernel(const double* squares, const float* rate, AdamWState* state) {
  AdamWState s = *state;
  s.rate = *rate;
  s.norm = sqrt(*squares);
  s.finite = isfinite(s.norm) ? 1 : 0;
  if (s.finite != 0) {
    ++s.steps;
    s.power1 *= static_cast<double>(s.beta1);
    s.power2 *= static_cast<double>(s.beta2);
  }
  s.correction1 = static_cast<float>(1.0 - s.power1);
  s.correction2 = static_cast<float>(1.0 - s.power2);
  s.factor =
      s.clip_norm > 0.0 && s.norm > s.clip_norm ? static_cast<float>(s.clip_norm / s.norm) : 1.0f;
  *state = s;
}

// The rounded weight of elements [at, at + count).
__device__ void store_rounded(const AdamWTensor& t, int64_t at, int count, const Quad& w) {
  if (t.columns == t.rounded_columns && count == kQuad &&
      reinterpret_cast<uintptr_t>(t.rounded + at) % 8 == 0) {
    uint32_t words[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      words[i] = static_cast<uint32_t>(narrowed<BFloat16>(w.at[2 * i]).bits) |
                 static_cast<uint32_t>(narrowed<BFloat16>(w.at[2 * i + 1]).bits) << 16;
    }
    *reinterpret_cast<uint2*>(t.rounded + at) = make_uint2(words[0], words[1]);
    return;
  }
  for (int i = 0; i < count; ++i) {
    const int64_t row = (at + i) / t.columns;
    const int64_t column = (at + i) % t.columns;
    t.rounded[row * t.rounded_columns + column] = narrowed<BFloat16>(w.at[i]);
  }
}

__global__ void __launch_bounds__(kOptimizerThreads)
    adamw_kernel(const AdamWState* state, AdamWTensors all) {
  const AdamWState a = *state;
  if (a.finite == 0) return;
  const int64_t which = tensor_of(all, blockIdx.x);
  const AdamWTensor t = all.tensors[which];
  over_chunk(t.size, blockIdx.x - all.starts[which], [&](int64_t at, int count) {
    if (count == 0) return;
    const Quad gradient = load_quad(t.gradient + at, count);
    Quad m = load_quad(t.m + at, count);
    Quad v = load_quad(t.v + at, count);
    Quad w = load_quad(t.w + at, count);
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      const float g = gradient.at[i] * a.factor;
      m.at[i] = __fmaf_rn(g, 1.0f - a.beta1, m.at[i] * a.beta1);
      v.at[i] = __fmaf_rn(g * g, 1.0f - a.beta2, v.at[i] * a.beta2);
      const float step = (m.at[i] / a.correction1) / (sqrtf(v.at[i] / a.correction2) + a.epsilon);
      w.at[i] = __fmaf_rn(-a.rate, __fmaf_rn(w.at[i], t.decay, step), w.at[i]);
    }
    store_quad(m, t.m + at, count);
    store_quad(v, t.v + at, count);
    store_quad(w, t.w + at, count);
    if (t.rounded != nullptr) store_rounded(t, at, count, w);
  });
}

}  // namespace

void sum_of_squares(Stream stream, const SumOfSquares& args) {
  const cudaStream_t on = handle_of(stream);
  const int64_t chunks = args.all.chunks;
  if (chunks > 0) {
    squares_kernel<<<static_cast<unsigned>(chunks), kOptimizerThreads, 0, on>>>(args.all,
                                                                                args.partial);
  }
  sum_chunks_kernel<<<1, kSumThreads, 0, on>>>(args.partial, chunks, args.squares);
}

void adamw_begin(Stream stream, const AdamWBegin& args) {
  begin_kernel<<<1, 1, 0, handle_of(stream)>>>(args.squares, args.rate, args.state);
}

void adamw(Stream stream, const AdamWUpdate& args) {
  if (args.all.chunks == 0) return;
  adamw_kernel<<<static_cast<unsigned>(args.all.chunks), kOptimizerThreads, 0, handle_of(stream)>>>(
      args.state, args.all);
}

}  // namespace tril::kernels::cuda
