#include "tril/ops/weight_form.h"

#include "tril/base/build.h"
#include "tril/base/error.h"
#include "tril/ops/forms/forms.h"

namespace tril::ops {
namespace {

// Every form there is. Never destroyed, because a thread may still compute when static objects are.
const std::vector<const WeightForm*>& forms() {
  static const auto& all = *new std::vector<const WeightForm*>([] {
    std::vector<const WeightForm*> list = {&int8_form(), &bf16_dot_form(), &bf16_form(),
                                           &fp32_form()};
    for (const Compute compute : {Compute::int8, Compute::bf16_dot, Compute::bf16, Compute::fp32}) {
      list.push_back(&expression_form(compute));
    }
    if constexpr (kCudaBuilt) {
      list.push_back(&cuda_bf16_form());
      list.push_back(&cuda_fp32_form());
    }
    return list;
  }());
  return all;
}

[[noreturn]] void cannot(const WeightForm& form, std::string_view what) {
  fail(ErrorCode::unsupported, "weights in ", word_for(form.compute()), ": ", what);
}

}  // namespace

LinearWeight linear_weight(const Tensor& weight, const Tensor& bias) {
  require(weight.defined() && weight.shape().rank() == 2, ErrorCode::shape_mismatch,
          "linear: the weight must be a matrix, got ", weight.shape());
  return {.weight = weight, .bias = bias, .out = weight.shape()[0], .in = weight.shape()[1]};
}

void WeightForm::allocate(Arena& arena, LinearWeight& linear) const {
  const std::vector<Part> wanted = parts(linear.out, linear.in);
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (linear.parts[i].defined()) continue;
    linear.parts[i] = Tensor(arena, wanted[i].shape, wanted[i].type);
  }
}

void WeightForm::pack(Context& context, const Tensor& weight, const Tensor& bias,
                      const LinearWeight& to) const {
  const Arena::Scope scratch(context.arena);
  Tensor here = weight;
  if (weight.device() != context.device() || weight.dtype() != DType::f32) {
    here = Tensor(context.arena, weight.shape());
    copy_into(weight, here);
  }
  fill(context, here, bias, to);
}

void WeightForm::unpack_row(const LinearWeight& /*linear*/, int64_t /*row*/, float* /*to*/) const {
  cannot(*this, "the host cannot read a row of what is packed here");
}
LinearWeight WeightForm::part_of(Context& /*context*/, const LinearWeight& /*linear*/,
                                 std::span<const int32_t> /*rows*/, Arena& /*arena*/) const {
  cannot(*this, "outputs can be chosen on the CPU only");
}
void WeightForm::multiply_rows(Context& /*context*/, const Tensor& /*x*/,
                               std::span<const RowsByWeight> /*parts*/,
                               std::span<const Tensor> /*y*/) const {
  cannot(*this, "parts of the rows can be multiplied on the CPU only");
}
void WeightForm::input_gradient(Context& /*context*/, const Tensor& /*dy*/,
                                std::span<const LinearWeight* const> /*weights*/,
                                const Tensor& /*dx*/, SliceOfSum /*slice*/) const {
  cannot(*this, "linear gradient: this weight was packed for inference");
}
void WeightForm::multiply_relu(Context& /*context*/, const Tensor& /*x*/,
                               const LinearWeight& /*linear*/, const Tensor& /*y*/) const {
  cannot(*this, "there is no ReLU of a product");
}
void WeightForm::multiply_stacked(Context& /*context*/, const Tensor& /*x*/,
                                  std::span<const LinearWeight* const> /*weights*/,
                                  const Tensor& /*y*/) const {
  cannot(*this, "weights are not stacked");
}

std::vector<Compute> computes_for(const Placement& placement) {
  std::vector<Compute> computes;
  for (const WeightForm* form : forms()) {
    if (form->suits(placement)) computes.push_back(form->compute());
  }
  return computes;
}

const WeightForm& form_for(const Placement& placement, Compute compute) {
  for (const WeightForm* form : forms()) {
    if (form->compute() == compute && form->suits(placement)) return *form;
  }
  check_usable(placement.device);  // a better error if it cannot be used at all
  fail(ErrorCode::unsupported, "weights in ", word_for(compute), ": there are no products on ",
       placement.device, " with activations of ", placement.activations);
}

const WeightForm& form_for(const Placement& placement) {
  return form_for(placement, placement.activations == DType::bf16 ? Compute::bf16 : Compute::fp32);
}

const WeightForm& form_of(const Context& context, const LinearWeight& linear) {
  if (linear.form == nullptr) return form_for(context.placement());
  require(linear.form->suits(context.placement()), ErrorCode::unsupported,
          "linear: this weight in ", word_for(linear.form->compute()),
          " was packed for another device or type than products on ", context.device(),
          " with activations of ", context.activations);
  return *linear.form;
}

LinearWeight packed_for(Context& context, const Tensor& weight, Compute compute, Arena& arena) {
  const WeightForm& form = form_for(context.placement(), compute);
  LinearWeight packed = linear_weight(weight);
  form.check_terms(packed.in);
  packed.form = &form;
  packed.weight = {};
  form.allocate(arena, packed);
  form.pack(context, weight, {}, packed);
  return packed;
}

}  // namespace tril::ops
