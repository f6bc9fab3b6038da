// What the kernels' products are made of, for a weight packed in each form: rows of an input, as
// the form wants them, times the weight, into y. For the sources of this folder.
#pragma once

#include "tril/kernels/gemm.h"
#include "tril/kernels/gemm_bf16_dot.h"
#include "tril/kernels/gemm_int8.h"
#include "tril/ops/linear.h"

namespace tril::ops {

inline const float* bias_of(const LinearWeight& linear) {
  return linear.bias.defined() ? linear.bias.data() : nullptr;
}

// fp32 and bf16, whose chains are the same.
template <class Element>
kernels::GemmOf<Element> product_of(const LinearWeight& linear, int64_t rows, const float* x,
                                    const Element* panels, const Tensor& y) {
  return {.m = rows,
          .n = linear.out,
          .k = linear.in,
          .a = x,
          .panels = panels,
          .bias = bias_of(linear),
          .c = y.data()};
}

// An input rounded to bytes, and rows of it from `row` on.
struct Int8Rows {
  const uint8_t* bytes;
  const float* scales;

  Int8Rows(Context& context, const Tensor& x) {
    auto* to = context.arena.allocate_array<uint8_t>(x.rows() * kernels::int8_padded(x.columns()));
    auto* scale = context.arena.allocate_array<float>(x.rows());
    kernels::quantize_rows(context.parallel, x.data(), x.rows(), x.columns(), to, scale);
    bytes = to;
    scales = scale;
  }
  kernels::GemmInt8 times(const LinearWeight& linear, int64_t row, int64_t rows,
                          const Tensor& y) const {
    return {.m = rows,
            .n = linear.out,
            .k = linear.in,
            .a = bytes + row * kernels::int8_padded(linear.in),
            .a_scales = scales + row,
            .panels = linear.forward_panels.data<int8_t>(),
            .scales = linear.scales.data(),
            .sums = linear.sums.data<int32_t>(),
            .bias = bias_of(linear),
            .c = y.data()};
  }
};

// An input rounded to bf16.
struct Bf16Rows {
  const BFloat16* numbers;

  Bf16Rows(Context& context, const Tensor& x) {
    auto* to = context.arena.allocate_array<BFloat16>(x.rows() * kernels::bf16_padded(x.columns()));
    kernels::round_rows(context.parallel, x.data(), x.rows(), x.columns(), to);
    numbers = to;
  }
  kernels::GemmBf16Dot times(const LinearWeight& linear, int64_t row, int64_t rows,
                             const Tensor& y) const {
    return {.m = rows,
            .n = linear.out,
            .k = linear.in,
            .a = numbers + row * kernels::bf16_padded(linear.in),
            .panels = linear.forward_panels.data<BFloat16>(),
            .bias = bias_of(linear),
            .c = y.data()};
  }
};

}  // namespace tril::ops
