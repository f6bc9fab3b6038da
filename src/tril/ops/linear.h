// Linear layers: y = x Wᵀ + b, with the weight packed for the kernel.
//
// Operations check everything, allocate their result from the context's arena and call a kernel.
// None returns a value to the host, so on a device they only enqueue.
#pragma once

#include "tril/tensor/context.h"
#include "tril/tensor/tensor.h"

namespace tril::ops {

// A weight [out, in], its bias, and their packed forms. Whoever changes the weight packs it again.
struct LinearWeight {
  Tensor weight;           // [out, in]
  Tensor bias;             // [out] or undefined
  Tensor forward_panels;   // pack_forward(); undefined: packed for each use
  Tensor backward_panels;  // pack_backward(); undefined: packed for each use
};

// Sizes of the packed forms, to allocate them once.
Shape forward_panels_shape(const Tensor& weight);
Shape backward_panels_shape(const Tensor& weight);
// Each fills the packed form, which is defined.
void pack_forward(Context& context, const LinearWeight& linear);
void pack_backward(Context& context, const LinearWeight& linear);

// [rows, in] -> [rows, out].
Tensor linear(Context& context, const Tensor& x, const LinearWeight& linear);
// The gradient of x: dy W.
Tensor linear_input_gradient(Context& context, const Tensor& dy, const LinearWeight& linear);
// The gradient of W: dyᵀ x, summed over tokens in slices.
Tensor linear_weight_gradient(Context& context, const Tensor& dy, const Tensor& x);
// The gradient of b: the column sums of dy.
Tensor linear_bias_gradient(Context& context, const Tensor& dy);

}  // namespace tril::ops
