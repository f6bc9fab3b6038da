// Shared by the kernels on rows: packs of eight elements, sums over a warp, launching.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "tril/base/dtype.h"
#include "tril/base/stream.h"

namespace tril::kernels::cuda {

inline cudaStream_t handle_of(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }

// The number of blocks for `units` of work with `a_block` units per block.
inline dim3 blocks_for(int64_t units, int64_t a_block) {
  return dim3(static_cast<unsigned>((units + a_block - 1) / a_block));
}

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFFu;

__device__ inline int lane_of_thread() { return static_cast<int>(threadIdx.x) % kWarp; }

// ---- one element --------------------------------------------------------------------------------
__device__ inline float widened(float value) { return value; }
__device__ inline float widened(BFloat16 value) {
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}
template <class T>
__device__ T narrowed(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    return BFloat16{__bfloat16_as_ushort(__float2bfloat16_rn(value))};
  }
}
// A value rounded to T and back.
template <class T>
__device__ float rounded(float value) {
  return widened(narrowed<T>(value));
}

// ---- eight elements -----------------------------------------------------------------------------
constexpr int kPack = 8;

struct Pack {
  float at[kPack];
};

// Packs as they are stored in memory: half the registers for bf16.
template <class T>
struct StoredPack;
template <>
struct StoredPack<float> {
  float4 low, high;
};
template <>
struct StoredPack<BFloat16> {
  uint4 words;
};

__device__ inline Pack widened(const StoredPack<float>& p) {
  return {{p.low.x, p.low.y, p.low.z, p.low.w, p.high.x, p.high.y, p.high.z, p.high.w}};
}
__device__ inline Pack widened(const StoredPack<BFloat16>& p) {
  const uint32_t words[4] = {p.words.x, p.words.y, p.words.z, p.words.w};
  Pack pack;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    pack.at[2 * i] = __uint_as_float(words[i] << 16);
    pack.at[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000u);
  }
  return pack;
}
template <class T>
__device__ StoredPack<T> stored(const Pack& p) {
  if constexpr (std::is_same_v<T, float>) {
    return {make_float4(p.at[0], p.at[1], p.at[2], p.at[3]),
            make_float4(p.at[4], p.at[5], p.at[6], p.at[7])};
  } else {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[i] = static_cast<uint32_t>(narrowed<BFloat16>(p.at[2 * i]).bits) |
                 static_cast<uint32_t>(narrowed<BFloat16>(p.at[2 * i + 1]).bits) << 16;
    }
    return {make_uint4(words[0], words[1], words[2], words[3])};
  }
}
template <class T>
__device__ Pack rounded(const Pack& p) {
  Pack result;
#pragma unroll
  for (int i = 0; i < kPack; ++i) result.at[i] = rounded<T>(p.at[i]);
  return result;
}

// How packs of a matrix can be accessed: 16 bytes at once, or element by element.
enum class Access { vector, scalar };

__host__ inline bool aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}
// For consecutive rows of `columns` elements from these addresses (null ones are ignored).
template <class... Pointers>
Access access_of(int64_t columns, const Pointers*... pointers) {
  return columns % kPack == 0 && (aligned(pointers) && ...) ? Access::vector : Access::scalar;
}

// The first `count` (0 to 8) of the eight elements at `from`, zeros for the rest. For a count other
// than 0 and 8 elements are read one by one, with any access.
template <class T>
__device__ StoredPack<T> load_stored(const T* from, int count, Access access) {
  if (access == Access::vector && count == kPack) {
    return *reinterpret_cast<const StoredPack<T>*>(from);
  }
  Pack pack;
#pragma unroll
  for (int i = 0; i < kPack; ++i) pack.at[i] = i < count ? widened(from[i]) : 0.0f;
  return stored<T>(pack);
}
template <class T>
__device__ Pack load(const T* from, int count, Access access) {
  return widened(load_stored(from, count, access));
}
template <class T>
__device__ void store(const Pack& pack, T* to, int count, Access access) {
  if (access == Access::vector && count == kPack) {
    *reinterpret_cast<StoredPack<T>*>(to) = stored<T>(pack);
    return;
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    if (i < count) to[i] = narrowed<T>(pack.at[i]);
  }
}

// How many of eight elements at `at` lie below `size`.
__device__ inline int count_below(int64_t at, int64_t size) {
  const int64_t left = size - at;
  return left >= kPack ? kPack : left > 0 ? static_cast<int>(left) : 0;
}

// ---- over a warp --------------------------------------------------------------------------------
// The same bits in every lane: both lanes of a pair add the same two numbers, and a + b is b + a.
template <class Number>
__device__ Number warp_sum(Number value) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, step);
  }
  return value;
}

// A warp processes a row in stretches of 256 columns, one pack per lane. Calls f(i, at, count) for
// stretch i, with the lane's columns from `at` on; all lanes take part, even with a count of 0.
// kStretches of them, or as many as there are if that is 0.
constexpr int kStretch = kWarp * kPack;
template <int kStretches, class F>
__device__ void over_row(int64_t columns, const F& f) {
  const int first = lane_of_thread() * kPack;
  if constexpr (kStretches > 0) {
#pragma unroll
    for (int i = 0; i < kStretches; ++i) {
      const int at = i * kStretch + first;
      f(i, int64_t{at}, at < columns ? kPack : 0);  // whole packs only
    }
  } else {
    int i = 0;
    for (int64_t begin = 0; begin < columns; begin += kStretch, ++i) {
      f(i, begin + first, count_below(begin + first, columns));
    }
  }
}

// Calls f(std::integral_constant<int, n>) with the number of stretches in which a row is kept in
// registers; 0 if it is not.
template <class F>
void with_stretches(int64_t columns, Access access, const F& f) {
  if (access == Access::scalar || columns > 4 * kStretch) {
    f(std::integral_constant<int, 0>());
  } else if (columns <= kStretch) {
    f(std::integral_constant<int, 1>());
  } else if (columns <= 2 * kStretch) {
    f(std::integral_constant<int, 2>());
  } else {
    f(std::integral_constant<int, 4>());
  }
}

}  // namespace tril::kernels::cuda
