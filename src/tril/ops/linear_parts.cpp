#include "tril/ops/linear_parts.h"

#include <utility>
#include <vector>

#include "tril/kernels/columns.h"
#include "tril/ops/on_cuda.h"
#include "tril/ops/products.h"

namespace tril::ops {
namespace {

template <class T>
Tensor chosen(const Tensor& all, std::span<const int32_t> rows, Arena& arena) {
  const Tensor part(arena, {static_cast<int64_t>(rows.size())}, all.dtype());
  const T* from = all.data<T>();
  T* to = part.data<T>();
  for (size_t i = 0; i < rows.size(); ++i) to[i] = from[rows[i]];
  return part;
}

// Many products are shared out whole; of a few, each is shared.
template <class Product, class Multiply>
void run(const Parallel& parallel, std::span<const Product> products, const Multiply& multiply) {
  const auto count = static_cast<int64_t>(products.size());
  if (2 * count >= parallel.threads()) {
    parallel(count, [&](int64_t i) { multiply(products[static_cast<size_t>(i)]); });
  } else {
    for (const Product& product : products) multiply(product);
  }
}

template <class Element>
void multiply_parts(Context& context, const Tensor& x, std::span<const RowsByWeight> parts,
                    std::span<const Tensor> y) {
  std::vector<kernels::GemmOf<Element>> products;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& [begin, end, weight] = parts[i];
    products.push_back(product_of(*weight, end - begin, x.data() + begin * weight->in,
                                  weight->forward_panels.data<Element>(), y[i]));
  }
  run(context.parallel, std::span<const kernels::GemmOf<Element>>(products),
      [&](const kernels::GemmOf<Element>& product) { kernels::gemm(context.parallel, product); });
}

// Of an input that is rounded first: Int8Rows or Bf16Rows.
template <class Input, class Multiply>
void multiply_rounded_parts(Context& context, const Tensor& x, std::span<const RowsByWeight> parts,
                            std::span<const Tensor> y, const Multiply& multiply) {
  const Arena::Scope scratch(context.arena);
  const Input input(context, x);
  std::vector<decltype(input.times(*parts[0].weight, 0, 0, x))> products;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& [begin, end, weight] = parts[i];
    products.push_back(input.times(*weight, begin, end - begin, y[i]));
  }
  run(context.parallel, std::span(std::as_const(products)), multiply);
}

}  // namespace

LinearWeight part_of(Context& context, const LinearWeight& linear, std::span<const int32_t> rows,
                     Arena& arena) {
  require(!on_cuda(context), ErrorCode::unsupported,
          "part of a linear layer: its outputs can be chosen on the CPU only, not on ",
          context.device());
  require(linear.forward_panels.defined(), ErrorCode::internal,
          "part of a linear layer: its weight is not packed");
  for (const int32_t row : rows) {
    require(row >= 0 && row < linear.out, ErrorCode::invalid_argument,
            "part of a linear layer: output ", row, " of ", linear.out);
  }
  LinearWeight part{
      .out = static_cast<int64_t>(rows.size()), .in = linear.in, .compute = linear.compute};
  part.forward_panels = Tensor(arena, {forward_panels_size(part.out, part.in, part.compute)},
                               linear.forward_panels.dtype());
  if (linear.bias.defined()) part.bias = chosen<float>(linear.bias, rows, arena);
  int64_t unit_bytes = size_of(linear.forward_panels.dtype());
  int64_t panel_rows = linear.in;
  if (part.compute == Compute::bf16_dot) {
    unit_bytes *= 2;
    panel_rows = kernels::bf16_padded(linear.in) / 2;
  }
  if (part.compute == Compute::int8) {
    part.scales = chosen<float>(linear.scales, rows, arena);
    part.sums = chosen<int32_t>(linear.sums, rows, arena);
    unit_bytes = kernels::kInt8Terms;
    panel_rows = kernels::int8_padded(linear.in) / kernels::kInt8Terms;
  }
  kernels::gather_columns(context.parallel, linear.forward_panels.raw(), unit_bytes, panel_rows,
                          rows, part.forward_panels.raw());
  return part;
}

void linear_by_rows(Context& context, const Tensor& x, std::span<const RowsByWeight> parts,
                    std::span<Tensor> y) {
  require(x.defined() && x.shape().rank() == 2, ErrorCode::shape_mismatch,
          "linear by rows: the input must be a matrix, got ", x.shape());
  require(y.size() == parts.size(), ErrorCode::internal, "linear by rows: ", parts.size(),
          " parts for ", y.size(), " results");
  if (parts.empty()) return;
  const Compute compute = parts[0].weight->compute;
  for (const auto& [begin, end, weight] : parts) {
    require(begin >= 0 && begin <= end && end <= x.rows(), ErrorCode::shape_mismatch,
            "linear by rows: rows ", begin, " to ", end, " of ", x.rows());
    require(weight->in == x.columns(), ErrorCode::shape_mismatch, "linear by rows: the input has ",
            x.columns(), " columns, the weight expects ", weight->in);
    require(weight->compute == compute, ErrorCode::invalid_argument,
            "linear by rows: weights of different types");
  }
  if constexpr (kCudaBuilt) {
    if (on_cuda(context)) {
      for (size_t i = 0; i < parts.size(); ++i) {
        const auto& [begin, end, weight] = parts[i];
        y[i] = linear(context, x.slice(begin, end), *weight, LinearOutput::sums);
      }
      return;
    }
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& [begin, end, weight] = parts[i];
    y[i] = Tensor(context.arena, {end - begin, weight->out});
  }
  switch (compute) {
    case Compute::fp32: return multiply_parts<float>(context, x, parts, y);
    case Compute::bf16: return multiply_parts<BFloat16>(context, x, parts, y);
    case Compute::bf16_dot:
      return multiply_rounded_parts<Bf16Rows>(
          context, x, parts, y, [&](const kernels::GemmBf16Dot& product) {
            kernels::gemm_bf16_dot(context.parallel, {&product, 1});
          });
    case Compute::int8:
      return multiply_rounded_parts<Int8Rows>(context, x, parts, y,
                                              [&](const kernels::GemmInt8& product) {
                                                kernels::gemm_int8(context.parallel, {&product, 1});
                                              });
  }
}

}  // namespace tril::ops
