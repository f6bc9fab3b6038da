#include "tril/ops/linear.h"

#include "tril/kernels/gemm.h"

namespace tril::ops {
namespace {

void check_matrix(std::string_view operation, std::string_view what, const Tensor& tensor) {
  require(tensor.defined() && tensor.shape().rank() == 2, ErrorCode::shape_mismatch, operation,
          ": ", what, " must be a matrix, got ", tensor.shape());
}

// The panels given, or ones packed now into scratch.
const float* panels_or_pack(Context& context, const Tensor& panels, const Tensor& weight,
                            bool transposed) {
  if (panels.defined()) return panels.data();
  const int64_t out = weight.shape()[0];
  const int64_t in = weight.shape()[1];
  const int64_t k = transposed ? in : out;
  const int64_t n = transposed ? out : in;
  float* packed = context.arena.allocate_array<float>(kernels::panel_size(k, n));
  if (transposed) {
    kernels::pack_panels_transposed(context.parallel, weight.data(), k, n, packed);
  } else {
    kernels::pack_panels(context.parallel, weight.data(), k, n, packed);
  }
  return packed;
}

}  // namespace

Shape forward_panels_shape(const Tensor& weight) {
  return {kernels::panel_size(weight.shape()[1], weight.shape()[0])};
}
Shape backward_panels_shape(const Tensor& weight) {
  return {kernels::panel_size(weight.shape()[0], weight.shape()[1])};
}

void pack_forward(Context& context, const LinearWeight& linear) {
  kernels::pack_panels_transposed(context.parallel, linear.weight.data(), linear.weight.shape()[1],
                                  linear.weight.shape()[0], linear.forward_panels.data());
}
void pack_backward(Context& context, const LinearWeight& linear) {
  kernels::pack_panels(context.parallel, linear.weight.data(), linear.weight.shape()[0],
                       linear.weight.shape()[1], linear.backward_panels.data());
}

Tensor linear(Context& context, const Tensor& x, const LinearWeight& linear) {
  check_matrix("linear", "the input", x);
  check_matrix("linear", "the weight", linear.weight);
  const int64_t out = linear.weight.shape()[0];
  const int64_t in = linear.weight.shape()[1];
  require(x.shape()[1] == in, ErrorCode::shape_mismatch, "linear: the input has ", x.shape()[1],
          " columns, the weight ", linear.weight.shape(), " expects ", in);
  require(!linear.bias.defined() || linear.bias.size() == out, ErrorCode::shape_mismatch,
          "linear: the bias has ", linear.bias.size(), " entries, expected ", out);
  Tensor y(context.arena, {x.shape()[0], out});
  const Arena::Scope scratch(context.arena);
  const float* panels = panels_or_pack(context, linear.forward_panels, linear.weight, true);
  kernels::gemm(context.parallel, {.m = x.shape()[0],
                                   .n = out,
                                   .k = in,
                                   .a = x.data(),
                                   .panels = panels,
                                   .bias = linear.bias.defined() ? linear.bias.data() : nullptr,
                                   .c = y.data()});
  return y;
}

Tensor linear_input_gradient(Context& context, const Tensor& dy, const LinearWeight& linear) {
  const int64_t out = linear.weight.shape()[0];
  const int64_t in = linear.weight.shape()[1];
  require(dy.shape().rank() == 2 && dy.shape()[1] == out, ErrorCode::shape_mismatch,
          "linear gradient: ", dy.shape(), " does not fit the weight ", linear.weight.shape());
  Tensor dx(context.arena, {dy.shape()[0], in});
  const Arena::Scope scratch(context.arena);
  const float* panels = panels_or_pack(context, linear.backward_panels, linear.weight, false);
  kernels::gemm(
      context.parallel,
      {.m = dy.shape()[0], .n = in, .k = out, .a = dy.data(), .panels = panels, .c = dx.data()});
  return dx;
}

Tensor linear_weight_gradient(Context& context, const Tensor& dy, const Tensor& x) {
  check_matrix("linear gradient", "the output's gradient", dy);
  check_matrix("linear gradient", "the input", x);
  const int64_t tokens = x.shape()[0];
  const int64_t out = dy.shape()[1];
  const int64_t in = x.shape()[1];
  require(dy.shape()[0] == tokens, ErrorCode::shape_mismatch, "linear gradient: ", tokens,
          " input rows, ", dy.shape()[0], " output rows");
  Tensor dw(context.arena, {out, in});
  const Arena::Scope scratch(context.arena);
  auto* dy_transposed = context.arena.allocate_array<float>(tokens * out);
  auto* panels = context.arena.allocate_array<float>(kernels::panel_size(tokens, in));
  kernels::transpose(context.parallel, dy.data(), tokens, out, dy_transposed);
  kernels::pack_panels(context.parallel, x.data(), tokens, in, panels);
  kernels::gemm(context.parallel, {.m = out,
                                   .n = in,
                                   .k = tokens,
                                   .a = dy_transposed,
                                   .panels = panels,
                                   .c = dw.data(),
                                   .summation = kernels::Summation::token_slices});
  return dw;
}

Tensor linear_bias_gradient(Context& context, const Tensor& dy) {
  check_matrix("bias gradient", "the output's gradient", dy);
  Tensor db(context.arena, {dy.shape()[1]});
  kernels::column_sums(context.parallel, dy.data(), dy.shape()[0], dy.shape()[1], db.data());
  return db;
}

}  // namespace tril::ops
