// Order-exact model of attention backward (kernels/attention.h): one row in one head.
#pragma once

#include <cstdint>

#include "tril/kernels/model/attention.h"
#include "tril/kernels/model/gradient.h"
#include "tril/kernels/model/rows.h"

namespace tril::kernels::model {

// What the forward pass gave for the row, and the gradient of it.
template <class T>
struct AttentionRowResult {
  const T* out = nullptr;             // [head_dim]
  const T* stats = nullptr;           // the largest score and 1 / sum
  const Gradient<T>* dout = nullptr;  // [head_dim]
};

// dout · out
template <class T>
Gradient<T> delta_of(int64_t head_dim, const AttentionRowResult<T>& result) {
  using G = Gradient<T>;
  Lanes<G> sums = lanes_of_nothing<G>();
  for_each_lane(head_dim, [&](size_t lane, int64_t d) {
    const G factor = d < 0 ? nothing<G>() : result.dout[d];
    sums[lane] = fma(factor, d < 0 ? constant<T>(0.0f) : result.out[d], sums[lane]);
  });
  return sum_of(sums);
}

// dq [head_dim] is written. sums.dk(j, d) and sums.dv(j, d) are the sums of key j, counted from the
// origin, to which this row is added: its chain goes over the heads that share the key's head, and
// for each of these over the rows, ascending; whoever calls sees to that. sums.add_to_bias(j, e)
// takes the gradient of the score of key j for the sum of the group's bias.
template <class T, class Keys, class Sums>
void attention_row_gradient(const AttentionRow<T>& row, const Keys& keys,
                            const AttentionRowResult<T>& result, Gradient<T>* dq,
                            const Sums& sums) {
  using G = Gradient<T>;
  const G delta = delta_of(row.head_dim, result);
  for (int64_t d = 0; d < row.head_dim; ++d) dq[d] = nothing<G>();
  for (int64_t j = row.lo; j < row.hi; ++j) {
    const T weight =
        multiply(exponential(subtract(score(row, keys, j), result.stats[0])), result.stats[1]);
    G dp = nothing<G>();
    for (int64_t d = 0; d < row.head_dim; ++d) dp = fma(result.dout[d], keys.value(j, d), dp);
    const G e = multiply(weight, subtract(dp, delta));
    const G ds = multiply(e, constant<T>(row.scale));
    sums.add_to_bias(j, e);
    for (int64_t d = 0; d < row.head_dim; ++d) {
      dq[d] = fma(ds, keys.key(j, d), dq[d]);
      sums.dk(j, d) = fma(ds, row.q[d], sums.dk(j, d));
      sums.dv(j, d) = fma(weight, result.dout[d], sums.dv(j, d));
    }
  }
}

}  // namespace tril::kernels::model
