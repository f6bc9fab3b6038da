#include "tril/nn/layers.h"

#include <algorithm>
#include <cmath>

namespace tril::nn {
namespace {

// What is kept of a packed matrix NAME.
constexpr const char* kPanels = ".panels";
constexpr const char* kScales = ".scales";
constexpr const char* kSums = ".sums";

}  // namespace

Tensor ParameterSet::add(const std::string& name, const Shape& shape, Init init) {
  for (const Parameter& parameter : list_) {
    require(parameter.name != name, ErrorCode::internal, "parameter '", name, "' exists already");
  }
  count_ += shape.size();
  if (only_packed()) return find_(name, shape, DType::f32);
  if (gate_) gate_(name, shape);
  const Tensor tensor(weights_, shape);
  set_zero(tensor);
  list_.push_back({name, tensor, init});
  return tensor;
}

ops::LinearWeight& ParameterSet::add_matrix(const std::string& name, int64_t out, int64_t in,
                                            Init init, Use use) {
  ops::LinearWeight linear{.out = out, .in = in};
  if (only_packed()) {
    ops::check_terms(compute_, in);
    linear.compute = compute_;
    count_ += out * in;
    linear.forward_panels = find_(name + kPanels, {ops::forward_panels_size(out, in, compute_)},
                                  ops::panels_type(compute_));
    if (compute_ == Compute::int8) {
      linear.scales = find_(name + kScales, {out}, DType::f32);
      linear.sums = find_(name + kSums, {out}, DType::i32);
    }
  } else {
    linear.weight = add(name, {out, in}, init);
  }
  ops::LinearWeight& added = matrices_.emplace_back(Matrix{name, linear}).linear;
  if (use == Use::linear) use_as_linear(added, {});
  return added;
}

ParameterSet::Stack::Stack(ParameterSet& set, std::span<const int64_t> outs, int64_t in)
    : set_(set) {
  set.stack_ = this;
  int64_t total = 0;
  for (const int64_t out : outs) {
    if (out != ops::padded_size(out)) return;
    total += out;
  }
  if (set.placement_.activations != DType::bf16 || set.only_packed()) return;
  panels_ = Tensor(set.panels_, {total, ops::padded_size(in)}, DType::bf16);
  biases_ = Tensor(set.panels_, {total}, DType::bf16);
}

void ParameterSet::Stack::place(ops::LinearWeight& matrix) {
  const auto take = [&](const Tensor& from, int64_t& taken) {
    taken += matrix.out;
    return from.slice(taken - matrix.out, taken);
  };
  if (!panels_.defined()) return;
  if (!matrix.forward_panels.defined()) matrix.forward_panels = take(panels_, panels_taken_);
  if (matrix.bias.defined()) matrix.rounded_bias = take(biases_, biases_taken_);
}

void ParameterSet::use_as_linear(ops::LinearWeight& matrix, const Tensor& bias) {
  matrix.bias = bias;
  if (stack_ != nullptr) stack_->place(matrix);
  ops::allocate_packed(panels_, placement_.activations, matrix);
}

Tensor ParameterSet::rounded(const Parameter& parameter) const {
  for (const auto& [name, linear] : matrices_) {
    const bool is_weight = linear.weight.address() == parameter.tensor.address();
    const bool is_bias =
        linear.bias.defined() && linear.bias.address() == parameter.tensor.address();
    if (is_weight && linear.forward_panels.dtype() == DType::bf16) return linear.forward_panels;
    if (is_bias) return linear.rounded_bias;
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
    const ops::LinearWeight weight = ops::packed_for(context, at->linear, compute, arena);
    result.push_back({at->name + kPanels, weight.forward_panels, Init::zero});
    if (compute != Compute::int8) continue;
    result.push_back({at->name + kScales, weight.scales, Init::zero});
    result.push_back({at->name + kSums, weight.sums, Init::zero});
  }
  return result;
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

void ParameterSet::pack(Context& context) {
  if (only_packed()) return;
  for (const auto& [name, linear] : matrices_) {
    if (linear.forward_panels.defined()) ops::pack_forward(context, linear);
    if (linear.backward_panels.defined()) ops::pack_backward(context, linear);
  }
}

void ParameterSet::prepare_training() {
  require(!only_packed(), ErrorCode::unsupported, "training: this model was loaded for inference");
  if (!ops::packs_for_gradients(placement_.device)) return;
  for (auto& [name, linear] : matrices_) {
    if (linear.forward_panels.defined() && !linear.backward_panels.defined()) {
      linear.backward_panels = Tensor(panels_, ops::backward_panels_shape(linear.weight));
    }
  }
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
