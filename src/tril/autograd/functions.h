// The differentiable functions: each calls its operation and, under a tape that tracks one of its
// inputs, records the rule that passes the gradient on. Without a tape they are the operations.
//
// Spans (ids, labels, intervals, positions) are kept by the rules and must live as long as the
// step: put them in the context's arena.
#pragma once

#include <span>

#include "tril/autograd/recording.h"
#include "tril/ops/attention.h"
#include "tril/ops/linear.h"
#include "tril/ops/loss.h"
#include "tril/ops/rows.h"

namespace tril::autograd {

Tensor add(Context& context, const Tensor& a, const Tensor& b);

Tensor scaled(Context& context, const Tensor& x, float factor);

// `linear` must live as long as the tape (models own theirs).
Tensor linear(Context& context, const Tensor& x, const ops::LinearWeight& linear);
// The same with its sums in fp32, as logits are.
Tensor logits(Context& context, const Tensor& x, const ops::LinearWeight& linear);
// ReLU of linear().
Tensor linear_relu(Context& context, const Tensor& x, const ops::LinearWeight& linear);
// Several layers on the same input in one operation, with the results and gradients of separate
// calls.
void linears(Context& context, const Tensor& x, std::span<const ops::LinearWeight* const> weights,
             std::span<Tensor> y);

Tensor norm(Context& context, ops::NormKind kind, float epsilon, const Tensor& x,
            const Tensor& weight, const Tensor& bias);

// norm(x + dropout(f)) as one operation with one rule and the bits of the three.
Tensor residual_norm(Context& context, ops::NormKind kind, float epsilon, const Tensor& x,
                     const Tensor& f, const ops::DropoutKey& key, const Tensor& weight,
                     const Tensor& bias);

Tensor embedding(Context& context, const ops::Lookup& lookup);

Tensor activation(Context& context, ops::Activation kind, const Tensor& x);
Tensor gated(Context& context, ops::Activation kind, const Tensor& gate, const Tensor& x);

// The identity when the probability is zero.
Tensor dropout(Context& context, const ops::DropoutKey& key, const Tensor& x);

Tensor rotary(Context& context, const Tensor& x, const Mirrored<int32_t>& positions,
              const Tensor& table);

// A new tensor [heads, offsets]: the bias that ops::relative_bias() makes. `bucket_of` must live as
// long as the tape.
Tensor relative_bias(Context& context, const Tensor& weight, std::span<const int32_t> bucket_of);

Tensor attention(Context& context, const Tensor& q, const Tensor& k, const Tensor& v,
                 const ops::AttentionPlan& plan, const ops::AttentionOptions& options);

// [1]: the factor times the sum of the rows' losses; `output` must live as long as the tape.
Tensor projected_loss(Context& context, const Tensor& x, const ops::LinearWeight& output,
                      const Mirrored<int32_t>& labels, const LossOptions& options);

}  // namespace tril::autograd
