// Linear layers: y = x Wᵀ + b, with the weight in one of the forms of weight_form.h.
//
// Operations check everything, allocate their result from the context's arena and call a kernel.
// None returns a value to the host, so on a device they only enqueue.
#pragma once

#include <span>

#include "tril/ops/weight_form.h"
#include "tril/tensor/context.h"
#include "tril/tensor/tensor.h"

namespace tril::ops {

// On CUDA weights are padded with zeros to multiples of this.
constexpr int64_t kWeightPadding = 64;
constexpr int64_t padded_size(int64_t size) {
  return (size + kWeightPadding - 1) / kWeightPadding * kWeightPadding;
}

// [rows, in] -> [rows, out]. As activations, rounded to their type; as the fp32 sums themselves, as
// for logits; or as sums in rows padded to a multiple of 64 columns on CUDA, with which large
// products are fastest: what follows the first `out` columns of such a row has no meaning.
enum class LinearOutput { activation, sums, padded_sums };
Tensor linear(Context& context, const Tensor& x, const LinearWeight& linear,
              LinearOutput output = LinearOutput::activation);
// Whether one product with all of these is possible: if they are packed one after the other in
// memory (nn::ParameterSet::Stack), in a form that supports it.
bool are_stacked(const Context& context, std::span<const LinearWeight* const> weights);
// ReLU of linear(), with the bits of the two operations. Whether it is one product here:
bool has_linear_relu(const Context& context, const LinearWeight& linear);
Tensor linear_relu(Context& context, const Tensor& x, const LinearWeight& linear);
// Several weights on the same input in one operation: y[i] = linear(x, weights[i]), with the same
// bits. With stacked weights y are column slices of one matrix, whose rows lie apart
// (tensor/tensor.h).
void linears(Context& context, const Tensor& x, std::span<const LinearWeight* const> weights,
             std::span<Tensor> y);
// Gradients accept a dy whose rows lie apart.
// The gradient of x: dy W.
Tensor linear_input_gradient(Context& context, const Tensor& dy, const LinearWeight& linear);
// The same for stacked weights, with dy of all of them side by side: one sum over all outputs.
Tensor linears_input_gradient(Context& context, const Tensor& dy,
                              std::span<const LinearWeight* const> weights);
// dx += dy W, for one weight or stacked ones, with the bits of the product and a sum.
void add_linear_input_gradient(Context& context, const Tensor& dy,
                               std::span<const LinearWeight* const> weights, const Tensor& dx);
// The gradient of W: dyᵀ x, summed over tokens in slices.
Tensor linear_weight_gradient(Context& context, const Tensor& dy, const Tensor& x);
// The gradient of b: the column sums of dy.
Tensor linear_bias_gradient(Context& context, const Tensor& dy);

// The same into existing memory, for callers that have the rows slice by slice: a slice is at most
// kernels::kTokenSlice rows (on CUDA any number), and further slices are added to the first. On
// CUDA rows of dy may be padded to round_up(out, 64) columns, with zeros after the first `out`.
void linear_input_gradient_into(Context& context, const Tensor& dy, const LinearWeight& linear,
                                const Tensor& dx);
void linear_weight_gradient_into(Context& context, const Tensor& dy, const Tensor& x,
                                 SliceOfSum slice, const Tensor& dw);
void linear_bias_gradient_into(Context& context, const Tensor& dy, SliceOfSum slice,
                               const Tensor& db);

}  // namespace tril::ops
