// Linear layers: y = x Wᵀ + b, with the weight packed for the kernel.
//
// Operations check everything, allocate their result from the context's arena and call a kernel.
// None returns a value to the host, so on a device they only enqueue.
#pragma once

#include <span>

#include "tril/base/words.h"
#include "tril/tensor/context.h"
#include "tril/tensor/tensor.h"

namespace tril::ops {

// How weights are kept and multiplied. fp32 is what training computes in. bf16 is storage: weights
// rounded once, then as fp32. int8: weights and activations in bytes (kernels/gemm_int8.h).
// bf16_dot: both in bf16, multiplied by the processor's own instruction, where it has one, with
// bits of its own (kernels/gemm_bf16_dot.h).
enum class Compute { fp32, bf16, int8, bf16_dot };

// A weight [out, in], its bias, and their packed forms. Whoever changes the weight packs it again.
// Where gradients are never asked for the packed form is enough, and the weight is undefined.
// On CUDA in bf16 the forward panels are the weight rounded, [round_up(out, 64), round_up(in, 64)]
// with zeros behind it, and serve gradients too; in fp32 the weight itself is multiplied.
struct LinearWeight {
  Tensor weight{};           // [out, in]
  Tensor bias{};             // [out] or undefined
  Tensor forward_panels{};   // f32, bf16 or i8; undefined: packed for each use
  Tensor backward_panels{};  // pack_backward(); undefined: packed for each use
  Tensor scales{};           // of i8 panels: [out]
  Tensor sums{};             // of i8 panels: [out], i32
  Tensor rounded_bias{};     // on CUDA in bf16: the bias rounded, [round_up(out, 64)]
  int64_t out = 0;           // as the weight's, for when there is none
  int64_t in = 0;
  Compute compute = Compute::fp32;  // what the forward panels are packed for
};
// A weight that is there.
LinearWeight linear_weight(const Tensor& weight, const Tensor& bias = {});

// Sizes of the packed forms, to allocate them once.
int64_t forward_panels_size(int64_t out, int64_t in, Compute compute);
DType panels_type(Compute compute);
// On CUDA weights are padded with zeros to multiples of this.
constexpr int64_t kWeightPadding = 64;
constexpr int64_t padded_size(int64_t size) {
  return (size + kWeightPadding - 1) / kWeightPadding * kWeightPadding;
}
// Room in `arena` for what pack_forward() fills, where the weight has none yet: panels on the CPU;
// on CUDA the weight and its bias in bf16, padded, and nothing where activations are fp32.
void allocate_packed(Arena& arena, DType activations, LinearWeight& linear);
// Whether gradients read a form of their own, which pack_backward() fills; on CUDA they do not.
constexpr bool packs_for_gradients(Device device) { return device == Device::cpu; }
Shape backward_panels_shape(const Tensor& weight);
// Each fills the packed form, which is defined.
void pack_forward(Context& context, const LinearWeight& linear);
void pack_backward(Context& context, const LinearWeight& linear);
// Raises `unsupported` where this machine cannot multiply so, or rows are too long for it.
void check_supported(Compute compute);
void check_terms(Compute compute, int64_t in);
// The same weight packed for inference, in memory of `arena`; its own tensors are not shared. On
// CUDA only bf16 can be.
LinearWeight packed_for(Context& context, const LinearWeight& linear, Compute compute,
                        Arena& arena);
// Row `row` of the weight as the products see it. Of a weight in the host's memory.
void unpack_row(const LinearWeight& linear, int64_t row, float* to);

// [rows, in] -> [rows, out]. As activations, which are rounded where those are; as the sums
// themselves in fp32, as logits are; or those with room for out to be a multiple of 64 on CUDA,
// which is what large products are fastest with: what lies behind the first `out` columns of
// such a row means nothing.
enum class LinearOutput { activation, sums, padded_sums };
Tensor linear(Context& context, const Tensor& x, const LinearWeight& linear,
              LinearOutput output = LinearOutput::activation);
// Whether one product with all of these is possible: on CUDA in bf16, of outputs that need no
// padding, packed one behind the other in memory (nn::ParameterSet::Stack).
bool are_stacked(const Context& context, std::span<const LinearWeight* const> weights);
// ReLU of it, with the bits of the two one after the other. Whether that is one product here:
bool has_linear_relu(const Context& context);
Tensor linear_relu(Context& context, const Tensor& x, const LinearWeight& linear);
// What its gradient passes on: dx of the ReLU whose result was y, and the gradient of the bias, the
// column sums of dx, which is made aside.
struct ReluGradients {
  Tensor dx, dbias;
};
ReluGradients linear_relu_gradients(Context& context, const Tensor& y, const Tensor& dy);
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
enum class SliceOfSum { first, further };
void linear_input_gradient_into(Context& context, const Tensor& dy, const LinearWeight& linear,
                                const Tensor& dx);
void linear_weight_gradient_into(Context& context, const Tensor& dy, const Tensor& x,
                                 SliceOfSum slice, const Tensor& dw);
void linear_bias_gradient_into(Context& context, const Tensor& dy, SliceOfSum slice,
                               const Tensor& db);

}  // namespace tril::ops

namespace tril {

using Compute = ops::Compute;
template <>
struct Words<Compute> {
  static constexpr std::string_view kList[] = {"fp32", "bf16", "int8", "bf16-dot"};
};

}  // namespace tril
