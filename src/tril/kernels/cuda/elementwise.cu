// Elementwise kernels: sums, scales, conversions, activations.
#include "tril/kernels/cuda/launch.cuh"
#include "tril/kernels/cuda/rows.cuh"
#include "tril/kernels/cuda/rows.h"

namespace tril::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMostBlocks = 2048;  // for kernels whose threads take several packs

template <int kCount, class T>
struct Arrays {
  T* at[kCount];
};

// y = f(x) for each element: kIn numbers in, kOut out, one pack per thread.
template <class T, int kIn, int kOut, class F>
__global__ void __launch_bounds__(kThreads)
    each(int64_t size, Access access, Arrays<kIn, const T> in, Arrays<kOut, T> out, F f) {
  let_next_begin();
  wait_for_earlier();
  const int64_t first = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPack;
  const int count = count_below(first, size);
  if (count == 0) return;
  Pack x[kIn];
  Pack y[kOut];
#pragma unroll
  for (int a = 0; a < kIn; ++a) x[a] = load(in.at[a] + first, count, access);
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    float from[kIn];
    float to[kOut];
#pragma unroll
    for (int a = 0; a < kIn; ++a) from[a] = x[a].at[i];
    f(from, to);
#pragma unroll
    for (int a = 0; a < kOut; ++a) y[a].at[i] = to[a];
  }
#pragma unroll
  for (int a = 0; a < kOut; ++a) store(y[a], out.at[a] + first, count, access);
}

template <class T, int kIn, int kOut, class F>
void for_each_element(Stream stream, int64_t size, const Arrays<kIn, const T>& in,
                      const Arrays<kOut, T>& out, F f) {
  if (size == 0) return;
  bool all = true;
  for (const T* array : in.at) all = all && aligned(array);
  for (const T* array : out.at) all = all && aligned(array);
  launch(stream, each<T, kIn, kOut, F>, blocks_for(size, kThreads * kPack), kThreads, 0, size,
         all ? Access::vector : Access::scalar, in, out, f);
}

struct Sum {
  __device__ void operator()(const float (&x)[2], float (&y)[1]) const { y[0] = x[0] + x[1]; }
};

// A constant times a whole array, with few enough blocks that doing nothing costs nothing.
template <class T>
__global__ void __launch_bounds__(kThreads)
    scale_kernel(int64_t size, Access access, const float* factor, T* x) {
  const float by = *factor;
  if (by == 1.0f) return;
  const int64_t step = int64_t{gridDim.x} * kThreads * kPack;
  for (int64_t at = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPack; at < size; at += step) {
    const int count = count_below(at, size);
    Pack pack = load(x + at, count, access);
#pragma unroll
    for (int i = 0; i < kPack; ++i) pack.at[i] = pack.at[i] * by;
    store(pack, x + at, count, access);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    fill_kernel(int64_t size, Access access, float value, T* out) {
  const int64_t at = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPack;
  Pack pack;
#pragma unroll
  for (int i = 0; i < kPack; ++i) pack.at[i] = value;
  store(pack, out + at, count_below(at, size), access);
}

template <class From, class To>
__global__ void __launch_bounds__(kThreads)
    convert_kernel(int64_t size, Access access, const From* from, To* to) {
  const int64_t at = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPack;
  const int count = count_below(at, size);
  store(load(from + at, count, access), to + at, count, access);
}

// One pack of the result per thread.
__global__ void __launch_bounds__(kThreads)
    round_padded_kernel(const float* from, int64_t rows, int64_t columns, Access from_access,
                        BFloat16* to, int64_t to_rows, int64_t to_columns, Access to_access) {
  const int64_t packs = (to_columns + kPack - 1) / kPack;
  const int64_t unit = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t row = unit / packs;
  if (row >= to_rows) return;
  const int64_t at = unit % packs * kPack;
  const int inside = row < rows ? count_below(at, columns) : 0;
  store(load(from + row * columns + at, inside, from_access), to + row * to_columns + at,
        count_below(at, to_columns), to_access);
}

// ---- activations --------------------------------------------------------------------------------
constexpr float kInverseSqrt2 = 0x1.6a09e6p-1f;
constexpr float kInverseSqrt2Pi = 0x1.988454p-2f;

struct ValueAndSlope {
  float value, slope;
};

// Once inlined, the unused one is not computed.
template <Activation kKind>
__device__ ValueAndSlope activate(float x) {
  if constexpr (kKind == Activation::relu) {
    // NaN stays NaN. -0 becomes +0, as in products (gemm.h).
    return {x <= 0.0f ? 0.0f : x, x > 0.0f ? 1.0f : 0.0f};
  } else if constexpr (kKind == Activation::gelu) {
    const float cdf = __fmaf_rn(erff(x * kInverseSqrt2), 0.5f, 0.5f);
    const float density = expf(x * x * -0.5f) * kInverseSqrt2Pi;
    return {x * cdf, __fmaf_rn(x, density, cdf)};
  } else {
    const float s = 1.0f / (1.0f + expf(-x));
    return {x * s, s * __fmaf_rn(x, 1.0f - s, 1.0f)};
  }
}

template <Activation kKind>
struct Activate {
  __device__ void operator()(const float (&x)[1], float (&y)[1]) const {
    y[0] = activate<kKind>(x[0]).value;
  }
};
template <Activation kKind>
struct ActivateBackward {  // x, dy -> dx
  __device__ void operator()(const float (&x)[2], float (&y)[1]) const {
    y[0] = x[1] * activate<kKind>(x[0]).slope;
  }
};
template <Activation kKind>
struct Gate {  // gate, x -> y
  __device__ void operator()(const float (&x)[2], float (&y)[1]) const {
    y[0] = activate<kKind>(x[0]).value * x[1];
  }
};
template <Activation kKind>
struct GateBackward {  // gate, x, dy -> dgate, dx
  __device__ void operator()(const float (&x)[3], float (&y)[2]) const {
    const ValueAndSlope a = activate<kKind>(x[0]);
    y[0] = x[2] * x[1] * a.slope;
    y[1] = x[2] * a.value;
  }
};

// Calls f with the kind as a constant.
template <class F>
void with_kind(Activation kind, const F& f) {
  switch (kind) {
    case Activation::relu: return f(std::integral_constant<Activation, Activation::relu>());
    case Activation::gelu: return f(std::integral_constant<Activation, Activation::gelu>());
    case Activation::silu: return f(std::integral_constant<Activation, Activation::silu>());
  }
}

}  // namespace

template <class T>
void add(Stream stream, int64_t size, const T* a, const T* b, T* out) {
  for_each_element<T, 2, 1>(stream, size, {a, b}, {out}, Sum());
}

template <class T>
void scale(Stream stream, int64_t size, const float* factor, T* x) {
  if (size == 0) return;
  const int64_t blocks = (size + kThreads * kPack - 1) / (kThreads * kPack);
  scale_kernel<<<static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks), kThreads, 0,
                 handle_of(stream)>>>(size, access_of(0, x), factor, x);
}

template <class T>
void fill(Stream stream, int64_t size, float value, T* out) {
  if (size == 0) return;
  fill_kernel<<<blocks_for(size, kThreads * kPack), kThreads, 0, handle_of(stream)>>>(
      size, access_of(0, out), value, out);
}

template <class From, class To>
void convert(Stream stream, int64_t size, const From* from, To* to) {
  if (size == 0) return;
  convert_kernel<<<blocks_for(size, kThreads * kPack), kThreads, 0, handle_of(stream)>>>(
      size, access_of(0, from, to), from, to);
}

void round_padded(Stream stream, const float* from, int64_t rows, int64_t columns, BFloat16* to,
                  int64_t to_rows, int64_t to_columns) {
  const int64_t units = to_rows * ((to_columns + kPack - 1) / kPack);
  if (units == 0) return;
  round_padded_kernel<<<blocks_for(units, kThreads), kThreads, 0, handle_of(stream)>>>(
      from, rows, columns, access_of(columns, from), to, to_rows, to_columns,
      access_of(to_columns, to));
}

template <class T>
void activation_forward(Stream stream, Activation kind, int64_t size, const T* x, T* y) {
  with_kind(kind, [&](auto k) {
    for_each_element<T, 1, 1>(stream, size, {x}, {y}, Activate<decltype(k)::value>());
  });
}
template <class T>
void activation_backward(Stream stream, Activation kind, int64_t size, const T* x, const T* dy,
                         T* dx) {
  with_kind(kind, [&](auto k) {
    for_each_element<T, 2, 1>(stream, size, {x, dy}, {dx}, ActivateBackward<decltype(k)::value>());
  });
}
template <class T>
void gated_forward(Stream stream, Activation kind, int64_t size, const T* gate, const T* x, T* y) {
  with_kind(kind, [&](auto k) {
    for_each_element<T, 2, 1>(stream, size, {gate, x}, {y}, Gate<decltype(k)::value>());
  });
}
template <class T>
void gated_backward(Stream stream, Activation kind, int64_t size, const T* gate, const T* x,
                    const T* dy, T* dgate, T* dx) {
  with_kind(kind, [&](auto k) {
    for_each_element<T, 3, 2>(stream, size, {gate, x, dy}, {dgate, dx},
                              GateBackward<decltype(k)::value>());
  });
}

#define TRIL_INSTANTIATE(T)                                                                      \
  template void add<T>(Stream, int64_t, const T*, const T*, T*);                                 \
  template void scale<T>(Stream, int64_t, const float*, T*);                                     \
  template void fill<T>(Stream, int64_t, float, T*);                                             \
  template void convert<T, float>(Stream, int64_t, const T*, float*);                            \
  template void convert<T, BFloat16>(Stream, int64_t, const T*, BFloat16*);                      \
  template void activation_forward<T>(Stream, Activation, int64_t, const T*, T*);                \
  template void activation_backward<T>(Stream, Activation, int64_t, const T*, const T*, T*);     \
  template void gated_forward<T>(Stream, Activation, int64_t, const T*, const T*, T*);           \
  template void gated_backward<T>(Stream, Activation, int64_t, const T*, const T*, const T*, T*, \
                                  T*);
TRIL_INSTANTIATE(float)
TRIL_INSTANTIATE(BFloat16)

}  // namespace tril::kernels::cuda
