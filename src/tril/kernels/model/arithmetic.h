// The operations that order-exact models are made of, on floats and on expressions.
//
// A model is a scalar template that performs the operations of a kernel's contract in their order,
// element by element. With floats it gives the kernel's bits, which tests compare; with expressions
// it gives the formula that was computed (base/expression.h). A model never branches on a number:
// select() chooses between two that were both made. Which operations are made may depend on shapes
// and intervals only. (Some operations branch inside, as scale_by_power does: they are functions of
// their operands all the same.)
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tril/base/dtype.h"
#include "tril/base/expression.h"
#include "tril/base/math.h"
#include "tril/kernels/gemm_int8.h"

namespace tril::kernels::model {

template <class T>
T constant(float value);
template <>
inline float constant<float>(float value) {
  return value;
}
template <>
inline Expression constant<Expression>(float value) {
  return constant_leaf(value);
}

// What a sum begins with: zero, which for gradients is a number of its own (gradient.h).
template <class T>
T empty_sum() {
  return constant<T>(0.0f);
}

inline float add(float a, float b) { return a + b; }
inline float subtract(float a, float b) { return a - b; }
inline float multiply(float a, float b) { return a * b; }
inline float divide(float a, float b) { return a / b; }
// a b + c, and c - a b, rounded once.
inline float fma(float a, float b, float c) { return std::fma(a, b, c); }
inline float fnma(float a, float b, float c) { return std::fma(-a, b, c); }
inline float square_root(float a) { return std::sqrt(a); }
// As vmaxps and vminps: b where either is NaN, or both are zero.
inline float maximum(float a, float b) { return a > b ? a : b; }
inline float minimum(float a, float b) { return a < b ? a : b; }
// As std::max: a where either is NaN.
inline float larger(float a, float b) { return a < b ? b : a; }
// To the nearest integer, ties to even.
inline float round(float a) { return std::nearbyint(a); }
// a 2^n for an integer n between -150 and 129, in two exact factors: a subnormal result is rounded
// once.
inline float scale_by_power(float a, float n) {
  if (std::isnan(n)) return a * n;
  const auto whole = static_cast<int32_t>(n);
  const int32_t half = whole >> 1;
  const auto power = [](int32_t e) {
    return std::bit_cast<float>(static_cast<uint32_t>(e + 127) << 23);
  };
  return a * power(half) * power(whole - half);
}
inline float magnitude(float a) { return std::fabs(a); }
inline float copy_sign(float a, float sign) { return std::copysign(a, sign); }
inline float round_to_bf16(float a) { return to_f32(to_bf16(a)); }
// In double, rounded to fp32 (base/math.h).
inline float logarithm(float a) { return static_cast<float>(math::log(static_cast<double>(a))); }

// Conditions, and the choice by one.
inline bool greater(float a, float b) { return a > b; }
inline bool differs(float a, float b) { return a != b; }
inline float select(bool condition, float yes, float no) { return condition ? yes : no; }

inline Expression add(const Expression& a, const Expression& b) {
  return expression(Operation::add, a, b);
}
inline Expression subtract(const Expression& a, const Expression& b) {
  return expression(Operation::subtract, a, b);
}
inline Expression multiply(const Expression& a, const Expression& b) {
  return expression(Operation::multiply, a, b);
}
inline Expression divide(const Expression& a, const Expression& b) {
  return expression(Operation::divide, a, b);
}
inline Expression fma(const Expression& a, const Expression& b, const Expression& c) {
  return expression(Operation::fma, a, b, c);
}
inline Expression fnma(const Expression& a, const Expression& b, const Expression& c) {
  return expression(Operation::fnma, a, b, c);
}
inline Expression square_root(const Expression& a) { return expression(Operation::square_root, a); }
inline Expression maximum(const Expression& a, const Expression& b) {
  return expression(Operation::maximum, a, b);
}
inline Expression minimum(const Expression& a, const Expression& b) {
  return expression(Operation::minimum, a, b);
}
inline Expression larger(const Expression& a, const Expression& b) {
  return expression(Operation::larger, a, b);
}
inline Expression round(const Expression& a) { return expression(Operation::round, a); }
inline Expression scale_by_power(const Expression& a, const Expression& n) {
  return expression(Operation::scale_by_power, a, n);
}
inline Expression magnitude(const Expression& a) { return expression(Operation::magnitude, a); }
inline Expression copy_sign(const Expression& a, const Expression& sign) {
  return expression(Operation::copy_sign, a, sign);
}
inline Expression round_to_bf16(const Expression& a) {
  return expression(Operation::round_to_bf16, a);
}
inline Expression logarithm(const Expression& a) { return expression(Operation::logarithm, a); }
inline Expression greater(const Expression& a, const Expression& b) {
  return expression(Operation::greater, a, b);
}
inline Expression differs(const Expression& a, const Expression& b) {
  return expression(Operation::differs, a, b);
}
inline Expression select(const Expression& condition, const Expression& yes, const Expression& no) {
  return expression(Operation::select, condition, yes, no);
}

// ---- integers of int8 products (kernels/gemm_int8.h); their sums are exact
template <class T>
struct IntegerOf;
template <>
struct IntegerOf<float> {
  using Type = int32_t;
};
template <>
struct IntegerOf<Expression> {
  using Type = Expression;
};
template <class T>
using Integer = typename IntegerOf<T>::Type;

template <class T>
Integer<T> integer(int32_t value);
template <>
inline int32_t integer<float>(int32_t value) {
  return value;
}
template <>
inline Expression integer<Expression>(int32_t value) {
  return constant_leaf(std::bit_cast<float>(value));
}

// The larger of two magnitudes by their bits, so that NaN is above infinity, and that above all.
inline float larger_magnitude(float largest, float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x) & 0x7fffffffu;
  return std::bit_cast<uint32_t>(largest) < bits ? std::bit_cast<float>(bits) : largest;
}
// The factor that turns a row with this largest magnitude into integers, and the one back.
inline float int8_inverse(float largest) {
  const bool usable = std::bit_cast<uint32_t>(largest) < 0x7f800000u && largest >= kInt8Smallest;
  return usable ? 127.0f / largest : 0.0f;
}
inline float int8_scale(float largest) {
  if (std::bit_cast<uint32_t>(largest) >= 0x7f800000u) {
    return std::bit_cast<float>(0xffc00000u);  // as x86 makes it
  }
  return largest < kInt8Smallest ? 0.0f : largest / 127.0f;
}
// Zero where the factor is.
inline int32_t nearest_integer(float x, float factor) {
  return factor == 0.0f ? 0 : static_cast<int32_t>(std::nearbyint(x * factor));
}
inline int32_t add_product(int32_t sum, int32_t a, int32_t b) { return sum + a * b; }
inline float to_float(int32_t a) { return static_cast<float>(a); }

inline Expression larger_magnitude(const Expression& largest, const Expression& x) {
  return expression(Operation::larger_magnitude, largest, x);
}
inline Expression int8_inverse(const Expression& largest) {
  return expression(Operation::int8_inverse, largest);
}
inline Expression int8_scale(const Expression& largest) {
  return expression(Operation::int8_scale, largest);
}
inline Expression nearest_integer(const Expression& x, const Expression& factor) {
  return expression(Operation::nearest_integer, x, factor);
}
inline Expression add_product(const Expression& sum, const Expression& a, const Expression& b) {
  return expression(Operation::add_product, sum, a, b);
}
inline Expression to_float(const Expression& a) { return expression(Operation::to_float, a); }

// ---- the processor's bf16 dot product (kernels/gemm_bf16_dot.h): one opaque operation on two
// pairs. Only expressions have it; tests cannot compare it with anything but the instruction.
inline Expression add_bf16_pair(const Expression& sum, const Expression& a0, const Expression& a1,
                                const Expression& b0, const Expression& b1) {
  return expression(Operation::add_bf16_pair, sum, a0, a1, b0, b1);
}

}  // namespace tril::kernels::model
