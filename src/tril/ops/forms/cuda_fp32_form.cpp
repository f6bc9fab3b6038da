// fp32 on CUDA: the weight itself is multiplied. A copy is kept only where the weight is not.
#include "tril/base/error.h"
#include "tril/ops/forms/cuda_form.h"
#include "tril/ops/forms/forms.h"

namespace tril::ops {
namespace {

constexpr size_t kCopy = 0;

class CudaFp32Form final : public CudaForm {
 public:
  CudaFp32Form() : CudaForm(Compute::fp32, DType::f32) {}

  std::vector<Part> parts(int64_t out, int64_t in) const override {
    return {{".copy", {out, in}, DType::f32}};
  }
  void allocate(Arena& arena, LinearWeight& linear) const override {
    if (!linear.weight.defined()) WeightForm::allocate(arena, linear);
  }
  Rows rows(const LinearWeight& linear) const override { return {matrix(linear), linear.in}; }

 protected:
  CudaWeight weight_of(Context& context, const LinearWeight& linear) const override {
    return {.data = in_memory(context, "the weight", matrix(linear), DType::f32),
            .stride = linear.in,
            .out = linear.out,
            .in = linear.in,
            .rows = linear.out};
  }
  const void* bias_of(Context& context, const LinearWeight& linear) const override {
    return linear.bias.defined() ? in_memory(context, "the bias", linear.bias, DType::f32)
                                 : nullptr;
  }

 private:
  static const Tensor& matrix(const LinearWeight& linear) {
    return linear.weight.defined() ? linear.weight : linear.parts[kCopy];
  }
  void fill(Context& /*context*/, const Tensor& weight, const Tensor& /*bias*/,
            const LinearWeight& to) const override {
    if (to.parts[kCopy].defined()) copy_into(weight, to.parts[kCopy]);
  }
};

}  // namespace

const WeightForm& cuda_fp32_form() {
  static const CudaFp32Form form;
  return form;
}

}  // namespace tril::ops
