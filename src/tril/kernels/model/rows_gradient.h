// Order-exact models of the gradients of kernels that work row by row (kernels/norm.h,
// activation.h, embedding.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "tril/kernels/gemm.h"
#include "tril/kernels/model/gradient.h"
#include "tril/kernels/model/rows.h"

namespace tril::kernels::model {

// A sum over tokens, in slices of kTokenSlice: term(token, sum) adds one. The slices' sums are
// added to zero, ascending.
template <class G, class Term>
G sum_over_tokens(int64_t tokens, const Term& term) {
  G total = nothing<G>();
  for (int64_t begin = 0; begin < tokens; begin += kTokenSlice) {
    G slice = nothing<G>();
    const int64_t end = std::min(tokens, begin + kTokenSlice);
    for (int64_t token = begin; token < end; ++token) slice = term(token, slice);
    total = add(total, slice);
  }
  return total;
}

// dx of one row; stats are its mean and r. dx may be dy.
template <class T>
void norm_row_gradient(const NormOf<T>& n, const T* x, const T* stats, const Gradient<T>* dy,
                       Gradient<T>* dx) {
  using G = Gradient<T>;
  const G none = nothing<G>();
  const T inverse_columns = constant<T>(1.0f / static_cast<float>(n.columns));
  const auto normed = [&](const T& value) { return multiply(subtract(value, stats[0]), stats[1]); };
  Lanes<G> sums = lanes_of_nothing<G>();
  Lanes<G> products = lanes_of_nothing<G>();
  for_each_lane(n.columns, [&](size_t lane, int64_t i) {
    // Past the end the gradient is zero, not what it is multiplied by.
    const G g = i < 0 ? none : multiply(dy[i], n.weight[i]);
    sums[lane] = add(sums[lane], g);
    products[lane] = fma(g, normed(i < 0 ? constant<T>(0.0f) : x[i]), products[lane]);
  });
  const G mean = n.kind == NormKind::layer ? multiply(sum_of(sums), inverse_columns) : none;
  const G mean_product = multiply(sum_of(products), inverse_columns);
  for (int64_t i = 0; i < n.columns; ++i) {
    const G g = subtract(multiply(dy[i], n.weight[i]), mean);
    dx[i] = multiply(fnma(normed(x[i]), mean_product, g), stats[1]);
  }
}

// One column of dweight and, where it is wanted, of dbias: sums over rows.
template <class T>
void norm_column_gradient(int64_t rows, int64_t columns, int64_t column, const T* x, const T* stats,
                          const Gradient<T>* dy, Gradient<T>* dweight, Gradient<T>* dbias) {
  using G = Gradient<T>;
  dweight[column] = sum_over_tokens<G>(rows, [&](int64_t row, const G& sum) {
    const int64_t at = row * columns + column;
    const T normed = multiply(subtract(x[at], stats[2 * row]), stats[2 * row + 1]);
    return fma(dy[at], normed, sum);
  });
  if (dbias == nullptr) return;
  dbias[column] = sum_over_tokens<G>(
      rows, [&](int64_t row, const G& sum) { return add(sum, dy[row * columns + column]); });
}

// The derivative of activated().
template <class T>
T slope(Activation kind, const T& x) {
  const T zero = constant<T>(0.0f);
  const T one = constant<T>(1.0f);
  switch (kind) {
    case Activation::relu: return select(greater(x, zero), one, zero);
    case Activation::gelu: {
      const T half = constant<T>(0.5f);
      const T cdf = fma(error_function(multiply(x, constant<T>(0x1.6a09e6p-1f))), half, half);
      const T density = multiply(exponential(multiply(multiply(x, x), constant<T>(-0.5f))),
                                 constant<T>(0x1.988454p-2f));
      return fma(x, density, cdf);
    }
    case Activation::silu: {
      const T s = sigmoid(x);
      return multiply(s, fma(x, subtract(one, s), one));
    }
    case Activation::gelu_tanh: {
      const T flat = constant<T>(1024.0f);
      const T linear = constant<T>(0x1.988454p+0f);
      const T whole = multiply(x, x);
      const T square = select(greater(whole, flat), flat, whole);
      const T z = multiply(x, fma(square, constant<T>(0x1.2444f2p-4f), linear));
      const T e = exponential(subtract(zero, maximum(subtract(zero, z), z)));
      const T more = divide(one, add(one, e));
      const T less = multiply(e, more);
      const T s = select(greater(zero, z), less, more);
      const T inner = multiply(x, fma(square, constant<T>(0x1.b6676cp-3f), linear));
      return fma(inner, multiply(less, more), s);
    }
  }
  return x;
}
template <class T>
Gradient<T> activation_gradient(Activation kind, const T& x, const Gradient<T>& dy) {
  return multiply(dy, slope(kind, x));
}
template <class T>
Gradient<T> gate_gradient(Activation kind, const T& gate, const T& x, const Gradient<T>& dy) {
  return multiply(multiply(dy, x), slope(kind, gate));
}
template <class T>
Gradient<T> gated_gradient(Activation kind, const T& gate, const Gradient<T>& dy) {
  return multiply(dy, activated(kind, gate));
}

// One column of a table's entry: rows order[0], order[1] ... looked it up, `count` of them.
template <class T>
T entry_gradient(const int32_t* order, int64_t count, const T* dout, int64_t columns,
                 int64_t column, float scale) {
  T sum = nothing<T>();
  for (int64_t i = 0; i < count; ++i) sum = add(sum, dout[order[i] * columns + column]);
  return multiply(sum, constant<T>(scale));
}

}  // namespace tril::kernels::model
