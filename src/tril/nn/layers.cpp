#include "tril/nn/layers.h"

#include <algorithm>
#include <cmath>

namespace tril::nn {

ParameterSet::ParameterSet(const Placement& placement, Gate gate)
    : placement_(placement),
      gate_(std::move(gate)),
      form_(&ops::form_for(placement)),
      weights_(placement.device),
      panels_(placement.device) {}

ParameterSet::ParameterSet(const Placement& placement, Compute compute, Gate gate)
    : placement_(placement),
      gate_(std::move(gate)),
      only_packed_(true),
      form_(&ops::form_for(placement, compute)),
      weights_(placement.device),
      panels_(placement.device) {}

ParameterSet::ParameterSet(Compute compute, Find find)
    : find_(std::move(find)), only_packed_(true), form_(&ops::form_for(Placement(), compute)) {}

Tensor ParameterSet::add(const std::string& name, const Shape& shape, Init init) {
  for (const Parameter& parameter : list_) {
    require(parameter.name != name, ErrorCode::internal, "parameter '", name, "' exists already");
  }
  count_ += shape.size();
  if (find_) return find_(name, shape, DType::f32);
  if (gate_) gate_(name, shape);
  const bool remembers = placement_.activations == DType::expression;
  const Tensor tensor(weights_, shape, remembers ? DType::expression : DType::f32);
  set_zero(tensor);
  list_.push_back({name, tensor, init});
  return tensor;
}

ops::LinearWeight& ParameterSet::add_matrix(const std::string& name, int64_t out, int64_t in,
                                            Init init, Use use) {
  ops::LinearWeight linear{.out = out, .in = in, .form = form_};
  form_->check_terms(in);
  if (!only_packed()) {
    linear.weight = add(name, {out, in}, init);
  } else {
    count_ += out * in;
    if (gate_) gate_(name, {out, in});
  }
  if (find_) {
    const std::vector<ops::WeightForm::Part> parts = form_->parts(out, in);
    for (size_t i = 0; i < parts.size(); ++i) {
      linear.parts[i] = find_(name + std::string(parts[i].name), parts[i].shape, parts[i].type);
    }
  }
  ops::LinearWeight& added = matrices_.emplace_back(Matrix{name, linear}).linear;
  // A table that is kept only in packed form is looked up there; one of expressions has a name.
  const bool named = placement_.activations == DType::expression;
  if (use == Use::linear || only_packed() || named) use_as_linear(added, {});
  return added;
}

ParameterSet::Stack::Stack(ParameterSet& set, std::span<const int64_t> outs, int64_t in)
    : set_(set), stack_(set.form_->stack_for(set.panels_, outs, in)) {
  set.stack_ = this;
}

void ParameterSet::use_as_linear(ops::LinearWeight& matrix, const Tensor& bias) {
  matrix.bias = bias;
  if (stack_ != nullptr) form_->place(stack_->stack_, matrix);
  form_->allocate(panels_, matrix);
}

Tensor ParameterSet::rounded(const Parameter& parameter) const {
  for (const auto& [name, linear] : matrices_) {
    const Tensor rounded = form_->rounded(linear, parameter.tensor);
    if (rounded.defined()) return rounded;
  }
  return {};
}

std::vector<Parameter> ParameterSet::packed(Context& context, Compute compute, Arena& arena) const {
  require(!only_packed(), ErrorCode::unsupported,
          "packing: this model was loaded for inference, its weights are packed already");
  std::vector<Parameter> result;
  for (const Parameter& parameter : list_) {
    const auto at = std::find_if(matrices_.begin(), matrices_.end(), [&](const Matrix& matrix) {
      return matrix.name == parameter.name;
    });
    if (at == matrices_.end()) {
      const Tensor copy(arena, parameter.tensor.shape());
      copy_into(parameter.tensor, copy);
      result.push_back({parameter.name, copy, parameter.init});
      continue;
    }
    append_parts(at->name, ops::packed_for(context, at->linear.weight, compute, arena), result);
  }
  return result;
}

std::vector<Parameter> ParameterSet::packed() const {
  require(only_packed() && !find_, ErrorCode::internal, "packing: nothing was packed by fill()");
  std::vector<Parameter> result = list_;
  for (const auto& [name, linear] : matrices_) append_parts(name, linear, result);
  return result;
}

void ParameterSet::append_parts(const std::string& name, const ops::LinearWeight& packed,
                                std::vector<Parameter>& to) {
  const auto parts = packed.form->parts(packed.out, packed.in);
  for (size_t i = 0; i < parts.size(); ++i) {
    to.push_back({name + std::string(parts[i].name), packed.parts[i], Init::zero});
  }
}

void ParameterSet::name_leaves() {
  for (const Parameter& parameter : list_) {
    const uint64_t name = hash_of_name(parameter.name);
    auto* leaves = parameter.tensor.data<Expression>();
    for (int64_t i = 0; i < parameter.tensor.size(); ++i) leaves[i] = weight_leaf(name, i);
  }
  for (const auto& [name, linear] : matrices_) {
    *linear.parts[0].data<Expression>() = {.hash = {hash_of_name(name), 0}};
  }
}

void ParameterSet::initialise(uint64_t seed) {
  for (size_t index = 0; index < list_.size(); ++index) {
    const Parameter& parameter = list_[index];
    const Shape& shape = parameter.tensor.shape();
    const int64_t size = parameter.tensor.size();
    std::vector<float> values(static_cast<size_t>(size));
    float* data = values.data();
    Random random(seed, index);
    switch (parameter.init) {
      case Init::zero: std::fill_n(data, size, 0.0f); break;
      case Init::one: std::fill_n(data, size, 1.0f); break;
      case Init::xavier: {
        // Glorot and Bengio, 2010: uniform within sqrt(6 / (in + out)).
        const float bound = std::sqrt(6.0f / static_cast<float>(shape[0] + shape[1]));
        std::generate_n(data, size, [&] { return random.uniform(-bound, bound); });
        break;
      }
      case Init::normal: {
        const float deviation = 1.0f / std::sqrt(static_cast<float>(shape.columns()));
        std::generate_n(data, size, [&] { return random.normal() * deviation; });
        break;
      }
    }
    set_values(parameter.tensor, values);
  }
}

void ParameterSet::fill(Context& context, const Source& source) {
  for (const Parameter& parameter : list_) copy_into(source(parameter.name), parameter.tensor);
  if (!only_packed()) return pack(context);
  for (const auto& [name, linear] : matrices_) {
    form_->pack(context, source(name), linear.bias, linear);
  }
}

void ParameterSet::pack(Context& context) {
  if (only_packed()) return;
  for (const auto& [name, linear] : matrices_) {
    form_->pack(context, linear.weight, linear.bias, linear);
  }
}

void ParameterSet::prepare_training() {
  require(!only_packed(), ErrorCode::unsupported, "training: this model was loaded for inference");
  for (auto& [name, linear] : matrices_) form_->allocate_for_gradients(panels_, linear);
}

Linear::Linear(ParameterSet& set, const std::string& name, int64_t out, int64_t in, Bias bias) {
  ops::LinearWeight& matrix =
      set.add_matrix(name + ".weight", out, in, Init::xavier, ParameterSet::Use::linear);
  if (bias == Bias::present) {
    set.use_as_linear(matrix, set.add(name + ".bias", {out}, Init::zero));
  }
  weight = &matrix;
}

Norm::Norm(ParameterSet& set, const std::string& name, ops::NormKind norm_kind, int64_t columns,
           float norm_epsilon)
    : kind(norm_kind), epsilon(norm_epsilon) {
  weight = set.add(name + ".weight", {columns}, Init::one);
  if (kind == ops::NormKind::layer) bias = set.add(name + ".bias", {columns}, Init::zero);
}

FeedForward::FeedForward(ParameterSet& set, const std::string& name, int64_t model, int64_t hidden,
                         ops::Activation kind, Form form, Bias bias)
    : activation(kind), in(set, name + ".in", hidden, model, bias) {
  if (form == Form::gated) gate = Linear(set, name + ".gate", hidden, model, bias);
  out = Linear(set, name + ".out", model, hidden, bias);
}

Tensor FeedForward::hidden(Context& context, const Tensor& x) const {
  if (!gate && activation == ops::Activation::relu) {
    return autograd::linear_relu(context, x, *in.weight);
  }
  const Tensor y = in(context, x);
  return gate ? autograd::gated(context, activation, gate(context, x), y)
              : autograd::activation(context, activation, y);
}

}  // namespace tril::nn
