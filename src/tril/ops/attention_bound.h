// A bound on the difference between an output of attention and the textbook formula in double,
// derived from what the kernel does (kernels/attention.h), for everyone who compares the two.
//
// u = 2^-24, γ(n) as in base/gamma.h, M the largest over a row's keys of scale Σ|q·k| + |bias|.
//  - A score is a chain of head_dim fused products, times the scale, plus the bias: off by γ(d + 2)
//    M. Roundings of the inputs count too, if q, k or the scale were not fp32 numbers.
//  - Its exponential is taken of differences: first from the block's largest score, then from one
//    running maximum to the next. They all have the same sign and add up to the distance from the
//    last maximum, at most 2 M, so their roundings shift the exponent by at most 2 u M. The maximum
//    itself cancels in the division. Together e = γ(d + 4) M per score, and a weight, which is one
//    exponential over a sum of them, is off by the factor exp(2 e).
//  - An exponential is right within 1.05 units in the last place, 3 u. A weight goes through the
//    first and through one for each rise at a block and each merge of a span, with a product; then
//    through a chain of one addition per key, in p·v above and in the sum below the line; finally
//    through the division and one product. T counts them all: a factor within 1 ± γ(T).
//  - Underflow: 2^-126 of a value per key where an exponential vanishes, and 2^-149 for each
//    operation on numbers that small.
#pragma once

#include <cstdint>

#include "tril/base/gamma.h"
#include "tril/base/math.h"
#include "tril/kernels/attention.h"

namespace tril::ops {

// One row of one head.
struct AttentionTerms {
  int64_t head_dim = 0;
  int64_t keys = 0;             // that the row sees
  double largest_score = 0.0;   // M
  int64_t input_roundings = 0;  // of a product q·k times the scale, before attention
};

class AttentionBound {
 public:
  explicit AttentionBound(const AttentionTerms& row)
      : operations_(static_cast<double>(operations(row.keys))) {
    const double factor =
        math::exp(2.0 * gamma(row.head_dim + 4 + row.input_roundings) * row.largest_score);
    share_ = factor - 1.0 + factor * gamma(operations(row.keys));
  }

  // For an output Σ weight · value: `weighted` is Σ weight |value|, `values` is Σ |value|, both
  // over the keys that the row sees, the weights being the textbook's. 0 for a row that sees none.
  double operator()(double weighted, double values) const {
    return operations_ == 0.0 ? 0.0
                              : share_ * weighted + 0x1p-126 * values + 0x1p-149 * operations_;
  }

 private:
  static int64_t operations(int64_t keys) {
    if (keys == 0) return 0;
    constexpr int64_t kExponential = 3;  // in u
    const int64_t blocks = keys / kernels::kKeyBlock + 2;
    const int64_t spans = keys / kernels::kKeySpan + 2;
    const int64_t path =
        kExponential + keys + 4 + blocks * (kExponential + 1) + spans * (kExponential + 2);
    return 2 * path + 2;
  }

  double share_ = 0.0;
  double operations_ = 0.0;
};

}  // namespace tril::ops
