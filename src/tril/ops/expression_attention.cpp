#include <algorithm>

#include "tril/kernels/model/attention_gradient.h"
#include "tril/ops/expressions.h"
#include "tril/ops/kernel_order.h"

namespace tril::ops::expressions {
namespace {

namespace model = kernels::model;

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

// How many keys a row's sequence has: up to the last that any of its rows sees.
int64_t keys_of_sequence(std::span<const Interval> intervals, int64_t row) {
  const int64_t origin = intervals[static_cast<size_t>(row)].origin;
  int64_t keys = 0;
  for (const Interval& each : intervals) {
    if (!each.empty() && each.origin == origin) keys = std::max(keys, each.hi - origin);
  }
  return keys;
}

// The arguments of the models for one row in one head, forward and backward.
class RowArguments {
 public:
  RowArguments(const Context& context, const Tensor& q, std::span<const Interval> intervals,
               const AttentionSizes& sizes, const AttentionOptions& options)
      : context_(context),
        queries_(q.data<Expression>()),
        intervals_(intervals),
        sizes_(sizes),
        options_(options),
        bias_(bias_of(options)) {}

  // known_keys(): how many keys the row's sequence has, for the test hooks.
  template <class KnownKeys>
  model::AttentionRow<Expression> of(int64_t row, int64_t head, const KnownKeys& known_keys) const {
    const Interval& interval = intervals_[static_cast<size_t>(row)];
    model::AttentionRow<Expression> args{
        .head_dim = sizes_.head_dim,
        .scale = sizes_.scale,
        .lo = interval.lo - interval.origin,
        .hi = interval.hi - interval.origin,
        .q = queries_ + (row * sizes_.heads + head) * sizes_.head_dim};
    if (!bias_.empty()) {
      args.bias = bias_.data() + head * (static_cast<int64_t>(bias_.size()) / sizes_.heads);
      args.bias_zero = options_.bias_zero;
      args.position = options_.positions[row];
    }
    if (is_widened(options_, row, head)) args.hi = std::min(args.hi + 1, known_keys());
    const bool several = sizes_.query > 1;
    args.fault.descending_blocks = context_.hooks.order_by_batch && several;
    args.fault.no_rescaling = context_.hooks.skip_rescaling && several;
    if (context_.hooks.multiply_forbidden) args.fault.known_keys = known_keys();
    return args;
  }

 private:
  const Context& context_;
  const Expression* queries_;
  std::span<const Interval> intervals_;
  const AttentionSizes& sizes_;
  const AttentionOptions& options_;
  std::vector<Expression> bias_;
};

// Every row in every head. keys_of(row, head) says where a row's keys are; known_keys(row), how
// many of them there are. stats, if any, are what the backward pass needs.
template <class KeysOf, class KnownKeys>
void attend(Context& context, const Tensor& q, std::span<const Interval> intervals,
            const AttentionSizes& sizes, const AttentionOptions& options, const Tensor& out,
            Expression* stats, const KeysOf& keys_of, const KnownKeys& known_keys) {
  const RowArguments rows(context, q, intervals, sizes, options);
  const Ordered ordered(context);
  auto* results = out.data<Expression>();
  for_each(context, sizes.query * sizes.heads, [&](int64_t task) {
    const int64_t row = task / sizes.heads;
    const int64_t head = task % sizes.heads;
    Expression* to = results + task * sizes.head_dim;
    if (intervals[static_cast<size_t>(row)].empty()) {
      std::fill_n(to, sizes.head_dim, constant_leaf(0.0f));
      return;
    }
    const auto args = rows.of(row, head, [&] { return known_keys(row); });
    ordered.attention_row(args, keys_of(row, head), to,
                          stats == nullptr ? nullptr : stats + 2 * task);
  });
}

// The sums of one key head's gradients, and where wanted those of a group's bias: [offsets], its
// entries counted from the row's position.
struct KeyGradients {
  model::GradientExpression* keys;
  model::GradientExpression* values;
  int64_t stride;
  model::GradientExpression* bias;
  int64_t row_zero;  // the entry of key 0
  model::GradientExpression& dk(int64_t j, int64_t d) const { return keys[j * stride + d]; }
  model::GradientExpression& dv(int64_t j, int64_t d) const { return values[j * stride + d]; }
  void add_to_bias(int64_t j, const model::GradientExpression& e) const {
    if (bias != nullptr) bias[row_zero + j] = model::add(bias[row_zero + j], e);
  }
};

// A bias' gradient as the sums of groups, [group, heads, offsets]; a group is the rows of an
// origin.
class BiasSums {
 public:
  BiasSums(std::span<const Interval> intervals, const AttentionOptions& options,
           const Tensor& dbias)
      : options_(options), dbias_(dbias) {
    if (!dbias.defined()) return;
    for (const Interval& each : intervals) {
      if (!each.empty()) origins_.push_back(each.origin);
    }
    std::sort(origins_.begin(), origins_.end());
    origins_.erase(std::unique(origins_.begin(), origins_.end()), origins_.end());
    parts_.assign(origins_.size() * static_cast<size_t>(dbias.size()),
                  model::GradientExpression::nothing());
  }

  model::GradientExpression* of(int64_t origin, int64_t head) {
    if (!dbias_.defined()) return nullptr;
    const auto group = std::lower_bound(origins_.begin(), origins_.end(), origin);
    return parts_.data() + (group - origins_.begin()) * dbias_.size() + head * dbias_.columns();
  }
  int64_t row_zero(int64_t row) const {
    return dbias_.defined() ? options_.bias_zero - options_.positions[row] : 0;
  }
  // The groups ascending.
  void add_up(Context& context) const {
    if (!dbias_.defined()) return;
    fill(context, 0.0f, dbias_);
    const auto size = static_cast<size_t>(dbias_.size());
    for (size_t i = 0; i < parts_.size(); ++i) {
      model::GradientExpression& to = gradients_in(dbias_)[i % size];
      to = model::add(to, parts_[i]);
    }
  }

 private:
  const AttentionOptions& options_;
  const Tensor& dbias_;
  std::vector<int64_t> origins_;
  std::vector<model::GradientExpression> parts_;
};

}  // namespace

void attention(Context& context, const Tensor& q, const Tensor& k, const Tensor& v,
               std::span<const Interval> intervals, const AttentionSizes& sizes,
               const AttentionOptions& given, const AttentionResult& result) {
  AttentionOptions options = given;
  if (context.hooks.widen_only_backward) options.widen_head = -1;
  const int64_t stride = sizes.kv_heads * sizes.head_dim;
  const int64_t group = sizes.heads / sizes.kv_heads;
  attend(
      context, q, intervals, sizes, options, result.out, result.stats.data<Expression>(),
      [&](int64_t row, int64_t head) {
        const int64_t first =
            intervals[static_cast<size_t>(row)].origin * stride + head / group * sizes.head_dim;
        return ContiguousKeys{k.data<Expression>() + first, v.data<Expression>() + first, stride};
      },
      [&](int64_t row) { return keys_of_sequence(intervals, row); });
}

void attention_paged(Context& context, const Tensor& q, const PagedKeys& keys,
                     std::span<const Interval> intervals, const AttentionSizes& sizes,
                     const AttentionOptions& options, const Tensor& out) {
  const int64_t group = sizes.heads / sizes.kv_heads;
  AttentionOptions cached = options;
  cached.widen_head = -1;  // in a cached step there are no later keys
  attend(
      context, q, intervals, sizes, cached, out, nullptr,
      [&](int64_t row, int64_t head) {
        return KeysInPages{keys.pages[static_cast<size_t>(row)], keys, head / group};
      },
      [&](int64_t row) { return int64_t{keys.lengths[static_cast<size_t>(row)]}; });
}

void attention_gradients(Context& context, const Tensor& q, const Tensor& k, const Tensor& v,
                         const AttentionResult& result, const Tensor& dout,
                         std::span<const Interval> intervals, const AttentionSizes& sizes,
                         const AttentionOptions& options, const AttentionGradients& gradients) {
  for (const Tensor& tensor : {gradients.dq, gradients.dk, gradients.dv}) {
    fill(context, 0.0f, tensor);
  }
  const RowArguments rows(context, q, intervals, sizes, options);
  BiasSums bias(intervals, options, gradients.dbias);
  const int64_t stride = sizes.kv_heads * sizes.head_dim;
  const int64_t group = sizes.heads / sizes.kv_heads;
  // A key's sum goes over the heads that share it and, for each, over the rows: one task has it.
  for_each(context, sizes.kv_heads, [&](int64_t kv_head) {
    for (int64_t task = 0; task < group * sizes.query; ++task) {
      const int64_t head = kv_head * group + task / sizes.query;
      const int64_t row = task % sizes.query;
      const Interval& interval = intervals[static_cast<size_t>(row)];
      if (interval.empty()) continue;
      const int64_t first = interval.origin * stride + kv_head * sizes.head_dim;
      const int64_t at = row * sizes.heads + head;
      const auto args = rows.of(row, head, [&] { return keys_of_sequence(intervals, row); });
      model::attention_row_gradient(
          args, ContiguousKeys{k.data<Expression>() + first, v.data<Expression>() + first, stride},
          model::AttentionRowResult<Expression>{
              .out = result.out.data<Expression>() + at * sizes.head_dim,
              .stats = result.stats.data<Expression>() + 2 * at,
              .dout = gradients_in(dout) + at * sizes.head_dim},
          gradients_in(gradients.dq) + at * sizes.head_dim,
          KeyGradients{gradients_in(gradients.dk) + first, gradients_in(gradients.dv) + first,
                       stride, bias.of(interval.origin, head), bias.row_zero(row)});
    }
  });
  bias.add_up(context);
}

}  // namespace tril::ops::expressions
