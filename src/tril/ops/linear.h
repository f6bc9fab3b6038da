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

// [rows, in] -> [rows, out]. As activations, which are rounded where those are; as the sums
// themselves in fp32, as logits are; or those with room for out to be a multiple of 64 on CUDA,
// which is what large products are fastest with: what lies behind the first `out` columns of
// such a row means nothing.
enum class LinearOutput { activation, sums, padded_sums };
Tensor linear(Context& context, const Tensor& x, const LinearWeight& linear,
              LinearOutput output = LinearOutput::activation);
// Whether one product with all of these is possible: packed one behind the other in memory
// (nn::ParameterSet::Stack), in a form that can be.
bool are_stacked(const Context& context, std::span<const LinearWeight* const> weights);
// ReLU of it, with the bits of the two one after the other. Whether that is one product here:
bool has_linear_relu(const Context& context, const LinearWeight& linear);
Tensor linear_relu(Context& context, const Tensor& x, const LinearWeight& linear);
// Several weights on the same input, in one go: y[i] = linear(x, weights[i]), with the same bits.
// Of stacked weights y are column slices of one matrix, whose rows lie apart (tensor/tensor.h).
void linears(Context& context, const Tensor& x, std::span<const LinearWeight* const> weights,
             std::span<Tensor> y);
// Gradients are taken of dy whose rows lie apart too.
// The gradient of x: dy W.
Tensor linear_input_gradient(Context& context, const Tensor& dy, const LinearWeight& linear);
// The same of stacked weights, dy of all of them side by side: one sum over all outputs.
Tensor linears_input_gradient(Context& context, const Tensor& dy,
                              std::span<const LinearWeight* const> weights);
// dx += dy W, of one weight or of stacked ones, with the bits of the product and a sum.
void add_linear_input_gradient(Context& context, const Tensor& dy,
                               std::span<const LinearWeight* const> weights, const Tensor& dx);
// The gradient of W: dyᵀ x, summed over tokens in slices.
Tensor linear_weight_gradient(Context& context, const Tensor& dy, const Tensor& x);
// The gradient of b: the column sums of dy.
Tensor linear_bias_gradient(Context& context, const Tensor& dy);

// The same into memory that is there, for who has the rows slice by slice: a slice is at most
// kernels::kTokenSlice rows (on CUDA any number), and further ones are added to what the first
// left. On CUDA rows of dy may have room for round_up(out, 64) columns: zeros behind the first
// `out`.
void linear_input_gradient_into(Context& context, const Tensor& dy, const LinearWeight& linear,
                                const Tensor& dx);
void linear_weight_gradient_into(Context& context, const Tensor& dy, const Tensor& x,
                                 SliceOfSum slice, const Tensor& dw);
void linear_bias_gradient_into(Context& context, const Tensor& dy, SliceOfSum slice,
                               const Tensor& db);

}  // namespace tril::ops
