#include "tril/ops/expressions.h"

#include <algorithm>

#include "tril/ops/kernel_order.h"

namespace tril::ops::expressions {
namespace {

namespace model = kernels::model;

// f(task) for every task, with its operations counted.
template <class F>
void for_each(Context& context, int64_t tasks, const F& f) {
  context.parallel(tasks, [&](int64_t task) {
    const Counted counted(context);
    f(task);
  });
}

// One entry of a table, which is learnt or given in numbers.
Expression entry_of(const Tensor& table, int64_t index) {
  return table.dtype() == DType::expression ? table.data<Expression>()[index]
                                            : constant_leaf(table.data()[index]);
}

// Where a row's keys and values are: in the step's own tensors, or in the pages of a cache.
struct ContiguousKeys {
  const Expression* keys;
  const Expression* values;
  int64_t stride;
  Expression key(int64_t j, int64_t d) const { return keys[j * stride + d]; }
  Expression value(int64_t j, int64_t d) const { return values[j * stride + d]; }
};
struct KeysInPages {
  const float* const* pages;
  const PagedKeys& layout;
  int64_t kv_head;

  const Expression* page(int64_t j) const {
    return reinterpret_cast<const Expression*>(pages[j / kernels::kKeyTile]);
  }
  int64_t first() const { return kv_head * layout.head_dim * kernels::kKeyTile; }
  Expression key(int64_t j, int64_t d) const {
    return page(j)[layout.keys_offset + first() + d * kernels::kKeyTile + j % kernels::kKeyTile];
  }
  Expression value(int64_t j, int64_t d) const {
    return page(j)[layout.values_offset + first() + j % kernels::kKeyTile * layout.head_dim + d];
  }
};

// The bias of every head as expressions: [heads, offsets].
std::vector<Expression> bias_of(const AttentionOptions& options) {
  std::vector<Expression> bias;
  if (!options.bias.defined()) return bias;
  for (int64_t i = 0; i < options.bias.size(); ++i) bias.push_back(entry_of(options.bias, i));
  return bias;
}

bool is_widened(const AttentionOptions& options, int64_t row, int64_t head) {
  return (options.widen_head == head || options.widen_head == TestHooks::kAllHeads) &&
         (options.widen_row < 0 || options.widen_row == row);
}

// Every row in every head. keys_of(row, head) says where a row's keys are; known_keys(row), how
// many of them there are, for the test hooks.
template <class KeysOf, class KnownKeys>
void attend(Context& context, const Tensor& q, std::span<const Interval> intervals,
            const AttentionSizes& sizes, const AttentionOptions& options, const Tensor& out,
            const KeysOf& keys_of, const KnownKeys& known_keys) {
  const std::vector<Expression> bias = bias_of(options);
  const int64_t offsets = static_cast<int64_t>(bias.size()) / sizes.heads;
  const Ordered ordered(context);
  const auto* queries = q.data<Expression>();
  auto* results = out.data<Expression>();
  for_each(context, sizes.query * sizes.heads, [&](int64_t task) {
    const int64_t row = task / sizes.heads;
    const int64_t head = task % sizes.heads;
    Expression* to = results + task * sizes.head_dim;
    const Interval& interval = intervals[static_cast<size_t>(row)];
    if (interval.empty()) {
      std::fill_n(to, sizes.head_dim, constant_leaf(0.0f));
      return;
    }
    model::AttentionRow<Expression> args{.head_dim = sizes.head_dim,
                                         .scale = sizes.scale,
                                         .lo = interval.lo - interval.origin,
                                         .hi = interval.hi - interval.origin,
                                         .q = queries + task * sizes.head_dim};
    if (!bias.empty()) {
      args.bias = bias.data() + head * offsets;
      args.bias_zero = options.bias_zero;
      args.position = options.positions[row];
    }
    if (is_widened(options, row, head)) args.hi = std::min(args.hi + 1, known_keys(row));
    const bool several = sizes.query > 1;
    args.fault.descending_blocks = context.hooks.order_by_batch && several;
    args.fault.no_rescaling = context.hooks.skip_rescaling && several;
    if (context.hooks.multiply_forbidden) args.fault.known_keys = known_keys(row);
    ordered.attention_row(args, keys_of(row, head), to);
  });
}

}  // namespace

void add(Context& context, const Tensor& a, const Tensor& b, const Tensor& out) {
  const Ordered ordered(context);
  for_each(context, a.rows(), [&](int64_t row) {
    for (int64_t i = row * a.columns(); i < (row + 1) * a.columns(); ++i) {
      out.data<Expression>()[i] =
          ordered.stored(model::add(a.data<Expression>()[i], b.data<Expression>()[i]));
    }
  });
}

void store_activations(Context& context, const Tensor& y) {
  if (context.expressions->order != KernelOrder::cuda_bf16) return;
  const Ordered ordered(context);
  for_each(context, y.rows(), [&](int64_t row) {
    Expression* at = y.data<Expression>() + row * y.columns();
    for (int64_t i = 0; i < y.columns(); ++i) at[i] = ordered.stored(at[i]);
  });
}

void norm(Context& context, NormKind kind, float epsilon, const Tensor& x, const Tensor& weight,
          const Tensor& bias, const Tensor& y) {
  const model::NormOf<Expression> args{kind, x.columns(), epsilon, weight.data<Expression>(),
                                       bias.defined() ? bias.data<Expression>() : nullptr};
  const Ordered ordered(context);
  for_each(context, x.rows(), [&](int64_t row) {
    ordered.norm_row(args, x.data<Expression>() + row * x.columns(),
                     y.data<Expression>() + row * x.columns());
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

void rotary(Context& context, const Tensor& x, const Mirrored<int32_t>& positions,
            const Tensor& table, const Tensor& y) {
  const int64_t heads = x.shape()[1];
  const int64_t head_dim = x.shape()[2];
  const Ordered ordered(context);
  for_each(context, x.shape()[0], [&](int64_t row) {
    const float* cosines = table.data() + positions[row] * head_dim;
    for (int64_t head = 0; head < heads; ++head) {
      const int64_t at = (row * heads + head) * head_dim;
      ordered.rotated_head(head_dim, cosines, x.data<Expression>() + at, y.data<Expression>() + at);
    }
  });
}

void attention(Context& context, const Tensor& q, const Tensor& k, const Tensor& v,
               std::span<const Interval> intervals, const AttentionSizes& sizes,
               const AttentionOptions& options, const Tensor& out) {
  const int64_t stride = sizes.kv_heads * sizes.head_dim;
  const int64_t group = sizes.heads / sizes.kv_heads;
  attend(
      context, q, intervals, sizes, options, out,
      [&](int64_t row, int64_t head) {
        const int64_t first =
            intervals[static_cast<size_t>(row)].origin * stride + head / group * sizes.head_dim;
        return ContiguousKeys{k.data<Expression>() + first, v.data<Expression>() + first, stride};
      },
      [&](int64_t row) {
        // The keys of the row's sequence: up to the last that any of its rows sees.
        const int64_t origin = intervals[static_cast<size_t>(row)].origin;
        int64_t keys = 0;
        for (const Interval& each : intervals) {
          if (!each.empty() && each.origin == origin) keys = std::max(keys, each.hi - origin);
        }
        return keys;
      });
}

void attention_paged(Context& context, const Tensor& q, const PagedKeys& keys,
                     std::span<const Interval> intervals, const AttentionSizes& sizes,
                     const AttentionOptions& options, const Tensor& out) {
  const int64_t group = sizes.heads / sizes.kv_heads;
  AttentionOptions cached = options;
  cached.widen_head = -1;  // in a cached step there are no later keys
  attend(
      context, q, intervals, sizes, cached, out,
      [&](int64_t row, int64_t head) {
        return KeysInPages{keys.pages[static_cast<size_t>(row)], keys, head / group};
      },
      [&](int64_t row) { return int64_t{keys.lengths[static_cast<size_t>(row)]}; });
}

}  // namespace tril::ops::expressions
