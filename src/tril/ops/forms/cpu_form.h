// What the forms of the CPU share: panels, one column of units per output (kernels/gemm.h), and per
// output perhaps a number of each further part.
//
// A form has an input type `Input`: made of rows x, as the form wants them (rounded, say), its
// times() is the product of some of those rows with a weight, and run() the kernel.
#pragma once

#include <span>
#include <vector>

#include "tril/kernels/gemm.h"
#include "tril/ops/weight_form.h"

namespace tril::ops {

// The first part of every form here; raises where the weight is not packed.
const Tensor& panels_of(const LinearWeight& linear);
// Null without one.
inline const float* bias_of(const LinearWeight& linear) {
  return linear.bias.defined() ? linear.bias.data() : nullptr;
}

class CpuForm : public WeightForm {
 public:
  bool suits(const Placement& placement) const final {
    return placement.device == Device::cpu && placement.activations == DType::f32;
  }
  LinearWeight part_of(Context& context, const LinearWeight& linear, std::span<const int32_t> rows,
                       Arena& arena) const final;

 protected:
  using WeightForm::WeightForm;

  // How panels are made of units that stay together.
  struct Layout {
    int64_t unit_bytes = 0;  // 2 or 4
    int64_t units = 0;       // per output
  };
  virtual Layout layout(int64_t in) const = 0;
};

// A CpuForm that multiplies by way of Input.
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

  // Many products are shared out whole; of a few, each is shared.
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
