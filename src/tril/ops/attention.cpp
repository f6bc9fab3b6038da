#include "tril/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tril/kernels/attention.h"
#include "tril/ops/attention_plan.h"
#include "tril/ops/cuda_attention.h"
#include "tril/ops/expressions.h"
#include "tril/ops/on_cuda.h"
#include "tril/tensor/mask.h"

namespace tril::ops {
namespace {

using kernels::AttentionRun;
using kernels::AttentionShape;

// Checks that both halves share.
AttentionSizes sizes_of(const Tensor& q, int64_t kv_heads, const Mirrored<Interval>& intervals,
                        const AttentionOptions& options) {
  require(q.shape().rank() == 3, ErrorCode::shape_mismatch,
          "attention: queries must be [query, heads, head_dim], got ", q.shape());
  const int64_t heads = q.shape()[1];
  const int64_t head_dim = q.shape()[2];
  require(heads >= 1 && head_dim >= 1 && kv_heads >= 1, ErrorCode::shape_mismatch,
          "attention: queries are ", q.shape(), " with ", kv_heads, " key heads: none may be zero");
  require(heads % kv_heads == 0, ErrorCode::shape_mismatch, "attention: queries have ", heads,
          " heads, keys ", kv_heads, ": queries must be a multiple");
  require(intervals.size() == q.shape()[0], ErrorCode::shape_mismatch, "attention: ", q.shape()[0],
          " query rows but ", intervals.size(), " intervals");
  if (options.bias.defined()) {
    require(options.bias.shape().rank() == 2 && options.bias.shape()[0] == heads,
            ErrorCode::shape_mismatch, "attention: the bias must be [", heads, ", offsets], got ",
            options.bias.shape());
    require(options.positions.size() == intervals.size(), ErrorCode::shape_mismatch,
            "attention: a bias needs ", intervals.size(), " positions, got ",
            options.positions.size());
    const int64_t offsets = options.bias.shape()[1];
    for (int64_t row = 0; row < intervals.size(); ++row) {
      const Interval& at = intervals[row];
      if (at.empty()) continue;
      const int64_t zero = options.bias_zero - options.positions[row];
      require(zero + at.lo - at.origin >= 0 && zero + at.hi - at.origin <= offsets,
              ErrorCode::invalid_argument, "attention: row ", row, " at position ",
              options.positions[row], " sees keys whose distance is outside the bias of ", offsets,
              " offsets");
    }
  }
  return {.query = q.shape()[0],
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .scale = options.scale.value_or(1.0f / std::sqrt(static_cast<float>(head_dim)))};
}

// A prepared plan was already checked, except for the number of keys.
void check_keys_seen(const AttentionPlan& plan, int64_t keys) {
  if (plan.lists() != nullptr && plan.lists()->keys_needed <= keys) return;
  check_within(plan.intervals().host, keys);
}

AttentionShape shape_on_cpu(const Context& context, const AttentionSizes& sizes,
                            const AttentionOptions& options) {
  AttentionShape shape{
      .heads = sizes.heads, .kv_heads = sizes.kv_heads, .head_dim = sizes.head_dim};
  shape.scale = sizes.scale;
  shape.widen_head = options.widen_head;
  shape.widen_row = options.widen_row;
  shape.descending_blocks = context.hooks.order_by_batch && sizes.query > 1;
  if (options.bias.defined()) {
    shape.bias = options.bias.data();
    shape.bias_offsets = options.bias.shape()[1];
    shape.bias_zero = options.bias_zero;
    shape.positions = options.positions.host.data();
  }
  return shape;
}

// Cuts the rows into runs of at most `most_rows`, each of one sequence; a row with an empty
// interval is in none. They lie in `host`. `same(a, b)` says whether two rows have their keys in
// the same place.
template <class Same>
std::span<AttentionRun> plan_runs(Arena& host, std::span<const Interval> intervals,
                                  int64_t most_rows, const Same& same) {
  const auto rows = static_cast<int64_t>(intervals.size());
  auto* runs = host.allocate_array<AttentionRun>(rows);
  const auto at = [&](int64_t row) -> const Interval& {
    return intervals[static_cast<size_t>(row)];
  };
  int64_t run_count = 0;
  for (int64_t row = 0; row < rows;) {
    if (at(row).empty()) {
      ++row;
      continue;
    }
    AttentionRun sequence{.row_begin = row, .origin = at(row).origin};
    for (; row < rows && !at(row).empty() && at(row).origin == sequence.origin &&
           same(sequence.row_begin, row);
         ++row) {
      sequence.keys = std::max<int64_t>(sequence.keys, at(row).hi - sequence.origin);
    }
    sequence.row_end = row;
    while (sequence.row_end - sequence.row_begin > most_rows) {
      AttentionRun run = sequence;
      sequence.row_begin += most_rows;
      run.row_end = sequence.row_begin;
      runs[run_count++] = run;
    }
    runs[run_count++] = sequence;
  }
  return {runs, static_cast<size_t>(run_count)};
}

constexpr auto kSamePlace = [](int64_t, int64_t) { return true; };

int64_t check_keys(const Tensor& q, const Tensor& k, const Tensor& v) {
  require(k.shape().rank() == 3 && k.shape() == v.shape(), ErrorCode::shape_mismatch,
          "attention: keys and values must be equal [key, heads, head_dim], got ", k.shape(),
          " and ", v.shape());
  require(q.shape().rank() != 3 || k.shape()[2] == q.shape()[2], ErrorCode::shape_mismatch,
          "attention: queries have head_dim ", q.shape()[2], ", keys ", k.shape()[2]);
  return k.shape()[0];
}

void zero_rows(const Tensor& tensor, int64_t begin, int64_t end) {
  const int64_t width = tensor.shape()[1] * tensor.shape()[2];
  std::fill(tensor.data() + begin * width, tensor.data() + end * width, 0.0f);
}

void zero_empty_rows(const Tensor& out, std::span<const Interval> intervals) {
  for (size_t row = 0; row < intervals.size(); ++row) {
    if (intervals[row].empty())
      zero_rows(out, static_cast<int64_t>(row), static_cast<int64_t>(row) + 1);
  }
}

void check_table(const PagedKeys& keys, const AttentionSizes& sizes) {
  const int64_t rows = sizes.query;
  require(
      rows == 0 || keys.table.device != nullptr || keys.table.size() == rows * keys.table_stride,
      ErrorCode::shape_mismatch, "attention: a table of ", keys.table.size(), " entries for ", rows,
      " rows of ", keys.table_stride);
  const bool any = std::any_of(keys.lengths.begin(), keys.lengths.end(),
                               [](int32_t length) { return length > 0; });
  require(!any || (keys.keys != nullptr && keys.values != nullptr), ErrorCode::invalid_argument,
          "attention: the cache has no keys on this device");
  const int64_t width = sizes.kv_heads * sizes.head_dim;
  require(keys.entry_stride >= width, ErrorCode::shape_mismatch,
          "attention: entries of a cache lie ", keys.entry_stride, " apart, keys have ", width,
          " numbers");
  for (size_t row = 0; row < keys.lengths.size(); ++row) {
    require(keys.lengths[row] <= keys.table_stride, ErrorCode::invalid_argument, "attention: row ",
            row, " has ", keys.lengths[row], " keys, its table room for ", keys.table_stride);
  }
  require(keys.sequences.empty() || static_cast<int64_t>(keys.sequences.size()) == rows,
          ErrorCode::shape_mismatch, "attention: ", rows, " rows, but sequences for ",
          keys.sequences.size());
}

void run_forward(Context& context, kernels::AttentionForward forward,
                 std::span<const AttentionRun> runs) {
  forward.runs = runs.data();
  forward.run_count = static_cast<int64_t>(runs.size());
  forward.workspace = context.arena.allocate_array<float>(
      kernels::attention_forward_workspace(context.parallel, forward.shape.head_dim));
  kernels::attention_forward(context.parallel, forward);
}

}  // namespace

bool has_bias_gradient(const Placement& placement) { return !on_gpu(placement.device); }

const AttentionPlan::Lists* AttentionPlan::lists() const {
  require(lists_ == nullptr || is_current(ticket_), ErrorCode::invalid_argument,
          "attention: the plan is of a step that has ended");
  return lists_;
}

AttentionPlan plan_attention(Context& context, const Mirrored<Interval>& intervals) {
  AttentionPlan plan(intervals);
  const auto on_cpu = [] {};  // kernels need no lists there
  dispatch(context, on_cpu, [&] {
    const Passes passes = context.tape != nullptr ? Passes::both : Passes::forward;
    auto* lists = context.host.allocate_array<AttentionPlan::Lists>(1);
    *lists = cuda_attention_lists(context, intervals, passes);
    plan.lists_ = lists;
    plan.ticket_ = context.host.ticket();
  });
  return plan;
}

namespace {

AttentionResult attention_on_cpu(Context& context, const Tensor& q, const Tensor& k,
                                 const Tensor& v, const Mirrored<Interval>& intervals,
                                 const AttentionSizes& sizes, const AttentionOptions& options) {
  AttentionResult result{Tensor(context.arena, q.shape()),
                         Tensor(context.arena, {sizes.query, sizes.heads, 2})};
  zero_empty_rows(result.out, intervals.host);
  const Arena::Scope scratch(context.arena);
  const Arena::Scope host_scratch(context.host);
  kernels::AttentionForward forward;
  forward.shape = shape_on_cpu(context, sizes, options);
  forward.intervals = intervals.host.data();
  forward.store.keys = k.data();
  forward.store.values = v.data();
  forward.q = q.data();
  forward.out = result.out.data();
  forward.stats = result.stats.data();
  run_forward(context, forward,
              plan_runs(context.host, intervals.host, kernels::kRunRows, kSamePlace));
  return result;
}

// The entries of the bias that the rows meet: [first, end). One more at the end, for the test hook
// that widens intervals.
std::pair<int64_t, int64_t> offsets_used(std::span<const Interval> intervals,
                                         const AttentionOptions& options) {
  int64_t first = options.bias_zero, end = options.bias_zero;
  for (size_t row = 0; row < intervals.size(); ++row) {
    const Interval& at = intervals[row];
    if (at.empty()) continue;
    const int64_t zero = options.bias_zero - options.positions[static_cast<int64_t>(row)];
    first = std::min(first, zero + at.lo - at.origin);
    end = std::max(end, zero + at.hi - at.origin + 1);
  }
  return {first, end};
}

AttentionGradients attention_gradients_on_cpu(
    Context& context, const Tensor& q, const Tensor& k, const Tensor& v,
    const AttentionResult& result, const Tensor& dout, const Mirrored<Interval>& intervals,
    const AttentionSizes& sizes, const AttentionOptions& options, BiasGradient wanted) {
  const Arena::Scope host_scratch(context.host);
  const std::span<AttentionRun> runs =
      plan_runs(context.host, intervals.host, std::numeric_limits<int64_t>::max(), kSamePlace);
  sort_by_origin(runs);
  if (const auto problem = backward_problem(intervals.host, runs))
    fail(ErrorCode::invalid_argument, *problem);

  AttentionGradients gradients{Tensor(context.arena, q.shape()), Tensor(context.arena, k.shape()),
                               Tensor(context.arena, v.shape())};
  if (wanted == BiasGradient::wanted) {
    gradients.dbias = Tensor(context.arena, options.bias.shape());
  }
  const Arena::Scope scratch(context.arena);
  auto* groups = context.host.allocate_array<int64_t>(static_cast<int64_t>(runs.size()) + 1);
  int64_t group_count = 0;
  int64_t keys_end = 0;  // of all groups so far
  for (size_t r = 0; r < runs.size(); ++r) {
    if (r == 0 || runs[r].origin != runs[r - 1].origin) {
      zero_rows(gradients.dk, keys_end, runs[r].origin);
      zero_rows(gradients.dv, keys_end, runs[r].origin);
      groups[group_count++] = static_cast<int64_t>(r);
    }
    keys_end = std::max(keys_end, runs[r].origin + runs[r].keys);
  }
  groups[group_count] = static_cast<int64_t>(runs.size());
  zero_rows(gradients.dk, keys_end, k.shape()[0]);
  zero_rows(gradients.dv, keys_end, k.shape()[0]);
  zero_empty_rows(gradients.dq, intervals.host);

  kernels::AttentionBackward backward;
  backward.shape = shape_on_cpu(context, sizes, options);
  backward.runs = runs.data();
  backward.groups = groups;
  backward.group_count = group_count;
  backward.intervals = intervals.host.data();
  backward.q = q.data();
  backward.k = k.data();
  backward.v = v.data();
  backward.out = result.out.data();
  backward.stats = result.stats.data();
  backward.dout = dout.data();
  backward.dq = gradients.dq.data();
  backward.dk = gradients.dk.data();
  backward.dv = gradients.dv.data();
  if (wanted == BiasGradient::wanted) {
    const auto [first, end] = offsets_used(intervals.host, options);
    const auto [part, width] = kernels::bias_range_for(first, end);
    backward.dbias = gradients.dbias.data();
    backward.bias_first = part;
    backward.bias_width = width;
    backward.bias_parts = context.arena.allocate_array<float>(group_count * sizes.heads * width);
  }
  backward.delta = context.arena.allocate_array<float>(sizes.query * sizes.heads);
  backward.workspace = context.arena.allocate_array<float>(
      kernels::attention_backward_workspace(context.parallel, sizes.head_dim));
  kernels::attention_backward(context.parallel, backward);
  return gradients;
}

Tensor attention_paged_on_cpu(Context& context, const Tensor& q, const PagedKeys& keys,
                              const Mirrored<Interval>& intervals, const AttentionSizes& sizes,
                              const AttentionOptions& options) {
  require(keys.pages.size() == intervals.host.size(), ErrorCode::shape_mismatch,
          "attention: ", intervals.size(), " rows, but pages for ", keys.pages.size());
  Tensor out(context.arena, q.shape());
  zero_empty_rows(out, intervals.host);
  const Arena::Scope scratch(context.arena);
  const Arena::Scope host_scratch(context.host);
  const auto pages = [&](int64_t row) { return keys.pages[static_cast<size_t>(row)]; };
  const std::span<AttentionRun> runs =
      plan_runs(context.host, intervals.host, kernels::kRunRows,
                [&](int64_t a, int64_t b) { return pages(a) == pages(b); });
  for (AttentionRun& run : runs) run.pages = pages(run.row_begin);
  kernels::AttentionForward forward;
  forward.shape = shape_on_cpu(context, sizes, options);
  forward.intervals = intervals.host.data();
  forward.store.page_keys = keys.keys_offset;
  forward.store.page_values = keys.values_offset;
  forward.q = q.data();
  forward.out = out.data();
  run_forward(context, forward, runs);
  return out;
}

}  // namespace

AttentionResult attention(Context& context, const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionPlan& plan, const AttentionOptions& options) {
  const Mirrored<Interval>& intervals = plan.intervals();
  const int64_t keys = check_keys(q, k, v);
  const AttentionSizes sizes = sizes_of(q, k.shape()[1], intervals, options);
  check_keys_seen(plan, keys);
  return dispatch(
      context, [&] { return attention_on_cpu(context, q, k, v, intervals, sizes, options); },
      [&] { return cuda_attention(context, q, k, v, plan, sizes, options); },
      [&] {
        const AttentionResult result{
            Tensor(context.arena, q.shape(), q.dtype()),
            Tensor(context.arena, {sizes.query, sizes.heads, 2}, q.dtype())};
        expressions::attention(context, q, k, v, intervals.host, sizes, options, result);
        return result;
      });
}

AttentionGradients attention_gradients(Context& context, const Tensor& q, const Tensor& k,
                                       const Tensor& v, const AttentionResult& result,
                                       const Tensor& dout, const AttentionPlan& plan,
                                       const AttentionOptions& options, BiasGradient wanted) {
  const Mirrored<Interval>& intervals = plan.intervals();
  const int64_t keys = check_keys(q, k, v);
  const AttentionSizes sizes = sizes_of(q, k.shape()[1], intervals, options);
  check_keys_seen(plan, keys);
  require(dout.size() == q.size() && result.out.shape() == q.shape(), ErrorCode::shape_mismatch,
          "attention gradient: the output's gradient is ", dout.shape(), ", expected ", q.shape());
  const bool of_bias = wanted == BiasGradient::wanted;
  require(!of_bias || options.bias.defined(), ErrorCode::invalid_argument,
          "attention gradient: of a bias, but there is none");
  require(!of_bias || has_bias_gradient(context.placement()), ErrorCode::unsupported,
          "attention gradient: a learnt position bias has one on the CPU only");
  return dispatch(
      context,
      [&] {
        return attention_gradients_on_cpu(context, q, k, v, result, dout, intervals, sizes, options,
                                          wanted);
      },
      [&] {
        return cuda_attention_gradients(context, q, k, v, result, dout, plan, sizes, options);
      },
      [&] {
        AttentionGradients gradients{Tensor(context.arena, q.shape(), q.dtype()),
                                     Tensor(context.arena, k.shape(), k.dtype()),
                                     Tensor(context.arena, v.shape(), v.dtype())};
        if (of_bias) {
          gradients.dbias = Tensor(context.arena, options.bias.shape(), options.bias.dtype());
        }
        expressions::attention_gradients(context, q, k, v, result, dout, intervals.host, sizes,
                                         options, gradients);
        return gradients;
      });
}

Tensor attention_paged(Context& context, const Tensor& q, const PagedKeys& keys,
                       const AttentionPlan& plan, const AttentionOptions& options) {
  const Mirrored<Interval>& intervals = plan.intervals();
  const AttentionSizes sizes = sizes_of(q, keys.kv_heads, intervals, options);
  require(keys.head_dim == sizes.head_dim, ErrorCode::shape_mismatch,
          "attention: queries have head_dim ", sizes.head_dim, ", the cache ", keys.head_dim);
  require(keys.lengths.size() == intervals.host.size(), ErrorCode::shape_mismatch,
          "attention: ", intervals.size(), " rows, but lengths for ", keys.lengths.size());
  const Shape fresh{sizes.query, sizes.kv_heads, sizes.head_dim};
  require(!keys.fresh_keys.defined() ||
              (keys.fresh_keys.shape() == fresh && keys.fresh_values.shape() == fresh &&
               keys.fresh_entries.size() == sizes.query),
          ErrorCode::shape_mismatch, "attention: fresh keys ", keys.fresh_keys.shape(),
          " and values ", keys.fresh_values.shape(), " for ", keys.fresh_entries.size(),
          " entries, expected ", fresh);
  for (size_t row = 0; row < intervals.host.size(); ++row) {
    const Interval& at = intervals.host[row];
    require(at.empty() || (at.origin == 0 && at.lo >= 0 && at.hi <= keys.lengths[row]),
            ErrorCode::invalid_argument, "attention: row ", row, " sees [", at.lo, ", ", at.hi,
            ") but its cache holds ", keys.lengths[row], " keys");
  }
  return dispatch(
      context, [&] { return attention_paged_on_cpu(context, q, keys, intervals, sizes, options); },
      [&] {
        check_table(keys, sizes);
        return cuda_attention_paged(context, q, keys, plan, sizes, options);
      },
      [&] {
        Tensor out(context.arena, q.shape(), q.dtype());
        expressions::attention_paged(context, q, keys, intervals.host, sizes, options, out);
        return out;
      });
}

}  // namespace tril::ops
