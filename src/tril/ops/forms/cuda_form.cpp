#include "tril/ops/forms/cuda_form.h"

namespace tril::ops {

// The first one's, with the outputs of all.
CudaWeight CudaForm::stacked(Context& context, std::span<const LinearWeight* const> weights) const {
  CudaWeight all = weight_of(context, *weights[0]);
  if (weights.size() == 1) return all;
  all.out = 0;
  for (const LinearWeight* linear : weights) all.out += linear->out;
  all.rows = all.out;
  return all;
}

void CudaForm::multiply_one(Context& context, const Tensor& x, const LinearWeight& linear,
                            const Tensor& y, AfterProduct after) const {
  const Arena::Scope scratch(context.arena);
  const CudaWeight weight = weight_of(context, linear);
  cuda_linear(context, x, weight, bias_of(context, linear), y, after);
}

void CudaForm::multiply(Context& context, const Tensor& x,
                        std::span<const LinearWeight* const> weights,
                        std::span<const Tensor> y) const {
  for (size_t i = 0; i < weights.size(); ++i) multiply_one(context, x, *weights[i], y[i]);
}

void CudaForm::multiply_relu(Context& context, const Tensor& x, const LinearWeight& linear,
                             const Tensor& y) const {
  multiply_one(context, x, linear, y, AfterProduct::relu);
}

void CudaForm::multiply_stacked(Context& context, const Tensor& x,
                                std::span<const LinearWeight* const> weights,
                                const Tensor& y) const {
  const Arena::Scope scratch(context.arena);
  const CudaWeight weight = stacked(context, weights);
  cuda_linear(context, x, weight, bias_of(context, *weights[0]), y);
}

void CudaForm::input_gradient(Context& context, const Tensor& dy,
                              std::span<const LinearWeight* const> weights, const Tensor& dx,
                              SliceOfSum slice) const {
  const Arena::Scope scratch(context.arena);
  cuda_input_gradient(context, dy, stacked(context, weights), dx, slice);
}

}  // namespace tril::ops
