#include "tril/nn/layers.h"

#include <algorithm>
#include <cmath>

namespace tril::nn {

Tensor ParameterSet::add(const std::string& name, const Shape& shape, Init init) {
  for (const Parameter& parameter : list_) {
    require(parameter.name != name, ErrorCode::internal, "parameter '", name, "' exists already");
  }
  if (gate_) gate_(name, shape);
  const Tensor tensor(weights_, shape);
  std::fill_n(tensor.data(), tensor.size(), 0.0f);
  list_.push_back({name, tensor, init});
  return tensor;
}

const ops::LinearWeight& ParameterSet::add_linear(const Tensor& weight, const Tensor& bias) {
  ops::LinearWeight linear{weight, bias, {}, {}};
  linear.forward_panels = Tensor(panels_, ops::forward_panels_shape(weight));
  return linears_.emplace_back(linear);
}

void ParameterSet::initialise(uint64_t seed) {
  for (size_t index = 0; index < list_.size(); ++index) {
    const Parameter& parameter = list_[index];
    const Shape& shape = parameter.tensor.shape();
    float* data = parameter.tensor.data();
    const int64_t size = parameter.tensor.size();
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
  }
}

void ParameterSet::pack(Context& context) {
  for (const ops::LinearWeight& linear : linears_) {
    ops::pack_forward(context, linear);
    if (linear.backward_panels.defined()) ops::pack_backward(context, linear);
  }
}

void ParameterSet::prepare_training() {
  for (ops::LinearWeight& linear : linears_) {
    if (!linear.backward_panels.defined()) {
      linear.backward_panels = Tensor(panels_, ops::backward_panels_shape(linear.weight));
    }
  }
}

Linear::Linear(ParameterSet& set, const std::string& name, int64_t out, int64_t in, Bias bias) {
  const Tensor matrix = set.add(name + ".weight", {out, in}, Init::xavier);
  const Tensor offset =
      bias == Bias::present ? set.add(name + ".bias", {out}, Init::zero) : Tensor();
  weight = &set.add_linear(matrix, offset);
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

Tensor FeedForward::operator()(Context& context, const Tensor& x) const {
  const Tensor hidden = in(context, x);
  return out(context, gate ? autograd::gated(context, activation, gate(context, x), hidden)
                           : autograd::activation(context, activation, hidden));
}

}  // namespace tril::nn
