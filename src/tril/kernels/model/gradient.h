// Gradients as numbers of order-exact models: floats, or expressions with one rule about zeros.
//
// In the gradient of one row's loss every other row of the batch takes part, too, but with zeros:
// its zeros are multiplied by its activations and by weights, and added to sums. As formulas these
// terms are there; as numbers they change nothing. So that both can be compared, gradients are
// expressions of a type of their own, GradientExpression, in which one number is distinguished:
// *nothing*, the zero that a sum begins with, and the gradient of a row without a label. It follows
// this rule, and no other number does:
//
//   nothing x = x nothing = nothing        nothing + x = x + nothing = x - nothing = x
//   fma(nothing, x, c) = fma(x, nothing, c) = fnma(nothing, x, c) = fnma(x, nothing, c) = c
//
// What this assumes: x is finite (0 times infinity or NaN is NaN), and the sign of a zero does not
// matter (0 x is -0 for a negative x, and 0 + -0 is 0). So two gradients that are the same
// expression here are equal numbers, as `==` compares them (0 and -0 are equal, a NaN counts as one
// value), whatever weights and tokens are, as long as everything that zeros are multiplied by is
// finite: the weights, the numbers of the forward pass, and what is made from these alone (slopes
// of activations, weights of attention, normed values).
//
// Why nothing else has to be assumed: where two numbers are equal but for the sign of a zero, so
// are their sums, differences, products and fused multiply-adds. Quotients are not, nor are copied
// signs, nor the order of two numbers. GradientExpression has the former operations alone, and no
// model converts it back: one that divided by a gradient, or compared one, would not compile.
#pragma once

#include "tril/kernels/model/functions.h"

namespace tril::kernels::model {

struct GradientExpression {
  Expression number{};

  GradientExpression() = default;
  // A number of the forward pass may be a factor of a gradient.
  GradientExpression(const Expression& made) : number(made) {}  // NOLINT

  static constexpr ExpressionHash kNothing = ExpressionHasher(Operation::nothing).finish();
  static GradientExpression nothing() { return Expression{.hash = kNothing}; }
  bool is_nothing() const { return number.hash == kNothing; }
};
static_assert(sizeof(GradientExpression) == sizeof(Expression), "tensors hold either");

template <class T>
struct GradientOf;
template <>
struct GradientOf<float> {
  using Type = float;
};
template <>
struct GradientOf<Expression> {
  using Type = GradientExpression;
};
template <class T>
using Gradient = typename GradientOf<T>::Type;

template <>
inline GradientExpression constant<GradientExpression>(float value) {
  return constant_leaf(value);
}
// What a sum of gradients begins with, and the gradient of a row without a label. A zero that is
// written as a constant is a number like any other: multiplied by a forbidden key, it would show.
template <class G>
G nothing();
template <>
inline float nothing<float>() {
  return 0.0f;
}
template <>
inline GradientExpression nothing<GradientExpression>() {
  return GradientExpression::nothing();
}
template <>
inline GradientExpression empty_sum<GradientExpression>() {
  return GradientExpression::nothing();
}
template <class G>
Lanes<G> lanes_of_nothing() {
  Lanes<G> lanes;
  lanes.fill(nothing<G>());
  return lanes;
}

inline GradientExpression add(const GradientExpression& a, const GradientExpression& b) {
  if (a.is_nothing()) return b;
  if (b.is_nothing()) return a;
  return add(a.number, b.number);
}
inline GradientExpression subtract(const GradientExpression& a, const GradientExpression& b) {
  if (b.is_nothing()) return a;
  return subtract(a.number, b.number);
}
inline GradientExpression multiply(const GradientExpression& a, const GradientExpression& b) {
  if (a.is_nothing() || b.is_nothing()) return GradientExpression::nothing();
  return multiply(a.number, b.number);
}
inline GradientExpression fma(const GradientExpression& a, const GradientExpression& b,
                              const GradientExpression& c) {
  if (a.is_nothing() || b.is_nothing()) return c;
  return fma(a.number, b.number, c.number);
}
inline GradientExpression fnma(const GradientExpression& a, const GradientExpression& b,
                               const GradientExpression& c) {
  if (a.is_nothing() || b.is_nothing()) return c;
  return fnma(a.number, b.number, c.number);
}
// A choice by something that is no gradient.
inline GradientExpression select(const Expression& condition, const GradientExpression& yes,
                                 const GradientExpression& no) {
  return select(condition, yes.number, no.number);
}

// ---- sums of losses, which are made in double: as gradients, because a row without a label has a
// loss of zero
template <class T>
struct WideOf;
template <>
struct WideOf<float> {
  using Type = double;
};
template <>
struct WideOf<Expression> {
  using Type = GradientExpression;
};
template <class T>
using Wide = typename WideOf<T>::Type;

inline double add_in_double(double sum, float x) { return sum + static_cast<double>(x); }
inline float times_in_double(double sum, float factor) {
  return static_cast<float>(sum * static_cast<double>(factor));
}
inline GradientExpression add_in_double(const GradientExpression& sum,
                                        const GradientExpression& x) {
  if (x.is_nothing()) return sum;
  return expression(Operation::add_in_double, sum.number, x.number);
}
inline GradientExpression times_in_double(const GradientExpression& sum, float factor) {
  if (sum.is_nothing()) return sum;
  return expression(Operation::times_in_double, sum.number, constant_leaf(factor));
}

}  // namespace tril::kernels::model
