// One row of a norm, by a warp. For norm.cu and gemm_norm.cu: the same sums in the same order.
#pragma once

#include "tril/kernels/cuda/rows.cuh"
#include "tril/kernels/norm.h"

namespace tril::kernels::cuda {

// Weight and bias of a lane's columns, fetched when they are asked for...
struct NormWeights {
  const Norm& norm;
  Access access;

  __device__ Pack weight(int, int64_t at, int count) const {
    return load(norm.weight + at, count, access);
  }
  __device__ Pack bias(int, int64_t at, int count) const {
    return load(norm.bias + at, norm.bias == nullptr ? 0 : count, access);
  }
};
// ... or before.
template <int kStretches>
struct FetchedNormWeights {
  Pack weights[kStretches], biases[kStretches];

  __device__ FetchedNormWeights(const Norm& norm, Access access) {
    const NormWeights from{norm, access};
    over_row<kStretches>(norm.columns, [&](int i, int64_t at, int count) {
      weights[i] = from.weight(i, at, count);
      biases[i] = from.bias(i, at, count);
    });
  }
  __device__ Pack weight(int i, int64_t, int) const { return weights[i]; }
  __device__ Pack bias(int i, int64_t, int) const { return biases[i]; }
};

struct NormStats {
  float mean, r;
};

// `source` is where the row comes from: first() gives a pack of it the first time, again() the
// next; a row of kStretches > 0 is kept.
template <class T, int kStretches, class Row, class Weights>
__device__ NormStats norm_row(const Norm& norm, const Row& source, const Weights& weights,
                              Access access, T* y) {
  const float inverse = 1.0f / static_cast<float>(norm.columns);
  Pack held[kStretches > 0 ? kStretches : 1] = {};
  const auto value = [&](int i, int64_t at, int count) {
    if constexpr (kStretches > 0) return held[i];
    return source.again(at, count);
  };
  float sum = 0.0f;
  over_row<kStretches>(norm.columns, [&](int i, int64_t at, int count) {
    const Pack x = source.first(i, at, count);
    if constexpr (kStretches > 0) held[i] = x;
#pragma unroll
    for (int e = 0; e < kPack; ++e) sum += x.at[e];
  });
  const float mean = norm.kind == NormKind::layer ? warp_sum(sum) * inverse : 0.0f;
  float squares = 0.0f;
  over_row<kStretches>(norm.columns, [&](int i, int64_t at, int count) {
    const Pack x = value(i, at, count);
#pragma unroll
    for (int e = 0; e < kPack; ++e) {
      const float centred = e < count ? x.at[e] - mean : 0.0f;
      squares = __fmaf_rn(centred, centred, squares);
    }
  });
  const float r = 1.0f / sqrtf(warp_sum(squares) * inverse + norm.epsilon);
  over_row<kStretches>(norm.columns, [&](int i, int64_t at, int count) {
    if (count == 0) return;
    const Pack x = value(i, at, count);
    const Pack weight = weights.weight(i, at, count);
    const Pack bias = weights.bias(i, at, count);
    Pack result;
#pragma unroll
    for (int e = 0; e < kPack; ++e) {
      const float normed = (x.at[e] - mean) * r;
      result.at[e] = norm.bias == nullptr ? normed * weight.at[e]
                                          : __fmaf_rn(normed, weight.at[e], bias.at[e]);
    }
    store(result, y + at, count, access);
  });
  return {mean, r};
}

}  // namespace tril::kernels::cuda
