// Weights whose elements are leaves of expressions, made from the weight's name and their index:
// nothing is stored but the name. One form per name that users know.
#include <algorithm>

#include "tril/ops/expressions.h"
#include "tril/ops/forms/forms.h"
#include "tril/ops/kernel_order.h"

namespace tril::ops {
namespace {

namespace model = kernels::model;

constexpr size_t kName = 0;    // [1]: the hash of the weight's name
constexpr size_t kChosen = 1;  // i32 [out]: the outputs that a part consists of; else undefined

// The elements of a weight, by output and term.
class Leaves {
 public:
  explicit Leaves(const LinearWeight& linear)
      : name_(linear.parts[kName].data<Expression>()->hash.low),
        scales_((ExpressionHasher(Operation::weight) << name_ << uint64_t{1}).finish().low),
        terms_(linear.in),
        chosen_(linear.parts[kChosen].defined() ? linear.parts[kChosen].data<int32_t>() : nullptr) {
  }

  int64_t output(int64_t column) const { return chosen_ == nullptr ? column : chosen_[column]; }
  Expression at(int64_t column, int64_t term) const {
    return weight_leaf(name_, output(column) * terms_ + term);
  }
  // Of the integers of an output, in int8.
  Expression scale(int64_t column) const { return weight_leaf(scales_, output(column)); }

 private:
  uint64_t name_;
  uint64_t scales_;
  int64_t terms_;
  const int32_t* chosen_;
};

// Rows of the input in the form that products want.
struct Input {
  const Expression* rows = nullptr;
  std::vector<Expression> rounded{};
  model::Int8Rows<Expression> integers{};
};

class ExpressionForm final : public WeightForm {
 public:
  explicit ExpressionForm(Compute compute) : WeightForm(compute) {}

  bool suits(const Placement& placement) const override {
    return placement.activations == DType::expression;
  }
  std::vector<Part> parts(int64_t /*out*/, int64_t /*in*/) const override {
    return {{".name", {1}, DType::expression}};
  }
  LinearWeight part_of(Context& /*context*/, const LinearWeight& linear,
                       std::span<const int32_t> rows, Arena& arena) const override {
    LinearWeight part = linear;
    part.out = static_cast<int64_t>(rows.size());
    part.parts[kChosen] = Tensor(arena, {part.out}, DType::i32);
    std::copy(rows.begin(), rows.end(), part.parts[kChosen].data<int32_t>());
    if (linear.bias.defined()) {
      part.bias = Tensor(arena, {part.out}, DType::expression);
      for (size_t i = 0; i < rows.size(); ++i) {
        part.bias.data<Expression>()[i] = linear.bias.data<Expression>()[rows[i]];
      }
    }
    return part;
  }

  void multiply(Context& context, const Tensor& x, std::span<const LinearWeight* const> weights,
                std::span<const Tensor> y) const override {
    for (size_t i = 0; i < weights.size(); ++i) {
      multiply_part(context, x, {0, x.rows(), weights[i]}, y[i]);
    }
  }
  void multiply_rows(Context& context, const Tensor& x, std::span<const RowsByWeight> parts,
                     std::span<const Tensor> y) const override {
    for (size_t i = 0; i < parts.size(); ++i) multiply_part(context, x, parts[i], y[i]);
  }
  void input_gradient(Context& context, const Tensor& dy,
                      std::span<const LinearWeight* const> weights, const Tensor& dx,
                      SliceOfSum slice) const override {
    const LinearWeight& linear = *weights[0];
    const Leaves leaves(linear);
    const int64_t rows = dy.rows();
    const bool adds = slice == SliceOfSum::further;
    context.parallel((linear.in + kColumns - 1) / kColumns, [&](int64_t task) {
      const expressions::Counted counted(context);
      const int64_t first = task * kColumns;
      const int64_t columns = std::min(kColumns, linear.in - first);
      std::vector<model::GradientExpression> sums(static_cast<size_t>(rows * columns));
      model::product(
          expressions::gradients_in(dy), rows, linear.out, columns,
          [&](int64_t c, int64_t output) { return leaves.at(output, first + c); }, sums.data());
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t c = 0; c < columns; ++c) {
          auto& to = expressions::gradients_in(dx)[row * linear.in + first + c];
          const model::GradientExpression& sum = sums[static_cast<size_t>(row * columns + c)];
          to = adds ? model::add(to, sum) : sum;
        }
      }
    });
  }

 private:
  static constexpr int64_t kColumns = 8;  // chains that advance together

  void fill(Context& /*context*/, const Tensor& /*weight*/, const Tensor& /*bias*/,
            const LinearWeight& /*to*/) const override {
    fail(ErrorCode::internal, "weights of expressions have names, not values");
  }

  Input input_of(Context& context, const Expression* x, int64_t rows, int64_t terms) const {
    const expressions::Counted counted(context);
    Input input{.rows = x};
    if (compute() == Compute::int8) {
      input.integers = model::quantized(x, rows, terms);
    } else if (compute() == Compute::bf16_dot) {
      for (int64_t i = 0; i < rows * terms; ++i) {
        input.rounded.push_back(model::round_to_bf16(x[i]));
      }
    }
    return input;
  }

  void multiply_part(Context& context, const Tensor& x, const RowsByWeight& part,
                     const Tensor& y) const {
    const LinearWeight& linear = *part.weight;
    const int64_t rows = part.end - part.begin;
    const Input input =
        input_of(context, x.data<Expression>() + part.begin * linear.in, rows, linear.in);
    const Leaves leaves(linear);
    const Expression* bias = linear.bias.defined() ? linear.bias.data<Expression>() : nullptr;
    const bool split = context.hooks.split_sums && rows > 1;
    context.parallel((linear.out + kColumns - 1) / kColumns, [&](int64_t task) {
      const expressions::Counted counted(context);
      const int64_t first = task * kColumns;
      const int64_t columns = std::min(kColumns, linear.out - first);
      std::vector<Expression> sums(static_cast<size_t>(rows * columns));
      product_of(expressions::Ordered(context), input, rows, linear.in, first, columns, leaves,
                 split, sums.data());
      if (bias != nullptr) {
        model::add_bias(
            rows, columns, [&](int64_t c) { return bias[first + c]; }, sums.data());
      }
      for (int64_t row = 0; row < rows; ++row) {
        std::copy_n(sums.data() + row * columns, columns,
                    y.data<Expression>() + row * linear.out + first);
      }
    });
  }

  void product_of(const expressions::Ordered& ordered, const Input& input, int64_t rows,
                  int64_t terms, int64_t first, int64_t columns, const Leaves& leaves, bool split,
                  Expression* sums) const {
    const auto weight = [&](int64_t c, int64_t k) { return leaves.at(first + c, k); };
    switch (compute()) {
      case Compute::int8:
        return model::int8_product(
            input.integers, rows, terms, columns, weight,
            [&](int64_t c) { return leaves.scale(first + c); }, sums);
      case Compute::bf16_dot:
        return model::bf16_dot_product(input.rounded.data(), rows, terms, columns, weight, sums);
      case Compute::fp32:
      case Compute::bf16: break;  // a bf16 weight is one number, widened exactly
    }
    if (split) return split_in_two(ordered, input.rows, rows, terms, columns, weight, sums);
    ordered.product(input.rows, rows, terms, columns, weight, sums);
  }

  // Test hook: two sums of half the terms, added.
  template <class Weight>
  static void split_in_two(const expressions::Ordered& ordered, const Expression* a, int64_t rows,
                           int64_t terms, int64_t columns, const Weight& weight, Expression* sums) {
    const int64_t half = terms / 2;
    std::vector<Expression> rest(static_cast<size_t>(columns));
    for (int64_t row = 0; row < rows; ++row) {
      Expression* to = sums + row * columns;
      ordered.product(a + row * terms, 1, half, columns, weight, to);
      ordered.product(
          a + row * terms + half, 1, terms - half, columns,
          [&](int64_t c, int64_t k) { return weight(c, half + k); }, rest.data());
      for (int64_t c = 0; c < columns; ++c) to[c] = model::add(to[c], rest[static_cast<size_t>(c)]);
    }
  }
};

}  // namespace

const WeightForm& expression_form(Compute compute) {
  static const ExpressionForm fp32(Compute::fp32);
  static const ExpressionForm bf16(Compute::bf16);
  static const ExpressionForm int8(Compute::int8);
  static const ExpressionForm bf16_dot(Compute::bf16_dot);
  switch (compute) {
    case Compute::fp32: return fp32;
    case Compute::bf16: return bf16;
    case Compute::int8: return int8;
    case Compute::bf16_dot: return bf16_dot;
  }
  return fp32;
}

}  // namespace tril::ops
