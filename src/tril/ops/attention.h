// Masked multi-head attention: checks, the plan of runs, and the choice of kernel.
//
// q [query, heads, head_dim]; k, v [key, kv_heads, head_dim]; one Interval per query row. Rows of q
// and of k and v may lie apart on CUDA; gradients of column slices of one matrix are again slices
// of one matrix. Spans given here are read during the call only.
#pragma once

#include <concepts>
#include <optional>
#include <span>

#include "tril/base/interval.h"
#include "tril/tensor/context.h"
#include "tril/tensor/tensor.h"

namespace tril::ops {

// The mask of a call, one interval per query row, and with plan_attention() the lists of work that
// a device reads, so that all layers of a step share them. A view: the intervals must live as long.
// Plain intervals can be used as well; each call then makes its own plan.
class AttentionPlan {
 public:
  AttentionPlan() = default;
  template <class T>
  // NOLINTNEXTLINE: a view, as a span is
  requires std::convertible_to<const T&, Mirrored<Interval>> AttentionPlan(const T& intervals)
      : intervals_(intervals) {}

  const Mirrored<Interval>& intervals() const { return intervals_; }

  // The prepared lists, for operations; null if there are none.
  struct Lists;
  // Raises if they belong to a step that has ended.
  const Lists* lists() const;

 private:
  friend AttentionPlan plan_attention(Context& context, const Mirrored<Interval>& intervals);
  Mirrored<Interval> intervals_;
  const Lists* lists_ = nullptr;
  Ticket ticket_;
};
// Valid until the step ends. Under a tape the lists of the backward pass are made too.
AttentionPlan plan_attention(Context& context, const Mirrored<Interval>& intervals);

struct AttentionOptions {
  std::optional<float> scale{};  // absent: 1 / sqrt(head_dim)
  // Bias [heads, offsets], entry bias_zero + key - position, with both counted from the origin.
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
                          const AttentionPlan& plan, const AttentionOptions& options);

// Whether attention_gradients() computes the gradient of a bias there: on the CPU.
bool has_bias_gradient(const Placement& placement);

enum class BiasGradient { none, wanted };
struct AttentionGradients {
  Tensor dq, dk, dv;
  Tensor dbias{};  // [heads, offsets] where wanted
};
// Neither end of the intervals may decrease over the rows of a sequence, and sequences of different
// origins must not share a key.
AttentionGradients attention_gradients(Context& context, const Tensor& q, const Tensor& k,
                                       const Tensor& v, const AttentionResult& result,
                                       const Tensor& dout, const AttentionPlan& plan,
                                       const AttentionOptions& options,
                                       BiasGradient wanted = BiasGradient::none);

// Keys and values in a cache: in pages on the CPU, through a table on CUDA.
struct PagedKeys {
  // Pages: row r's sequence has its 16-key tiles in pages[r].
  std::span<const float* const* const> pages{};  // [query]; null for a row with an empty interval
  std::span<const int32_t> lengths{};            // [query]: keys stored in the row's sequence
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t keys_offset = 0;    // in a page: [kv_heads, head_dim, 16]
  int64_t values_offset = 0;  // in a page: [kv_heads, 16, head_dim]
  // A table: key j of row r's sequence is entry table[r * table_stride + j] of `keys` and `values`,
  // which are [entry, kv_heads, head_dim] of the type of activations, entries entry_stride apart.
  // It may exist on the device only. Entries are not checked.
  const void* keys = nullptr;
  const void* values = nullptr;
  int64_t entry_stride = 0;
  Mirrored<int32_t> table{};  // [query, table_stride]
  int64_t table_stride = 0;
  // [query] or empty: consecutive rows with the same number read the table row of the first of them
  // together. If empty, each row reads its own, and its interval is read on the device.
  std::span<const int32_t> sequences{};
  // On CUDA: keys and values of this call's rows [query, kv_heads, head_dim] that are not yet
  // entries of the table: row r's become fresh_entries[r] (-1: none) before anything is read.
  Tensor fresh_keys{}, fresh_values{};
  Mirrored<int32_t> fresh_entries{};
  // Everything else in the table was written before the step's embeddings were looked up, so that
  // it may be read while earlier kernels are running (kernels/cuda/launch.cuh).
  bool rests = false;
};
// Intervals count positions of the row's sequence: their origin is 0.
Tensor attention_paged(Context& context, const Tensor& q, const PagedKeys& keys,
                       const AttentionPlan& plan, const AttentionOptions& options);

}  // namespace tril::ops
