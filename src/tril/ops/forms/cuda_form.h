// Shared by the CUDA forms: weights [out, in] row by row, which the products of cuda_linear.h read
// in place, forward and for gradients.
#pragma once

#include "tril/ops/cuda_linear.h"
#include "tril/ops/weight_form.h"

namespace tril::ops {

class CudaForm : public WeightForm {
 public:
  // Of any GPU: whether a weight is on the context's is checked where it is read (cuda_linear.h).
  bool suits(const Placement& placement) const final {
    return on_gpu(placement.device) && placement.activations == activations_;
  }

  void multiply(Context& context, const Tensor& x, std::span<const LinearWeight* const> weights,
                std::span<const Tensor> y) const final;
  void input_gradient(Context& context, const Tensor& dy,
                      std::span<const LinearWeight* const> weights, const Tensor& dx,
                      SliceOfSum slice) const final;
  int64_t padded_outputs(int64_t out) const final { return padded_size(out); }

  bool has_relu() const final { return true; }
  void multiply_relu(Context& context, const Tensor& x, const LinearWeight& linear,
                     const Tensor& y) const final;
  void multiply_stacked(Context& context, const Tensor& x,
                        std::span<const LinearWeight* const> weights, const Tensor& y) const final;

 protected:
  CudaForm(Compute compute, DType activations) : WeightForm(compute), activations_(activations) {}

  // What products read; parts that are not kept are made in scratch memory.
  virtual CudaWeight weight_of(Context& context, const LinearWeight& linear) const = 0;
  virtual const void* bias_of(Context& context, const LinearWeight& linear) const = 0;

 private:
  CudaWeight stacked(Context& context, std::span<const LinearWeight* const> weights) const;
  void multiply_one(Context& context, const Tensor& x, const LinearWeight& linear, const Tensor& y,
                    AfterProduct after = AfterProduct::nothing) const;

  DType activations_;
};

}  // namespace tril::ops
