// The operations on expressions (base/expression.h): the third kind of numbers, beside the CPU's
// and CUDA's. Arguments were checked and results allocated; the order-exact models of kernels/model
// do the rest, the CPU's or CUDA's as the context's expressions say; gradients are the CPU's alone.
// For the sources of this folder.
//
// Gradients are expressions, too, in which rows without a label are zeros of a kind of their own
// (kernels/model/gradient.h, which states what that assumes).
#pragma once

#include <atomic>

#include "tril/kernels/model/gradient.h"
#include "tril/ops/attention.h"
#include "tril/ops/attention_plan.h"
#include "tril/ops/loss.h"
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

// f(task) for every task, with its operations counted.
template <class F>
void for_each(Context& context, int64_t tasks, const F& f) {
  context.parallel(tasks, [&](int64_t task) {
    const Counted counted(context);
    f(task);
  });
}

// One entry of a table, which is learnt or given in numbers.
inline Expression entry_of(const Tensor& table, int64_t index) {
  return table.dtype() == DType::expression ? table.data<Expression>()[index]
                                            : constant_leaf(table.data()[index]);
}

// A tensor's expressions as gradients.
inline kernels::model::GradientExpression* gradients_in(const Tensor& tensor) {
  return reinterpret_cast<kernels::model::GradientExpression*>(tensor.data<Expression>());
}

// ---- forward; add(), scaled() and fill() serve gradients as well
void add(Context& context, const Tensor& a, const Tensor& b, const Tensor& out);
void scaled(Context& context, const Tensor& x, float factor, const Tensor& out);
void fill(Context& context, float value, const Tensor& out);
// Sums of a product become activations: those are rounded where they are bf16 (OperationOrder).
void store_activations(Context& context, const Tensor& y);
void norm(Context& context, NormKind kind, float epsilon, const Tensor& x, const Tensor& weight,
          const Tensor& bias, const NormResult& result);
void embedding(Context& context, const Lookup& lookup, const Tensor& out);
void activation(Context& context, Activation kind, const Tensor& x, const Tensor& y);
void gated(Context& context, Activation kind, const Tensor& gate, const Tensor& x, const Tensor& y);
void rotary(Context& context, Turn turn, const Tensor& x, const Mirrored<int32_t>& positions,
            const Tensor& table, const Tensor& y);
void attention(Context& context, const Tensor& q, const Tensor& k, const Tensor& v,
               std::span<const Interval> intervals, const AttentionSizes& sizes,
               const AttentionOptions& options, const AttentionResult& result);
void attention_paged(Context& context, const Tensor& q, const PagedKeys& keys,
                     std::span<const Interval> intervals, const AttentionSizes& sizes,
                     const AttentionOptions& options, const Tensor& out);

// ---- gradients
void scale_by(Context& context, const Tensor& factor, const Tensor& x);
void norm_gradients(Context& context, NormKind kind, float epsilon, const Tensor& x,
                    const Tensor& weight, const Tensor& stats, const Tensor& dy,
                    const NormGradients& gradients);
void embedding_gradient(Context& context, const Mirrored<int32_t>& ids, float scale,
                        const Tensor& dout, const Tensor& dtable);
void activation_gradient(Context& context, Activation kind, const Tensor& x, const Tensor& dy,
                         const Tensor& dx);
void gated_gradients(Context& context, Activation kind, const Tensor& gate, const Tensor& x,
                     const Tensor& dy, const GatedGradients& gradients);
void weight_gradient(Context& context, const Tensor& dy, const Tensor& x, SliceOfSum slice,
                     const Tensor& dw);
void bias_gradient(Context& context, const Tensor& dy, SliceOfSum slice, const Tensor& db);
void attention_gradients(Context& context, const Tensor& q, const Tensor& k, const Tensor& v,
                         const AttentionResult& result, const Tensor& dout,
                         std::span<const Interval> intervals, const AttentionSizes& sizes,
                         const AttentionOptions& options, const AttentionGradients& gradients);

// ---- the loss of a slice of rows: losses [row] and, where they are wanted, the gradients of the
// logits in their place, for a loss whose own gradient is 1
void cross_entropy(Context& context, const Tensor& logits, std::span<const int32_t> labels,
                   const LossOptions& options, LossGradients wanted, const Tensor& losses);
void total_loss(Context& context, const Tensor& losses, float factor, const Tensor& loss);

}  // namespace tril::ops::expressions
