// Shared by the CPU forms: panels, one column of units per output (kernels/gemm.h), and possibly
// one number per output in each further part.
//
// A form has an input type `Input`: made from rows x in the way the form needs them (rounded, for
// example), its times() is the product of some of those rows with a weight, and run() the kernel.
#pragma once

#include <span>
#include <vector>

#include "tril/kernels/gemm.h"
#include "tril/ops/weight_form.h"

namespace tril::ops {

// The first part of every form here; raises if the weight is not packed.
const Tensor& panels_of(const LinearWeight& linear);
// Null without one.
inline const float* bias_of(const LinearWeight& linear) {
  return linear.bias.defined() ? linear.bias.data() : nullptr;
}

class CpuForm : public WeightForm {
 public:
  bool suits(const Placement& placement) const final {
    return !on_gpu(placement.device) && placement.activations == DType::f32;
  }
  LinearWeight part_of(Context& context, const LinearWeight& linear, std::span<const int32_t> rows,
                       Arena& arena) const final;

 protected:
  using WeightForm::WeightForm;

  // How panels are divided into units.
  struct Layout {
    int64_t unit_bytes = 0;  // 2 or 4
    int64_t units = 0;       // per output
  };
  virtual Layout layout(int64_t in) const = 0;
};

// A CpuForm that multiplies through Input.
template <class Input>
class CpuFormOf : public CpuForm {
 public:
  void multiply(Context& context, const Tensor& x, std::span<const LinearWeight* const> weights,
                std::span<const Tensor> y) const final {
    const Arena::Scope scratch(context.arena);
    const Input input(context, x);
    typename Input::Product products[kernels::kMostProducts];
    for (size_t i = 0; i < weights.size(); ++i) {
      products[i] = input.times(*weights[i], 0, x.rows(), y[i]);
    }
    Input::run(context.parallel, {products, weights.size()});
  }

  // If there are many products, each is computed by one thread; if few, threads share each.
  void multiply_rows(Context& context, const Tensor& x, std::span<const RowsByWeight> parts,
                     std::span<const Tensor> y) const final {
    const Arena::Scope scratch(context.arena);
    const Input input(context, x);
    std::vector<typename Input::Product> products;
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto& [begin, end, weight] = parts[i];
      products.push_back(input.times(*weight, begin, end - begin, y[i]));
    }
    const auto multiply_one = [&](const typename Input::Product& product) {
      Input::run(context.parallel, {&product, 1});
    };
    const auto count = static_cast<int64_t>(products.size());
    if (2 * count >= context.parallel.threads()) {
      context.parallel(count, [&](int64_t i) { multiply_one(products[static_cast<size_t>(i)]); });
    } else {
      for (const auto& product : products) multiply_one(product);
    }
  }

 protected:
  using CpuForm::CpuForm;
};

}  // namespace tril::ops
