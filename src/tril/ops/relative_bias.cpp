#include <algorithm>
#include <cmath>
#include <functional>

#include "tril/base/math.h"
#include "tril/ops/attention.h"
#include "tril/ops/cuda_rows.h"
#include "tril/ops/expressions.h"
#include "tril/ops/on_cuda.h"
#include "tril/ops/rows.h"

namespace tril::ops {
namespace {

// bias[h, i] = weight[bucket_of[i], h], of numbers or expressions.
template <class Number>
void expand(const Tensor& weight, std::span<const int32_t> bucket_of, const Tensor& bias) {
  const int64_t heads = bias.shape()[0];
  Number* to = bias.data<Number>();
  for (int64_t head = 0; head < heads; ++head) {
    for (const int32_t bucket : bucket_of) *to++ = weight.data<Number>()[bucket * heads + head];
  }
}

// dweight [buckets, heads] begins as zeros; `add` is that of the type of numbers.
template <class Number, class Add>
void collect(const Number* dbias, int64_t heads, std::span<const int32_t> bucket_of, const Add& add,
             Number* dweight) {
  for (int64_t head = 0; head < heads; ++head) {
    for (const int32_t bucket : bucket_of) {
      Number& sum = dweight[bucket * heads + head];
      sum = add(sum, *dbias++);
    }
  }
}

}  // namespace

int64_t relative_bucket(int64_t distance, BiasDirections directions, int64_t buckets,
                        int64_t furthest) {
  int64_t first = 0;
  if (directions == BiasDirections::both) {
    buckets /= 2;
    if (distance > 0) first = buckets;
    distance = std::abs(distance);
  } else {
    distance = -std::min<int64_t>(distance, 0);
  }
  const int64_t exact = buckets / 2;
  if (distance < exact) return first + distance;
  const auto ratio = [&](int64_t to) {
    return math::log(static_cast<double>(to) / static_cast<double>(exact));
  };
  const auto more = static_cast<int64_t>(ratio(distance) / ratio(furthest) *
                                         static_cast<double>(buckets - exact));
  return first + std::min(exact + more, buckets - 1);
}

void relative_bias(Context& context, const Tensor& weight, std::span<const int32_t> bucket_of,
                   const Tensor& bias) {
  const Shape expected{weight.shape()[1], static_cast<int64_t>(bucket_of.size())};
  require(bias.shape() == expected, ErrorCode::shape_mismatch, "relative bias: the table is ",
          bias.shape(), ", expected ", expected);
  const bool inside = std::all_of(bucket_of.begin(), bucket_of.end(), [&](int32_t bucket) {
    return bucket >= 0 && bucket < weight.shape()[0];
  });
  require(inside, ErrorCode::invalid_argument, "relative bias: a bucket that none of the ",
          weight.shape()[0], " learnt ones is");
  dispatch(
      context, [&] { expand<float>(weight, bucket_of, bias); },
      [&] { cuda::relative_bias(context, weight, bucket_of, bias); },
      [&] { expand<Expression>(weight, bucket_of, bias); });
}

Tensor relative_bias_gradient(Context& context, const Tensor& dbias,
                              std::span<const int32_t> bucket_of, int64_t buckets) {
  const int64_t heads = dbias.shape()[0];
  require(dbias.shape()[1] == static_cast<int64_t>(bucket_of.size()), ErrorCode::shape_mismatch,
          "relative bias: the gradient is ", dbias.shape(), " for ", bucket_of.size(), " offsets");
  require(has_bias_gradient(context.placement()), ErrorCode::unsupported,
          "relative bias: it has a gradient on the CPU only");
  const Tensor dweight(context.arena, {buckets, heads}, dbias.dtype());
  dispatch(
      context,
      [&] {
        set_zero(dweight);
        collect(dbias.data(), heads, bucket_of, std::plus<>(), dweight.data());
      },
      [&] {},  // refused above
      [&] {
        expressions::fill(context, 0.0f, dweight);
        const auto add = [](const auto& a, const auto& b) { return kernels::model::add(a, b); };
        collect(expressions::gradients_in(dbias), heads, bucket_of, add,
                expressions::gradients_in(dweight));
      });
  return dweight;
}

}  // namespace tril::ops
