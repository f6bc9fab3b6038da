// The forward operations on expressions (base/expression.h): the third kind of numbers, beside the
// CPU's and CUDA's. Arguments were checked and results allocated; the order-exact models of
// kernels/model do the rest, the CPU's or CUDA's as the context's expressions say. There are no
// gradients. For the sources of this folder.
#pragma once

#include <atomic>

#include "tril/ops/attention.h"
#include "tril/ops/attention_plan.h"
#include "tril/ops/rows.h"

namespace tril::ops::expressions {

// While it lives, operations made by this thread count as the context's.
class Counted {
 public:
  explicit Counted(Context& context)
      : total_(context.expressions->operations), before_(expressions_made) {}
  ~Counted() { total_.fetch_add(expressions_made - before_, std::memory_order_relaxed); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<int64_t>& total_;
  int64_t before_;
};

void add(Context& context, const Tensor& a, const Tensor& b, const Tensor& out);
// Sums of a product become activations: those are rounded where they are bf16 (KernelOrder).
void store_activations(Context& context, const Tensor& y);
void norm(Context& context, NormKind kind, float epsilon, const Tensor& x, const Tensor& weight,
          const Tensor& bias, const Tensor& y);
void embedding(Context& context, const Lookup& lookup, const Tensor& out);
void activation(Context& context, Activation kind, const Tensor& x, const Tensor& y);
void gated(Context& context, Activation kind, const Tensor& gate, const Tensor& x, const Tensor& y);
void rotary(Context& context, const Tensor& x, const Mirrored<int32_t>& positions,
            const Tensor& table, const Tensor& y);
void attention(Context& context, const Tensor& q, const Tensor& k, const Tensor& v,
               std::span<const Interval> intervals, const AttentionSizes& sizes,
               const AttentionOptions& options, const Tensor& out);
void attention_paged(Context& context, const Tensor& q, const PagedKeys& keys,
                     std::span<const Interval> intervals, const AttentionSizes& sizes,
                     const AttentionOptions& options, const Tensor& out);

}  // namespace tril::ops::expressions
