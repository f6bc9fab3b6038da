// Order-exact models of CUDA's kernels on rows (kernels/cuda/rows.h), in fp32. In bf16 a kernel
// computes the same from numbers that are bf16, and rounds once where it stores its result.
// Lookups, rotary positions and sums are those of rows.h: there the orders are the same.
#pragma once

#include <algorithm>

#include "tril/kernels/model/cuda_functions.h"
#include "tril/kernels/model/rows.h"

namespace tril::kernels::model {

// Sums over a row: packs of eight, pack i to lane i mod 32, which adds its elements ascending; the
// lanes are folded by halves. Kernels also add the zeros with which they fill up a row, as many as
// they need to: that changes nothing, since a sum that begins with +0 is never -0.
struct WarpOfPacks {
  template <class T, class Next>
  static T sum(int64_t columns, const Next& next) {
    constexpr int64_t kPack = 8;
    WarpLanes<T> lanes = warp_lanes_of<T>(0.0f);
    for (int64_t i = 0; i < columns; ++i) {
      T& lane = lanes[static_cast<size_t>(i / kPack % kWarpLanes)];
      lane = next(lane, i);
    }
    return sum_of_warp(lanes);
  }
};
template <class T>
void cuda_norm_row(const NormOf<T>& n, const T* x, T* y, T* stats = nullptr) {
  norm_row_by<WarpOfPacks>(n, x, y, stats);
}

template <class T>
T cuda_activated(Activation kind, const T& x) {
  const T zero = constant<T>(0.0f);
  const T one = constant<T>(1.0f);
  switch (kind) {
    case Activation::relu: return select(at_most(x, zero), zero, x);
    case Activation::gelu: {
      const T half = constant<T>(0.5f);
      return multiply(x, fma(cuda_erf(multiply(x, constant<T>(0x1.6a09e6p-1f))), half, half));
    }
    case Activation::silu: return multiply(x, divide(one, add(one, cuda_exp(negate(x)))));
    case Activation::gelu_tanh: {
      const T flat = constant<T>(1024.0f);
      const T whole = multiply(x, x);
      const T square = select(greater(whole, flat), flat, whole);
      const T z =
          multiply(x, fma(square, constant<T>(0x1.2444f2p-4f), constant<T>(0x1.988454p+0f)));
      const T e = cuda_exp(negate(magnitude(z)));
      const T more = divide(one, add(one, e));
      return multiply(x, select(greater(zero, z), multiply(e, more), more));
    }
  }
  return x;
}
template <class T>
T cuda_gated(Activation kind, const T& gate, const T& x) {
  return multiply(cuda_activated(kind, gate), x);
}

}  // namespace tril::kernels::model
