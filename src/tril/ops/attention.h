// Masked multi-head attention: checks, the plan of runs, and the choice of kernel.
//
// q [query, heads, head_dim]; k, v [key, kv_heads, head_dim]; one Interval a query row.
// Spans given here are read during the call only.
#pragma once

#include <optional>
#include <span>

#include "tril/base/interval.h"
#include "tril/tensor/context.h"
#include "tril/tensor/tensor.h"

namespace tril::ops {

using AttentionPlan = Mirrored<Interval>;
inline AttentionPlan plan_attention(Context& context, std::span<const Interval> intervals) {
  return {intervals, context.uploaded(intervals)};
}

struct AttentionOptions {
  std::optional<float> scale{};  // absent: 1 / sqrt(head_dim)
  // Bias [heads, offsets], entry bias_zero + key - position, with both counted from the origin;
  // a constant: it has no gradient.
  Tensor bias;
  int64_t bias_zero = 0;
  Mirrored<int32_t> positions;  // [query], from the row's origin; needed with a bias
  // Test hook, see TestHooks.
  int widen_head = -1;
  int64_t widen_row = -1;
};

struct AttentionResult {
  Tensor out;    // [query, heads, head_dim]
  Tensor stats;  // [query, heads, 2], what the backward pass needs
};
AttentionResult attention(Context& context, const Tensor& q, const Tensor& k, const Tensor& v,
                          const Mirrored<Interval>& intervals, const AttentionOptions& options);

struct AttentionGradients {
  Tensor dq, dk, dv;
};
// Neither end of the intervals may decrease over the rows of a sequence, and sequences of
// different origins may share no key.
AttentionGradients attention_gradients(Context& context, const Tensor& q, const Tensor& k,
                                       const Tensor& v, const AttentionResult& result,
                                       const Tensor& dout, const Mirrored<Interval>& intervals,
                                       const AttentionOptions& options);

// Keys and values in the pages of a cache: row r's sequence has its 16-key tiles in pages[r].
struct PagedKeys {
  std::span<const float* const* const> pages;  // [query]; null for a row with an empty interval
  std::span<const int32_t> lengths;            // [query]: keys stored in the row's sequence
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t keys_offset = 0;    // in a page: [kv_heads, head_dim, 16]
  int64_t values_offset = 0;  // in a page: [kv_heads, 16, head_dim]
  // On CUDA instead of pages: key j of row r is entry table[r * table_stride + j], kv_stride
  // elements apart, [kv_heads, head_dim] each.
  const void* keys = nullptr;
  const void* values = nullptr;
  int64_t kv_stride = 0;
  Mirrored<int32_t> table{};
  int64_t table_stride = 0;
};
// Intervals count positions of the row's sequence: their origin is 0.
Tensor attention_paged(Context& context, const Tensor& q, const PagedKeys& keys,
                       const Mirrored<Interval>& intervals, const AttentionOptions& options);

}  // namespace tril::ops
