#include "tril/ops/linear.h"

#include "tril/kernels/elementwise.h"
#include "tril/ops/cuda_linear.h"
#include "tril/ops/on_cuda.h"
#include "tril/ops/products.h"

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

LinearWeight linear_weight(const Tensor& weight, const Tensor& bias) {
  check_matrix("linear", "the weight", weight);
  return {.weight = weight, .bias = bias, .out = weight.shape()[0], .in = weight.shape()[1]};
}

int64_t forward_panels_size(int64_t out, int64_t in, Compute compute) {
  switch (compute) {
    case Compute::int8: return kernels::int8_panel_size(in, out);
    case Compute::bf16_dot: return kernels::bf16_pair_panel_size(in, out);
    default: return kernels::panel_size(in, out);
  }
}
DType panels_type(Compute compute) {
  switch (compute) {
    case Compute::bf16:
    case Compute::bf16_dot: return DType::bf16;
    case Compute::int8: return DType::i8;
    default: return DType::f32;
  }
}
Shape backward_panels_shape(const Tensor& weight) {
  return {kernels::panel_size(weight.shape()[0], weight.shape()[1])};
}

void allocate_packed(Arena& arena, DType activations, LinearWeight& linear) {
  const bool rounds = activations == DType::bf16;
  if (rounds && linear.bias.defined() && !linear.rounded_bias.defined()) {
    linear.rounded_bias = Tensor(arena, {padded_size(linear.out)}, DType::bf16);
  }
  if (linear.forward_panels.defined()) return;
  if (arena.device() == Device::cpu) {
    linear.forward_panels =
        Tensor(arena, {forward_panels_size(linear.out, linear.in, Compute::fp32)});
  } else if (rounds) {
    linear.forward_panels =
        Tensor(arena, {padded_size(linear.out), padded_size(linear.in)}, DType::bf16);
  }
}

void pack_forward(Context& context, const LinearWeight& linear) {
  if constexpr (kCudaBuilt) {
    if (on_cuda(context)) return cuda_pack_forward(context, linear);
  }
  kernels::pack_panels_transposed(context.parallel, linear.weight.data(), linear.in, linear.out,
                                  linear.forward_panels.data());
}
void pack_backward(Context& context, const LinearWeight& linear) {
  kernels::pack_panels(context.parallel, linear.weight.data(), linear.out, linear.in,
                       linear.backward_panels.data());
}

void check_supported(Compute compute) {
  require(compute != Compute::bf16_dot || kernels::has_bf16_dot(), ErrorCode::unsupported,
          word_for(compute), ": this processor has no bf16 dot products (AVX512_BF16); ",
          word_for(Compute::bf16), " works everywhere");
}

void check_terms(Compute compute, int64_t in) {
  require(compute != Compute::int8 || in <= kernels::kInt8MaxTerms, ErrorCode::unsupported,
          "int8: a weight has ", in, " columns, at most ", kernels::kInt8MaxTerms,
          " can be summed");
}

LinearWeight packed_for(Context& context, const LinearWeight& linear, Compute compute,
                        Arena& arena) {
  LinearWeight packed{.out = linear.out, .in = linear.in, .compute = compute};
  if constexpr (kCudaBuilt) {
    if (on_cuda(context)) {
      require(compute == Compute::bf16 && context.activations == DType::bf16,
              ErrorCode::unsupported, "packing for inference on cuda: in ", word_for(Compute::bf16),
              " only, got ", word_for(compute), " for activations of ", context.activations);
      allocate_packed(arena, context.activations, packed);
      packed.weight = linear.weight;
      cuda_pack_forward(context, packed);
      packed.weight = {};
      return packed;
    }
  }
  packed.forward_panels =
      Tensor(arena, {forward_panels_size(linear.out, linear.in, compute)}, panels_type(compute));
  if (compute == Compute::int8) {
    check_terms(compute, linear.in);
    packed.scales = Tensor(arena, {linear.out});
    packed.sums = Tensor(arena, {linear.out}, DType::i32);
    kernels::pack_int8(
        context.parallel, linear.weight.data(), linear.out, linear.in,
        {packed.forward_panels.data<int8_t>(), packed.scales.data(), packed.sums.data<int32_t>()});
    return packed;
  }
  if (compute == Compute::fp32) {
    kernels::pack_panels_transposed(context.parallel, linear.weight.data(), linear.in, linear.out,
                                    packed.forward_panels.data());
    return packed;
  }
  if (compute == Compute::bf16_dot) {
    kernels::pack_bf16_pairs(context.parallel, linear.weight.data(), linear.out, linear.in,
                             packed.forward_panels.data<BFloat16>());
    return packed;
  }
  const Arena::Scope scratch(context.arena);
  const float* panels = panels_or_pack(context, {}, linear.weight, true);
  kernels::round_panels(context.parallel, panels, packed.forward_panels.size(),
                        packed.forward_panels.data<BFloat16>());
  return packed;
}

void unpack_row(const LinearWeight& linear, int64_t row, float* to) {
  const Tensor& panels = linear.forward_panels;
  require(panels.device() == Device::cpu, ErrorCode::unsupported,
          "a row of a packed weight: it is in the memory of ", panels.device());
  switch (linear.compute) {
    case Compute::fp32: return kernels::unpack_column(panels.data(), linear.in, row, to);
    case Compute::bf16: return kernels::unpack_column(panels.data<BFloat16>(), linear.in, row, to);
    case Compute::bf16_dot:
      return kernels::unpack_bf16_row(panels.data<BFloat16>(), linear.in, row, to);
    case Compute::int8:
      return kernels::unpack_int8_row(panels.data<int8_t>(), linear.scales.data(), linear.in, row,
                                      to);
  }
}

namespace {

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

}  // namespace

bool are_stacked(const Context& context, std::span<const LinearWeight* const> weights) {
  if (context.device() == Device::cpu || context.activations != DType::bf16) return false;
  const auto follows = [](const Tensor& next, const Tensor& before) {
    const int64_t bytes = before.size() * size_of(DType::bf16);
    return next.address() == static_cast<const char*>(before.address()) + bytes;
  };
  for (size_t i = 0; i < weights.size(); ++i) {
    const LinearWeight& linear = *weights[i];
    if (!linear.forward_panels.defined() || linear.out != padded_size(linear.out)) return false;
    if (i == 0) continue;
    const LinearWeight& before = *weights[i - 1];
    const bool biased = linear.rounded_bias.defined();
    if (linear.in != before.in || !follows(linear.forward_panels, before.forward_panels) ||
        biased != before.rounded_bias.defined() || linear.bias.defined() != biased ||
        before.bias.defined() != biased ||
        (biased && !follows(linear.rounded_bias, before.rounded_bias))) {
      return false;
    }
  }
  return !weights.empty();
}

void linears(Context& context, const Tensor& x, std::span<const LinearWeight* const> weights,
             std::span<Tensor> y) {
  require(
      !weights.empty() && weights.size() <= kernels::kMostProducts && y.size() == weights.size(),
      ErrorCode::internal, "linears: ", weights.size(), " weights for ", y.size(), " results");
  const Compute compute = weights[0]->compute;
  for (const LinearWeight* linear : weights) {
    check_input(x, *linear);
    require(linear->compute == compute, ErrorCode::invalid_argument,
            "linear: weights of different types");
  }
  const int64_t rows = x.shape()[0];
  if constexpr (kCudaBuilt) {
    if (on_cuda(context) && weights.size() > 1 && are_stacked(context, weights)) {
      const Tensor all(context.arena, {rows, outputs_of(weights)}, context.activations);
      int64_t begin = 0;
      for (size_t i = 0; i < weights.size(); ++i) {
        y[i] = all.column_slice(begin, begin + weights[i]->out);
        begin += weights[i]->out;
      }
      return cuda_linear(context, x, weights, all);
    }
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    y[i] = Tensor(context.arena, {rows, weights[i]->out}, context.activations);
  }
  if constexpr (kCudaBuilt) {
    if (on_cuda(context)) {
      for (size_t i = 0; i < weights.size(); ++i) {
        cuda_linear(context, x, weights.subspan(i, 1), y[i]);
      }
      return;
    }
  }
  const Arena::Scope scratch(context.arena);
  if (compute == Compute::int8) {
    const Int8Rows input(context, x);
    kernels::GemmInt8 products[kernels::kMostProducts];
    for (size_t i = 0; i < weights.size(); ++i) {
      products[i] = input.times(*weights[i], 0, rows, y[i]);
    }
    return kernels::gemm_int8(context.parallel, {products, weights.size()});
  }
  if (compute == Compute::bf16_dot) {
    const Bf16Rows input(context, x);
    kernels::GemmBf16Dot products[kernels::kMostProducts];
    for (size_t i = 0; i < weights.size(); ++i) {
      products[i] = input.times(*weights[i], 0, rows, y[i]);
    }
    return kernels::gemm_bf16_dot(context.parallel, {products, weights.size()});
  }
  const auto multiply = [&]<class Element>(Element) {
    kernels::GemmOf<Element> products[kernels::kMostProducts];
    for (size_t i = 0; i < weights.size(); ++i) {
      const LinearWeight& linear = *weights[i];
      const Element* panels = nullptr;
      if constexpr (std::is_same_v<Element, float>) {
        panels = panels_or_pack(context, linear.forward_panels, linear.weight, true);
      } else {
        panels = linear.forward_panels.data<Element>();
      }
      products[i] = product_of(linear, rows, x.data(), panels, y[i]);
    }
    kernels::gemm(context.parallel,
                  std::span<const kernels::GemmOf<Element>>(products, weights.size()));
  };
  if (compute == Compute::bf16) {
    multiply(BFloat16());
  } else {
    multiply(float());
  }
}

Tensor linear(Context& context, const Tensor& x, const LinearWeight& linear, LinearOutput output) {
  if constexpr (kCudaBuilt) {
    if (on_cuda(context) && output != LinearOutput::activation) {
      check_input(x, linear);
      const int64_t columns =
          output == LinearOutput::padded_sums ? padded_size(linear.out) : linear.out;
      const Tensor sums(context.arena, {x.shape()[0], columns});
      const LinearWeight* const weights[] = {&linear};
      cuda_linear(context, x, weights, sums);
      return sums;
    }
  }
  const LinearWeight* const weights[] = {&linear};
  Tensor y[1];
  linears(context, x, weights, y);
  return y[0];
}

bool has_linear_relu(const Context& context) { return kCudaBuilt && on_cuda(context); }

Tensor linear_relu(Context& context, const Tensor& x, const LinearWeight& linear) {
  require(has_linear_relu(context), ErrorCode::internal, "linear: no ReLU of a product on ",
          context.device());
  check_input(x, linear);
  Tensor y(context.arena, {x.shape()[0], linear.out}, context.activations);
  const LinearWeight* const weights[] = {&linear};
  if constexpr (kCudaBuilt) cuda_linear(context, x, weights, y, AfterProduct::relu);
  return y;
}

namespace {

// On CUDA there may be zeros behind the last output.
bool has_outputs(const Context& context, const Tensor& dy, int64_t out) {
  const bool padded = kCudaBuilt && on_cuda(context) && dy.shape()[1] == padded_size(out);
  return dy.shape()[1] == out || padded;
}
[[maybe_unused]]  // without CUDA
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
  if constexpr (kCudaBuilt) {
    if (on_cuda(context)) {
      check_result("linear gradient", dx, {dy.shape()[0], linear.in});
      const LinearWeight* const weights[] = {&linear};
      return cuda_input_gradient(context, dy, weights, dx);
    }
  }
  const Arena::Scope scratch(context.arena);
  const float* panels = panels_or_pack(context, linear.backward_panels, linear.weight, false);
  kernels::gemm(context.parallel, kernels::Gemm{.m = dy.shape()[0],
                                                .n = linear.in,
                                                .k = linear.out,
                                                .a = dy.data(),
                                                .panels = panels,
                                                .c = dx.data()});
}

Tensor linear_input_gradient(Context& context, const Tensor& dy, const LinearWeight& linear) {
  Tensor dx(context.arena, {dy.rows(), linear.in}, context.activations);
  linear_input_gradient_into(context, dy, linear, dx);
  return dx;
}

void add_linear_input_gradient(Context& context, const Tensor& dy,
                               std::span<const LinearWeight* const> weights, const Tensor& dx) {
  if constexpr (kCudaBuilt) {
    if (on_cuda(context)) {
      require(weights.size() == 1 || are_stacked(context, weights), ErrorCode::internal,
              "linear gradient: the weights are not stacked");
      require(dy.shape().rank() == 2 && dy.shape()[1] == outputs_of(weights),
              ErrorCode::shape_mismatch, "linear gradient: ", dy.shape(), " of ",
              outputs_of(weights), " outputs");
      check_result("linear gradient", dx, {dy.shape()[0], weights[0]->in});
      return cuda_input_gradient(context, dy, weights, dx, SliceOfSum::further);
    }
  }
  require(weights.size() == 1, ErrorCode::internal, "linear gradient: weights are not stacked");
  const Arena::Scope scratch(context.arena);
  const Tensor added = linear_input_gradient(context, dy, *weights[0]);
  kernels::add(context.parallel, dx.size(), dx.data(), added.data(), dx.data());
}

Tensor linears_input_gradient(Context& context, const Tensor& dy,
                              std::span<const LinearWeight* const> weights) {
  require(are_stacked(context, weights) && dy.shape().rank() == 2 &&
              dy.shape()[1] == outputs_of(weights),
          ErrorCode::internal, "linear gradient: ", dy.shape(), " of weights that are not stacked");
  Tensor dx(context.arena, {dy.shape()[0], weights[0]->in}, context.activations);
  if constexpr (kCudaBuilt) cuda_input_gradient(context, dy, weights, dx);
  return dx;
}

void linear_weight_gradient_into(Context& context, const Tensor& dy, const Tensor& x,
                                 SliceOfSum slice, const Tensor& dw) {
  check_matrix("linear gradient", "the output's gradient", dy);
  check_matrix("linear gradient", "the input", x);
  const int64_t tokens = x.shape()[0];
  const int64_t out = dy.shape()[1];
  const int64_t in = x.shape()[1];
  require(dy.shape()[0] == tokens, ErrorCode::shape_mismatch, "linear gradient: ", tokens,
          " input rows, ", dy.shape()[0], " output rows");
  if constexpr (kCudaBuilt) {
    if (on_cuda(context)) {
      require(has_outputs(context, dy, dw.rows()), ErrorCode::shape_mismatch,
              "linear gradient: ", dy.shape(), " does not fit the weight's gradient ", dw.shape());
      check_result("linear gradient", dw, {dw.rows(), in});
      return cuda_weight_gradient(context, dy, x, slice, dw);
    }
  }
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

Tensor linear_weight_gradient(Context& context, const Tensor& dy, const Tensor& x) {
  Tensor dw(context.arena, {dy.columns(), x.columns()});
  linear_weight_gradient_into(context, dy, x, SliceOfSum::first, dw);
  return dw;
}

void linear_bias_gradient_into(Context& context, const Tensor& dy, SliceOfSum slice,
                               const Tensor& db) {
  check_matrix("bias gradient", "the output's gradient", dy);
  if constexpr (kCudaBuilt) {
    if (on_cuda(context)) {
      require(has_outputs(context, dy, db.size()), ErrorCode::shape_mismatch,
              "bias gradient: ", dy.shape(), " does not fit a bias of ", db.size());
      return cuda_bias_gradient(context, dy, slice, db);
    }
  }
  if (slice == SliceOfSum::first) {
    kernels::column_sums(context.parallel, dy.data(), dy.shape()[0], dy.shape()[1], db.data());
    return;
  }
  const Arena::Scope scratch(context.arena);
  auto* sums = context.arena.allocate_array<float>(db.size());
  kernels::column_sums(context.parallel, dy.data(), dy.shape()[0], dy.shape()[1], sums);
  kernels::add(context.parallel, db.size(), db.data(), sums, db.data());
}

Tensor linear_bias_gradient(Context& context, const Tensor& dy) {
  Tensor db(context.arena, {dy.columns()});
  linear_bias_gradient_into(context, dy, SliceOfSum::first, db);
  return db;
}

}  // namespace tril::ops
