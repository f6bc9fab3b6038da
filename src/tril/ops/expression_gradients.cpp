#include <algorithm>
#include <vector>

#include "tril/kernels/embedding.h"
#include "tril/kernels/model/cross_entropy.h"
#include "tril/kernels/model/linear_gradient.h"
#include "tril/kernels/model/rows_gradient.h"
#include "tril/ops/expressions.h"

namespace tril::ops::expressions {

namespace model = kernels::model;
using model::GradientExpression;

void scale_by(Context& context, const Tensor& factor, const Tensor& x) {
  const Expression by = *factor.data<Expression>();
  for_each(context, x.rows(), [&](int64_t row) {
    for (int64_t i = row * x.columns(); i < (row + 1) * x.columns(); ++i) {
      gradients_in(x)[i] = model::multiply(gradients_in(x)[i], by);
    }
  });
}

void norm_gradients(Context& context, NormKind kind, float epsilon, const Tensor& x,
                    const Tensor& weight, const Tensor& stats, const Tensor& dy,
                    const NormGradients& gradients) {
  const int64_t columns = x.columns();
  const model::NormOf<Expression> args{kind, columns, epsilon, weight.data<Expression>(), nullptr};
  for_each(context, x.rows(), [&](int64_t row) {
    model::norm_row_gradient(args, x.data<Expression>() + row * columns,
                             stats.data<Expression>() + 2 * row, gradients_in(dy) + row * columns,
                             gradients_in(gradients.dx) + row * columns);
  });
  for_each(context, columns, [&](int64_t column) {
    model::norm_column_gradient(
        x.rows(), columns, column, x.data<Expression>(), stats.data<Expression>(), gradients_in(dy),
        gradients_in(gradients.dweight),
        gradients.dbias.defined() ? gradients_in(gradients.dbias) : nullptr);
  });
}

void embedding_gradient(Context& context, const Mirrored<int32_t>& ids, float scale,
                        const Tensor& dout, const Tensor& dtable) {
  const int64_t entries = dtable.rows();
  std::vector<int32_t> order(ids.host.size());
  std::vector<int32_t> starts(static_cast<size_t>(entries + 1));
  kernels::sort_by_id(ids.host.data(), ids.size(), entries, order.data(), starts.data());
  for_each(context, entries, [&](int64_t entry) {
    const auto at = static_cast<size_t>(entry);
    for (int64_t c = 0; c < dtable.columns(); ++c) {
      gradients_in(dtable)[entry * dtable.columns() + c] =
          model::entry_gradient(order.data() + starts[at], starts[at + 1] - starts[at],
                                gradients_in(dout), dtable.columns(), c, scale);
    }
  });
}

void activation_gradient(Context& context, Activation kind, const Tensor& x, const Tensor& dy,
                         const Tensor& dx) {
  for_each(context, x.rows(), [&](int64_t row) {
    for (int64_t i = row * x.columns(); i < (row + 1) * x.columns(); ++i) {
      gradients_in(dx)[i] =
          model::activation_gradient(kind, x.data<Expression>()[i], gradients_in(dy)[i]);
    }
  });
}

void gated_gradients(Context& context, Activation kind, const Tensor& gate, const Tensor& x,
                     const Tensor& dy, const GatedGradients& gradients) {
  for_each(context, x.rows(), [&](int64_t row) {
    for (int64_t i = row * x.columns(); i < (row + 1) * x.columns(); ++i) {
      const Expression opening = gate.data<Expression>()[i];
      const GradientExpression gradient = gradients_in(dy)[i];
      gradients_in(gradients.dgate)[i] =
          model::gate_gradient(kind, opening, x.data<Expression>()[i], gradient);
      gradients_in(gradients.dx)[i] = model::gated_gradient(kind, opening, gradient);
    }
  });
}

void weight_gradient(Context& context, const Tensor& dy, const Tensor& x, SliceOfSum slice,
                     const Tensor& dw) {
  const int64_t tokens = x.rows();
  const int64_t out = dy.columns();
  const int64_t in = x.columns();
  const bool adds = slice == SliceOfSum::further;
  const bool split = context.hooks.split_gradients && tokens > 1;
  for_each(context, out, [&](int64_t output) {
    GradientExpression* to = gradients_in(dw) + output * in;
    const auto add_rows = [&](int64_t begin, int64_t end, bool further) {
      model::weight_gradient_row(end - begin, out, in, output, gradients_in(dy) + begin * out,
                                 x.data<Expression>() + begin * in, further, to);
    };
    if (!split) return add_rows(0, tokens, adds);
    add_rows(0, tokens / 2, adds);  // the test hook: two chains of half the rows, added
    add_rows(tokens / 2, tokens, true);
  });
}

void bias_gradient(Context& context, const Tensor& dy, SliceOfSum slice, const Tensor& db) {
  for_each(context, dy.columns(), [&](int64_t column) {
    const GradientExpression sum =
        model::column_sum(dy.rows(), dy.columns(), column, gradients_in(dy));
    GradientExpression& to = gradients_in(db)[column];
    to = slice == SliceOfSum::first ? sum : model::add(to, sum);
  });
}

namespace {

struct LabelVariable {
  int32_t number;
  Expression is(int64_t token) const { return label_leaf(number, token); }
};

// The label that counts for a row; -1: none. A test hook also counts the row after one.
int32_t label_of(const Context& context, std::span<const int32_t> labels, int64_t row) {
  const int32_t label = labels[static_cast<size_t>(row)];
  if (!context.hooks.learn_from_next || label >= 0 || row == 0) return label;
  return labels[static_cast<size_t>(row - 1)];
}

}  // namespace

void cross_entropy(Context& context, const Tensor& logits, std::span<const int32_t> labels,
                   const LossOptions& options, LossGradients wanted, const Tensor& losses) {
  const int64_t vocab = logits.columns();
  for_each(context, logits.rows(), [&](int64_t row) {
    const Expression* x = logits.data<Expression>() + row * vocab;
    GradientExpression* dx = gradients_in(logits) + row * vocab;
    const LabelVariable label{label_of(context, labels, row)};
    if (label.number < 0) {
      gradients_in(losses)[row] = GradientExpression::nothing();
      if (wanted == LossGradients::wanted) {
        std::fill_n(dx, vocab, GradientExpression::nothing());
      }
      return;
    }
    const Expression norm = model::normaliser(x, vocab);
    gradients_in(losses)[row] = model::row_loss(x, vocab, label, options.smoothing, norm);
    if (wanted == LossGradients::none) return;
    model::row_loss_gradient(x, vocab, label, options.smoothing, options.factor,
                             constant_leaf(1.0f), norm, dx);
  });
}

void total_loss(Context& context, const Tensor& losses, float factor, const Tensor& loss) {
  const Counted counted(context);
  *gradients_in(loss) = model::total_loss<Expression>(gradients_in(losses), losses.size(), factor);
}

}  // namespace tril::ops::expressions
