// What the models of CUDA's kernels are made of besides arithmetic.h: a warp's lanes, the functions
// of CUDA's mathematical library and the instructions of a GPU that no host computes.
//
// Those are opaque: one operation each, a function of its operands in their order. Only expressions
// have them here; tests bring numbers that a GPU computes (tests/kernels/cuda_model_test.cpp).
#pragma once

#include <array>
#include <span>

#include "tril/kernels/model/arithmetic.h"

namespace tril::kernels::model {

inline float negate(float a) { return -a; }
// fmaxf: where one is NaN, the other; +0 is above -0. So the order of operands does not matter.
inline float larger_number(float a, float b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  return a > b || (a == b && !std::signbit(a)) ? a : b;
}
// a <= b
inline bool at_most(float a, float b) { return a <= b; }

inline Expression negate(const Expression& a) { return expression(Operation::negate, a); }
inline Expression larger_number(const Expression& a, const Expression& b) {
  return expression(Operation::larger_number, a, b);
}
inline Expression at_most(const Expression& a, const Expression& b) {
  return expression(Operation::at_most, a, b);
}
// ex2.approx.ftz.f32, expf and erff.
inline Expression cuda_exp2(const Expression& a) { return expression(Operation::cuda_exp2, a); }
inline Expression cuda_exp(const Expression& a) { return expression(Operation::cuda_exp, a); }
inline Expression cuda_erf(const Expression& a) { return expression(Operation::cuda_erf, a); }

// One element of mma.sync.m16n8k16 or a step of wgmma: sum + a · b, of 16 bf16 numbers each.
constexpr int64_t kTensorCoreTerms = 16;
template <class T>
using TensorCoreTerms = std::array<T, kTensorCoreTerms>;
inline Expression tensor_core_step(const Expression& sum, const TensorCoreTerms<Expression>& a,
                                   const TensorCoreTerms<Expression>& b) {
  ExpressionHasher hasher(Operation::tensor_core_step);
  Expression result = sum;
  hasher << sum.hash;
  for (const auto& terms : {std::span(a), std::span(b)}) {
    for (const Expression& term : terms) {
      hasher << term.hash;
      result.reach = joined(result.reach, term.reach);
    }
  }
  result.hash = hasher.finish();
  ++expressions_made;
  return result;
}

// ---- the lanes of a warp
constexpr int64_t kWarpLanes = 32;
template <class T>
using WarpLanes = std::array<T, kWarpLanes>;

template <class T>
WarpLanes<T> warp_lanes_of(float value) {
  WarpLanes<T> lanes;
  lanes.fill(constant<T>(value));
  return lanes;
}
// Lane 0 of a fold by __shfl_xor_sync over 16, 8, 4, 2, 1. The others hold the same bits, for what
// joins two numbers gives the same in either order.
template <class T, class Join>
T folded_by_halves(WarpLanes<T> lanes, const Join& join) {
  for (size_t half = lanes.size() / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) lanes[i] = join(lanes[i], lanes[i + half]);
  }
  return lanes[0];
}
template <class T>
T sum_of_warp(const WarpLanes<T>& lanes) {
  return folded_by_halves(lanes, [](const T& a, const T& b) { return add(a, b); });
}

}  // namespace tril::kernels::model
