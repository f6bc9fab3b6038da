#include "tril/train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "tril/base/rounding.h"
#include "tril/ops/rows.h"
#include "tril/ops/weights.h"

namespace tril {

void check(const AdamWOptions& options) {
  const auto decays = [](float beta) { return beta >= 0.0f && beta < 1.0f; };
  require(decays(options.beta1) && decays(options.beta2) && options.epsilon > 0.0f &&
              options.decay >= 0.0f && options.clip_norm >= 0.0 && std::isfinite(options.clip_norm),
          ErrorCode::invalid_argument, "AdamW: beta1 ", options.beta1, ", beta2 ", options.beta2,
          ", epsilon ", options.epsilon, ", decay ", options.decay, ", clip_norm ",
          options.clip_norm, ": betas must be in [0, 1), epsilon positive, the rest not negative");
}

AdamWOptimizer::AdamWOptimizer(Transformer& model, const AdamWOptions& options)
    : model_(model),
      adamw_(model.placement().device, {.beta1 = options.beta1,
                                        .beta2 = options.beta2,
                                        .epsilon = options.epsilon,
                                        .clip_norm = options.clip_norm}),
      arena_(model.placement().device) {
  check(options);
  auto parameters = model.writable_parameters();
  std::sort(parameters.begin(), parameters.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  for (const auto& parameter : parameters) {
    const Shape& shape = parameter.tensor.shape();
    names_.push_back(parameter.name);
    tensors_.push_back({.weight = parameter.tensor,
                        .first = Tensor(arena_, shape),
                        .second = Tensor(arena_, shape),
                        .rounded = parameter.rounded,
                        .decay = shape.rank() >= 2 ? options.decay : 0.0f});
    set_zero(tensors_.back().first);
    set_zero(tensors_.back().second);
  }
  sums_.resize(tensors_.size());
}

void AdamWOptimizer::add(const Gradients& gradients, MicroBatch which, Context& context) {
  const StandardRounding rounding;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    ops::UpdateTensor& tensor = tensors_[i];
    const Tensor gradient = gradients.of(tensor.weight);
    if (which == MicroBatch::first) tensor.gradient = Tensor();
    if (!gradient.defined()) continue;
    if (!sums_[i].defined()) sums_[i] = Tensor(arena_, gradient.shape());
    if (tensor.gradient.defined()) {
      ops::add_into(context, gradient, sums_[i]);
    } else {
      ops::copy(context, gradient, sums_[i]);
      tensor.gradient = sums_[i];
    }
  }
}

void AdamWOptimizer::update(float rate, Context& context) {
  const StandardRounding rounding;
  context.queue.note(this);  // the moments' memory
  adamw_.update(context, tensors_, rate);
  // Where rounded weights were written with the others nothing else has to be packed.
  if (model_.placement().activations == DType::f32) model_.weights_changed(context);
}

void AdamWOptimizer::step(float rate, Context& context) { update(rate, context); }

void AdamWOptimizer::step(const Gradients& gradients, float rate, Context& context) {
  for (ops::UpdateTensor& tensor : tensors_) tensor.gradient = gradients.of(tensor.weight);
  update(rate, context);
}

std::vector<NamedTensor> AdamWOptimizer::moments() const {
  std::vector<NamedTensor> result;
  for (size_t i = 0; i < names_.size(); ++i) {
    result.push_back({"first." + names_[i], tensors_[i].first});
  }
  for (size_t i = 0; i < names_.size(); ++i) {
    result.push_back({"second." + names_[i], tensors_[i].second});
  }
  return result;
}

void AdamWOptimizer::restore(int64_t steps, std::span<const NamedTensor> moments,
                             const std::string& file) {
  for (const NamedTensor& own : this->moments()) copy_named(moments, own, file);
  adamw_.restore(steps);
}

}  // namespace tril
