// Elementwise kernels: sums, scales, conversions, activations.
#include "tril/kernels/cuda/launch.cuh"
#include "tril/kernels/cuda/rows.cuh"
#include "tril/kernels/cuda/rows.h"

namespace tril::kernels::cuda {
namespace {

constexpr int kElementwiseThreads = 256;
constexpr int kMostBlocks = 2048;  // for kernels whose threads take several packs

template <int kCount, class T>
struct Arrays {
  T* at[kCount];
};

// y = f(x) for each element: kIn numbers in, kOut out, one pack per thread.
template <class T, int kIn, int kOut, class F>
__global__ void __launch_bounds__(kElementwiseThreads)
    each(int64_t size, Access access, Arrays<kIn, const T> in, Arrays<kOut, T> out, F f) {
  let_next_begin();
  wait_for_earlier();
  const int64_t first = (int64_t{blockIdx.x} * kElementwiseThreads + threadIdx.x) * kPack;
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
  launch(stream, each<T, kIn, kOut, F>, blocks_for(size, kElementwiseThreads * kPack),
         kElementwiseThreads, 0, size, all ? Access::vector : Access::scalar, in, out, f);
}

struct Sum {
  __device__ void operator()(const float (&x)[2], float (&y)[1]) const { y[0] = x[0] + x[1]; }
};

struct Times {
  float factor;
  __device__ void operator()(const float (&x)[1], float (&y)[1]) const { y[0] = x[0] * factor; }
};

__global__ void __launch_bounds__(kElementwiseThreads) relative_bias_kernel(RelativeBias args) {
  const int64_t at = int64_t{blockIdx.x} * kElementwiseThreads + threadIdx.x;
  if (at >= args.heads * args.offsets) return;
  const int64_t head = at / args.offsets;
  args.bias[at] = args.weight[args.bucket_of[at % args.offsets] * args.heads + head];
}

// A constant times a whole array, with few enough blocks that doing nothing costs nothing.
template <class T>
__global__ void __launch_bounds__(kElementwiseThreads)
    scale_kernel(int64_t size, Access access, const float* factor, T* x) {
  const float by = *factor;
  if (by == 1.0f) return;
  const int64_t step = int64_t{gridDim.x} * kElementwiseThreads * kPack;
  for (int64_t at = (int64_t{blockIdx.x} * kElementwiseThreads + threadIdx.x) * kPack; at < size;
       at += step) {
    const int count = count_below(at, size);
    Pack pack = load(x + at, count, access);
#pragma unroll
    for (int i = 0; i < kPack; ++i) pack.at[i] = pack.at[i] * by;
    store(pack, x + at, count, access);
  }
}

template <class T>
__global__ void __launch_bounds__(kElementwiseThreads)
    fill_kernel(int64_t size, Access access, float value, T* out) {
  const int64_t at = (int64_t{blockIdx.x} * kElementwiseThreads + threadIdx.x) * kPack;
  Pack pack;
#pragma unroll
  for (int i = 0; i < kPack; ++i) pack.at[i] = value;
  store(pack, out + at, count_below(at, size), access);
}

template <class From, class To>
__global__ void __launch_bounds__(kElementwiseThreads)
    convert_kernel(int64_t size, Access access, const From* from, To* to) {
  const int64_t at = (int64_t{blockIdx.x} * kElementwiseThreads + threadIdx.x) * kPack;
  const int count = count_below(at, size);
  store(load(from + at, count, access), to + at, count, access);
}

// One pack of the result per thread.
__global__ void __launch_bounds__(kElementwiseThreads)
    round_padded_kernel(const float* from, int64_t rows, int64_t columns, Access from_access,
                        BFloat16* to, int64_t to_rows, int64_t to_columns, Access to_access) {
  const int64_t packs = (to_columns + kPack - 1) / kPack;
  const int64_t unit = int64_t{blockIdx.x} * kElementwiseThreads + threadIdx.x;
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
constexpr float kTanhLinear = 0x1.988454p+0f;  // 2 sqrt(2 / pi)
constexpr float kTanhCubic = 0x1.2444f2p-4f;   // 0.044715 times that
constexpr float kTanhCubic3 = 0x1.b6676cp-3f;  // 3 times 0.044715 times that
constexpr float kTanhFlat = 1024.0f;           // from this x² on, gelu-tanh is 0 or x

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
  } else if constexpr (kKind == Activation::silu) {
    const float s = 1.0f / (1.0f + expf(-x));
    return {x * s, s * __fmaf_rn(x, 1.0f - s, 1.0f)};
  } else {
    static_assert(kKind == Activation::gelu_tanh, "an activation without a formula");
    // As on the CPU (cpu/activation.cpp).
    const float whole = x * x;
    const float square = whole > kTanhFlat ? kTanhFlat : whole;
    const float z = x * __fmaf_rn(square, kTanhCubic, kTanhLinear);
    const float e = expf(-fabsf(z));
    const float more = 1.0f / (1.0f + e);
    const float less = e * more;
    const float s = z < 0.0f ? less : more;
    const float inner = x * __fmaf_rn(square, kTanhCubic3, kTanhLinear);
    return {x * s, __fmaf_rn(inner, less * more, s)};
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
    case Activation::gelu_tanh:
      return f(std::integral_constant<Activation, Activation::gelu_tanh>());
  }
}

}  // namespace

template <class T>
void add(Stream stream, const Add<T>& args) {
  for_each_element<T, 2, 1>(stream, args.size, {args.a, args.b}, {args.out}, Sum());
}

template <class T>
void scale(Stream stream, const Scale<T>& args) {
  if (args.size == 0) return;
  const int64_t blocks =
      (args.size + kElementwiseThreads * kPack - 1) / (kElementwiseThreads * kPack);
  scale_kernel<<<static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks),
                 kElementwiseThreads, 0, handle_of(stream)>>>(args.size, access_of(0, args.x),
                                                              args.factor, args.x);
}

template <class T>
void scaled(Stream stream, const Scaled<T>& args) {
  for_each_element<T, 1, 1>(stream, args.size, {args.x}, {args.out}, Times{args.factor});
}

void relative_bias(Stream stream, const RelativeBias& args) {
  const int64_t size = args.heads * args.offsets;
  if (size == 0) return;
  relative_bias_kernel<<<blocks_for(size, kElementwiseThreads), kElementwiseThreads, 0,
                         handle_of(stream)>>>(args);
}

template <class T>
void fill(Stream stream, const Fill<T>& args) {
  if (args.size == 0) return;
  fill_kernel<<<blocks_for(args.size, kElementwiseThreads * kPack), kElementwiseThreads, 0,
                handle_of(stream)>>>(args.size, access_of(0, args.out), args.value, args.out);
}

template <class From, class To>
void convert(Stream stream, const Convert<From, To>& args) {
  if (args.size == 0) return;
  convert_kernel<<<blocks_for(args.size, kElementwiseThreads * kPack), kElementwiseThreads, 0,
                   handle_of(stream)>>>(args.size, access_of(0, args.from, args.to), args.from,
                                        args.to);
}

void round_padded(Stream stream, const RoundPadded& args) {
  const int64_t units = args.to_rows * ((args.to_columns + kPack - 1) / kPack);
  if (units == 0) return;
  round_padded_kernel<<<blocks_for(units, kElementwiseThreads), kElementwiseThreads, 0,
                        handle_of(stream)>>>(
      args.from, args.rows, args.columns, access_of(args.columns, args.from), args.to, args.to_rows,
      args.to_columns, access_of(args.to_columns, args.to));
}

template <class T>
void activation_forward(Stream stream, const ActivationForward<T>& args) {
  with_kind(args.kind, [&](auto k) {
    for_each_element<T, 1, 1>(stream, args.size, {args.x}, {args.y},
                              Activate<decltype(k)::value>());
  });
}
template <class T>
void activation_backward(Stream stream, const ActivationBackward<T>& args) {
  with_kind(args.kind, [&](auto k) {
    for_each_element<T, 2, 1>(stream, args.size, {args.x, args.dy}, {args.dx},
                              ActivateBackward<decltype(k)::value>());
  });
}
template <class T>
void gated_forward(Stream stream, const GatedForward<T>& args) {
  with_kind(args.kind, [&](auto k) {
    for_each_element<T, 2, 1>(stream, args.size, {args.gate, args.x}, {args.y},
                              Gate<decltype(k)::value>());
  });
}
template <class T>
void gated_backward(Stream stream, const GatedBackward<T>& args) {
  with_kind(args.kind, [&](auto k) {
    for_each_element<T, 3, 2>(stream, args.size, {args.gate, args.x, args.dy},
                              {args.dgate, args.dx}, GateBackward<decltype(k)::value>());
  });
}

#define TRIL_INSTANTIATE(T)                                                \
  template void add(Stream, const Add<T>&);                                \
  template void scale(Stream, const Scale<T>&);                            \
  template void scaled(Stream, const Scaled<T>&);                          \
  template void fill(Stream, const Fill<T>&);                              \
  template void convert(Stream, const Convert<T, float>&);                 \
  template void convert(Stream, const Convert<T, BFloat16>&);              \
  template void activation_forward(Stream, const ActivationForward<T>&);   \
  template void activation_backward(Stream, const ActivationBackward<T>&); \
  template void gated_forward(Stream, const GatedForward<T>&);             \
  template void gated_backward(Stream, const GatedBackward<T>&);
TRIL_INSTANTIATE(float)
TRIL_INSTANTIATE(BFloat16)

}  // namespace tril::kernels::cuda
