// The order-exact model of a kernel on expressions, by whose kernels are meant (OperationOrder).
// For the sources of this folder.
#pragma once

#include "tril/kernels/model/cuda_attention.h"
#include "tril/kernels/model/cuda_linear.h"
#include "tril/kernels/model/cuda_rows.h"
#include "tril/kernels/model/linear.h"
#include "tril/tensor/context.h"

namespace tril::ops::expressions {

class Ordered {
 public:
  explicit Ordered(const Context& context) : order_(context.expressions->order) {}

  // A result as kernels store it: on CUDA activations may be bf16.
  Expression stored(const Expression& x) const {
    return order_ == OperationOrder::cuda_bf16 ? kernels::model::round_to_bf16(x) : x;
  }
  void norm_row(const kernels::model::NormOf<Expression>& n, const Expression* x, Expression* y,
                Expression* stats) const {
    if (order_ == OperationOrder::cpu) return kernels::model::norm_row(n, x, y, stats);
    kernels::model::cuda_norm_row(n, x, y, stats);
    store(y, n.columns);
  }
  Expression activated(kernels::Activation kind, const Expression& x) const {
    if (order_ == OperationOrder::cpu) return kernels::model::activated(kind, x);
    return stored(kernels::model::cuda_activated(kind, x));
  }
  Expression gated(kernels::Activation kind, const Expression& gate, const Expression& x) const {
    if (order_ == OperationOrder::cpu) return kernels::model::gated(kind, gate, x);
    return stored(kernels::model::cuda_gated(kind, gate, x));
  }
  void rotated_head(int64_t head_dim, const float* cosines, const Expression* x,
                    Expression* y) const {
    kernels::model::rotated_head(head_dim, cosines, cosines + head_dim / 2, x, y);
    store(y, head_dim);
  }
  // stats, if any, are for gradients.
  template <class Keys>
  void attention_row(const kernels::model::AttentionRow<Expression>& row, const Keys& keys,
                     Expression* out, Expression* stats) const {
    switch (order_) {
      case OperationOrder::cpu: return kernels::model::attention_row(row, keys, out, stats);
      case OperationOrder::cuda_fp32:
        return kernels::model::cuda_attention_row(row, keys, out, stats);
      case OperationOrder::cuda_bf16:
        return kernels::model::tensor_core_attention_row(row, keys, out, stats);
    }
  }
  // Sums as they are, without a bias: a [rows, terms], weight(c, k), sums [rows, columns].
  template <class Weight>
  void product(const Expression* a, int64_t rows, int64_t terms, int64_t columns,
               const Weight& weight, Expression* sums) const {
    if (order_ == OperationOrder::cuda_bf16) {
      return kernels::model::tensor_core_product(a, rows, terms, columns, weight, sums);
    }
    kernels::model::product(a, rows, terms, columns, weight, sums);
  }

 private:
  void store(Expression* y, int64_t count) const {
    if (order_ != OperationOrder::cuda_bf16) return;
    for (int64_t i = 0; i < count; ++i) y[i] = stored(y[i]);
  }

  OperationOrder order_;
};

}  // namespace tril::ops::expressions
