#include "tril/ops/expressions.h"

#include <algorithm>

#include "tril/ops/kernel_order.h"

namespace tril::ops::expressions {
namespace model = kernels::model;

// As gradients: a number of the forward pass is never the zero that they leave out of a sum.
void add(Context& context, const Tensor& a, const Tensor& b, const Tensor& out) {
  const Ordered ordered(context);
  for_each(context, a.rows(), [&](int64_t row) {
    for (int64_t i = row * a.columns(); i < (row + 1) * a.columns(); ++i) {
      gradients_in(out)[i] = model::add(gradients_in(a)[i], gradients_in(b)[i]);
      Expression& sum = out.data<Expression>()[i];
      sum = ordered.stored(sum);
    }
  });
}

void scaled(Context& context, const Tensor& x, float factor, const Tensor& out) {
  const Ordered ordered(context);
  const model::GradientExpression by = constant_leaf(factor);
  for_each(context, x.rows(), [&](int64_t row) {
    for (int64_t i = row * x.columns(); i < (row + 1) * x.columns(); ++i) {
      gradients_in(out)[i] = model::multiply(gradients_in(x)[i], by);
      Expression& product = out.data<Expression>()[i];
      product = ordered.stored(product);
    }
  });
}

void store_activations(Context& context, const Tensor& y) {
  if (context.expressions->order != OperationOrder::cuda_bf16) return;
  const Ordered ordered(context);
  for_each(context, y.rows(), [&](int64_t row) {
    Expression* at = y.data<Expression>() + row * y.columns();
    for (int64_t i = 0; i < y.columns(); ++i) at[i] = ordered.stored(at[i]);
  });
}

// Zero is what no gradient reaches; gradients alone are filled.
void fill(Context& /*context*/, float value, const Tensor& out) {
  using model::GradientExpression;
  std::fill_n(
      gradients_in(out), out.size(),
      value == 0.0f ? GradientExpression::nothing() : model::constant<GradientExpression>(value));
}

void norm(Context& context, NormKind kind, float epsilon, const Tensor& x, const Tensor& weight,
          const Tensor& bias, const NormResult& result) {
  const model::NormOf<Expression> args{kind, x.columns(), epsilon, weight.data<Expression>(),
                                       bias.defined() ? bias.data<Expression>() : nullptr};
  const Ordered ordered(context);
  for_each(context, x.rows(), [&](int64_t row) {
    ordered.norm_row(args, x.data<Expression>() + row * x.columns(),
                     result.y.data<Expression>() + row * x.columns(),
                     result.stats.data<Expression>() + 2 * row);
  });
}

void embedding(Context& context, const Lookup& lookup, const Tensor& out) {
  const uint64_t table = lookup.packed->parts[0].data<Expression>()->hash.low;
  const int64_t columns = out.columns();
  const ExpressionInputs& inputs = *context.expressions;
  const Ordered ordered(context);
  for_each(context, out.rows(), [&](int64_t row) {
    const int32_t token = lookup.ids[row];
    const Reach reach = inputs.reach_of(token);
    for (int64_t c = 0; c < columns; ++c) {
      const Expression entry = lookup_leaf(table, token, c, reach);
      Expression position;
      if (lookup.positions.defined()) {
        position = entry_of(lookup.positions, lookup.position_ids[row] * columns + c);
      }
      out.data<Expression>()[row * columns + c] = ordered.stored(
          model::embedded(entry, lookup.scale, lookup.positions.defined() ? &position : nullptr));
    }
  });
}

void activation(Context& context, Activation kind, const Tensor& x, const Tensor& y) {
  const Ordered ordered(context);
  for_each(context, x.rows(), [&](int64_t row) {
    for (int64_t i = row * x.columns(); i < (row + 1) * x.columns(); ++i) {
      y.data<Expression>()[i] = ordered.activated(kind, x.data<Expression>()[i]);
    }
  });
}

void gated(Context& context, Activation kind, const Tensor& gate, const Tensor& x,
           const Tensor& y) {
  const Ordered ordered(context);
  for_each(context, x.rows(), [&](int64_t row) {
    for (int64_t i = row * x.columns(); i < (row + 1) * x.columns(); ++i) {
      y.data<Expression>()[i] =
          ordered.gated(kind, gate.data<Expression>()[i], x.data<Expression>()[i]);
    }
  });
}

void rotary(Context& context, Turn turn, const Tensor& x, const Mirrored<int32_t>& positions,
            const Tensor& table, const Tensor& y) {
  const int64_t heads = x.shape()[1];
  const int64_t head_dim = x.shape()[2];
  const Ordered ordered(context);
  for_each(context, x.shape()[0], [&](int64_t row) {
    const float* cosines = table.data() + positions[row] * head_dim;
    for (int64_t head = 0; head < heads; ++head) {
      const int64_t at = (row * heads + head) * head_dim;
      if (turn == Turn::forwards) {
        ordered.rotated_head(head_dim, cosines, x.data<Expression>() + at,
                             y.data<Expression>() + at);
      } else {
        model::rotated_head<model::GradientExpression, Expression>(
            head_dim, cosines, cosines + head_dim / 2, gradients_in(x) + at, gradients_in(y) + at,
            turn);
      }
    }
  });
}

}  // namespace tril::ops::expressions
