#include "tril/ops/linear.h"

#include <algorithm>

#include "tril/kernels/elementwise.h"
#include "tril/kernels/gemm.h"
#include "tril/ops/cuda_linear.h"
#include "tril/ops/expressions.h"
#include "tril/ops/on_cuda.h"

namespace tril::ops {
namespace {

void check_matrix(std::string_view operation, std::string_view what, const Tensor& tensor) {
  require(tensor.defined() && tensor.shape().rank() == 2, ErrorCode::shape_mismatch, operation,
          ": ", what, " must be a matrix, got ", tensor.shape());
}

void check_input(const Tensor& x, const LinearWeight& linear) {
  check_matrix("linear", "the input", x);
  require(x.shape()[1] == linear.in, ErrorCode::shape_mismatch, "linear: the input has ",
          x.shape()[1], " columns, the weight [", linear.out, ", ", linear.in, "] expects ",
          linear.in);
  require(!linear.bias.defined() || linear.bias.size() == linear.out, ErrorCode::shape_mismatch,
          "linear: the bias has ", linear.bias.size(), " entries, expected ", linear.out);
}

int64_t outputs_of(std::span<const LinearWeight* const> weights) {
  int64_t outputs = 0;
  for (const LinearWeight* linear : weights) outputs += linear->out;
  return outputs;
}

// Kernels store their sums as activations themselves; expressions are rounded afterwards.
void finish(Context& context, const Tensor& y) {
  if (context.expressions != nullptr) expressions::store_activations(context, y);
}

}  // namespace

bool are_stacked(const Context& context, std::span<const LinearWeight* const> weights) {
  if (weights.empty()) return false;
  const WeightForm& form = form_of(context, *weights[0]);
  const auto is_alike = [&](const LinearWeight* linear) {
    return &form_of(context, *linear) == &form;
  };
  return std::all_of(weights.begin(), weights.end(), is_alike) && form.are_stacked(weights);
}

void linears(Context& context, const Tensor& x, std::span<const LinearWeight* const> weights,
             std::span<Tensor> y) {
  require(
      !weights.empty() && weights.size() <= kernels::kMostProducts && y.size() == weights.size(),
      ErrorCode::internal, "linears: ", weights.size(), " weights for ", y.size(), " results");
  const WeightForm& form = form_of(context, *weights[0]);
  for (const LinearWeight* linear : weights) {
    check_input(x, *linear);
    require(&form_of(context, *linear) == &form, ErrorCode::invalid_argument,
            "linear: weights of different forms");
  }
  const int64_t rows = x.shape()[0];
  if (weights.size() > 1 && form.are_stacked(weights)) {
    const Tensor all(context.arena, {rows, outputs_of(weights)}, context.activations);
    int64_t begin = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      y[i] = all.column_slice(begin, begin + weights[i]->out);
      begin += weights[i]->out;
    }
    return form.multiply_stacked(context, x, weights, all);
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    y[i] = Tensor(context.arena, {rows, weights[i]->out}, context.activations);
  }
  form.multiply(context, x, weights, y);
  for (const Tensor& each : y) finish(context, each);
}

Tensor linear(Context& context, const Tensor& x, const LinearWeight& linear, LinearOutput output) {
  check_input(x, linear);
  const WeightForm& form = form_of(context, linear);
  const bool padded = output == LinearOutput::padded_sums;
  const Tensor y(context.arena,
                 {x.shape()[0], padded ? form.padded_outputs(linear.out) : linear.out},
                 output == LinearOutput::activation ? context.activations : context.sums());
  const LinearWeight* const weights[] = {&linear};
  form.multiply(context, x, weights, {&y, 1});
  if (output == LinearOutput::activation) finish(context, y);
  return y;
}

bool has_linear_relu(const Context& context, const LinearWeight& linear) {
  return form_of(context, linear).has_relu();
}

Tensor linear_relu(Context& context, const Tensor& x, const LinearWeight& linear) {
  check_input(x, linear);
  Tensor y(context.arena, {x.shape()[0], linear.out}, context.activations);
  form_of(context, linear).multiply_relu(context, x, linear, y);
  return y;
}

namespace {

// On CUDA there may be zeros behind the last output.
bool has_outputs(const Context& context, const Tensor& dy, int64_t out) {
  const bool padded = on_cuda(context) && dy.shape()[1] == padded_size(out);
  return dy.shape()[1] == out || padded;
}
void check_result(std::string_view operation, const Tensor& result, const Shape& expected) {
  require(result.shape() == expected, ErrorCode::shape_mismatch, operation, ": the result is ",
          result.shape(), ", expected ", expected);
}

}  // namespace

void linear_input_gradient_into(Context& context, const Tensor& dy, const LinearWeight& linear,
                                const Tensor& dx) {
  require(linear.weight.defined(), ErrorCode::unsupported,
          "linear gradient: this weight was packed for inference");
  require(dy.shape().rank() == 2 && has_outputs(context, dy, linear.out), ErrorCode::shape_mismatch,
          "linear gradient: ", dy.shape(), " does not fit the weight ", linear.weight.shape());
  check_result("linear gradient", dx, {dy.shape()[0], linear.in});
  const LinearWeight* const weights[] = {&linear};
  form_of(context, linear).input_gradient(context, dy, weights, dx, SliceOfSum::first);
}

Tensor linear_input_gradient(Context& context, const Tensor& dy, const LinearWeight& linear) {
  Tensor dx(context.arena, {dy.rows(), linear.in}, context.activations);
  linear_input_gradient_into(context, dy, linear, dx);
  return dx;
}

void add_linear_input_gradient(Context& context, const Tensor& dy,
                               std::span<const LinearWeight* const> weights, const Tensor& dx) {
  require(weights.size() == 1 || are_stacked(context, weights), ErrorCode::internal,
          "linear gradient: the weights are not stacked");
  require(dy.shape().rank() == 2 && dy.shape()[1] == outputs_of(weights), ErrorCode::shape_mismatch,
          "linear gradient: ", dy.shape(), " of ", outputs_of(weights), " outputs");
  check_result("linear gradient", dx, {dy.shape()[0], weights[0]->in});
  form_of(context, *weights[0]).input_gradient(context, dy, weights, dx, SliceOfSum::further);
}

Tensor linears_input_gradient(Context& context, const Tensor& dy,
                              std::span<const LinearWeight* const> weights) {
  require(are_stacked(context, weights) && dy.shape().rank() == 2 &&
              dy.shape()[1] == outputs_of(weights),
          ErrorCode::internal, "linear gradient: ", dy.shape(), " of weights that are not stacked");
  Tensor dx(context.arena, {dy.shape()[0], weights[0]->in}, context.activations);
  form_of(context, *weights[0]).input_gradient(context, dy, weights, dx, SliceOfSum::first);
  return dx;
}

namespace {

void weight_gradient_on_cpu(Context& context, const Tensor& dy, const Tensor& x, SliceOfSum slice,
                            const Tensor& dw) {
  const int64_t tokens = x.shape()[0];
  const int64_t out = dy.shape()[1];
  const int64_t in = x.shape()[1];
  const Arena::Scope scratch(context.arena);
  auto* panels = context.arena.allocate_array<float>(kernels::panel_size(tokens, in));
  kernels::pack_panels(context.parallel, x.data(), tokens, in, panels);
  // Reading dy down its columns is slower than along rows; for so few columns of x, or so many of
  // dy, transposing it costs more than that (measured).
  constexpr int64_t kFewColumns = 128;
  constexpr int64_t kManyColumns = 4096;
  const bool in_place = in <= kFewColumns || out > kManyColumns;
  const float* a = dy.data();
  if (!in_place) {
    auto* transposed = context.arena.allocate_array<float>(tokens * out);
    kernels::transpose(context.parallel, dy.data(), tokens, out, transposed);
    a = transposed;
  }
  kernels::gemm(context.parallel, kernels::Gemm{.m = out,
                                                .n = in,
                                                .k = tokens,
                                                .a = a,
                                                .panels = panels,
                                                .c = dw.data(),
                                                .summation = kernels::Summation::token_slices,
                                                .a_transposed = in_place,
                                                .adds = slice == SliceOfSum::further});
}

void bias_gradient_on_cpu(Context& context, const Tensor& dy, SliceOfSum slice, const Tensor& db) {
  if (slice == SliceOfSum::first) {
    kernels::column_sums(context.parallel, dy.data(), dy.shape()[0], dy.shape()[1], db.data());
    return;
  }
  const Arena::Scope scratch(context.arena);
  auto* sums = context.arena.allocate_array<float>(db.size());
  kernels::column_sums(context.parallel, dy.data(), dy.shape()[0], dy.shape()[1], sums);
  kernels::add(context.parallel, db.size(), db.data(), sums, db.data());
}

}  // namespace

void linear_weight_gradient_into(Context& context, const Tensor& dy, const Tensor& x,
                                 SliceOfSum slice, const Tensor& dw) {
  check_matrix("linear gradient", "the output's gradient", dy);
  check_matrix("linear gradient", "the input", x);
  const int64_t tokens = x.shape()[0];
  const int64_t in = x.shape()[1];
  require(dy.shape()[0] == tokens, ErrorCode::shape_mismatch, "linear gradient: ", tokens,
          " input rows, ", dy.shape()[0], " output rows");
  check_result("linear gradient", dw, {dw.rows(), in});
  require(has_outputs(context, dy, dw.rows()), ErrorCode::shape_mismatch,
          "linear gradient: ", dy.shape(), " does not fit the weight's gradient ", dw.shape());
  dispatch(
      context, [&] { weight_gradient_on_cpu(context, dy, x, slice, dw); },
      [&] { cuda_weight_gradient(context, dy, x, slice, dw); },
      [&] { expressions::weight_gradient(context, dy, x, slice, dw); });
}

Tensor linear_weight_gradient(Context& context, const Tensor& dy, const Tensor& x) {
  Tensor dw(context.arena, {dy.columns(), x.columns()}, context.sums());
  linear_weight_gradient_into(context, dy, x, SliceOfSum::first, dw);
  return dw;
}

void linear_bias_gradient_into(Context& context, const Tensor& dy, SliceOfSum slice,
                               const Tensor& db) {
  check_matrix("bias gradient", "the output's gradient", dy);
  require(has_outputs(context, dy, db.size()), ErrorCode::shape_mismatch,
          "bias gradient: ", dy.shape(), " does not fit a bias of ", db.size());
  dispatch(
      context, [&] { bias_gradient_on_cpu(context, dy, slice, db); },
      [&] { cuda_bias_gradient(context, dy, slice, db); },
      [&] { expressions::bias_gradient(context, dy, slice, db); });
}

Tensor linear_bias_gradient(Context& context, const Tensor& dy) {
  Tensor db(context.arena, {dy.columns()}, context.sums());
  linear_bias_gradient_into(context, dy, SliceOfSum::first, db);
  return db;
}

}  // namespace tril::ops
