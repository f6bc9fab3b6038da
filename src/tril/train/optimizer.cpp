#include "tril/train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "tril/base/rounding.h"
#include "tril/kernels/adamw.h"
#include "tril/kernels/elementwise.h"

namespace tril {

void check(const AdamWOptions& options) {
  const auto decays = [](float beta) { return beta >= 0.0f && beta < 1.0f; };
  require(decays(options.beta1) && decays(options.beta2) && options.epsilon > 0.0f &&
              options.decay >= 0.0f && options.clip_norm >= 0.0 && std::isfinite(options.clip_norm),
          ErrorCode::invalid_argument, "AdamW: beta1 ", options.beta1, ", beta2 ", options.beta2,
          ", epsilon ", options.epsilon, ", decay ", options.decay, ", clip_norm ",
          options.clip_norm, ": betas must be in [0, 1), epsilon positive, the rest not negative");
}

AdamWOptimizer::AdamWOptimizer(const Transformer& model, const AdamWOptions& options)
    : model_(model), options_(options) {
  check(options);
  auto parameters = model.parameters();
  std::sort(parameters.begin(), parameters.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  for (const auto& parameter : parameters) {
    const Shape& shape = parameter.tensor.shape();
    Moments moments{parameter.name, parameter.tensor, Tensor(arena_, shape), Tensor(arena_, shape),
                    Tensor(arena_, shape)};
    std::fill_n(moments.first.data(), shape.size(), 0.0f);
    std::fill_n(moments.second.data(), shape.size(), 0.0f);
    moments_.push_back(moments);
  }
}

void AdamWOptimizer::add(const Gradients& gradients, Context& context) {
  const StandardRounding rounding;
  for (Moments& moments : moments_) {
    const Tensor gradient = gradients.of(moments.weight);
    if (!gradient.defined()) continue;
    if (moments.gathered) {
      kernels::add(context.parallel, gradient.size(), moments.sum.data(), gradient.data(),
                   moments.sum.data());
    } else {
      std::copy_n(gradient.data(), gradient.size(), moments.sum.data());
      moments.gathered = true;
    }
  }
}

double AdamWOptimizer::step(float rate, Context& context) {
  const StandardRounding rounding;
  double squares = 0.0;
  for (const Moments& moments : moments_) {
    if (!moments.gathered) continue;
    const Arena::Scope scratch(context.arena);
    auto* partial = context.arena.allocate_array<float>(
        (moments.sum.size() + kernels::kSquareChunk - 1) / kernels::kSquareChunk);
    squares +=
        kernels::sum_of_squares(context.parallel, moments.sum.size(), moments.sum.data(), partial);
  }
  const double norm = std::sqrt(squares);
  const bool finite = std::isfinite(norm);
  if (finite) {
    ++steps_;
    power1_ *= static_cast<double>(options_.beta1);
    power2_ *= static_cast<double>(options_.beta2);
  }
  kernels::AdamW args{.rate = rate,
                      .beta1 = options_.beta1,
                      .beta2 = options_.beta2,
                      .epsilon = options_.epsilon,
                      .correction1 = static_cast<float>(1.0 - power1_),
                      .correction2 = static_cast<float>(1.0 - power2_)};
  if (options_.clip_norm > 0.0 && norm > options_.clip_norm) {
    args.factor = static_cast<float>(options_.clip_norm / norm);
  }
  for (Moments& moments : moments_) {
    const bool update = moments.gathered && finite;
    moments.gathered = false;
    if (!update) continue;
    args.decay = moments.weight.shape().rank() >= 2 ? options_.decay : 0.0f;
    kernels::adamw(context.parallel, args, moments.sum.size(), moments.sum.data(),
                   moments.first.data(), moments.second.data(), moments.weight.data());
  }
  if (finite) model_.weights_changed(context);
  return norm;
}

std::vector<NamedTensor> AdamWOptimizer::moments() const {
  std::vector<NamedTensor> result;
  for (const Moments& moments : moments_)
    result.push_back({"first." + moments.name, moments.first});
  for (const Moments& moments : moments_) {
    result.push_back({"second." + moments.name, moments.second});
  }
  return result;
}

void AdamWOptimizer::restore(int64_t steps, std::span<const NamedTensor> moments,
                             const std::string& file) {
  for (const NamedTensor& own : this->moments()) copy_named(moments, own, file);
  steps_ = 0;
  power1_ = power2_ = 1.0;
  for (; steps_ < steps; ++steps_) {
    power1_ *= static_cast<double>(options_.beta1);
    power2_ *= static_cast<double>(options_.beta2);
  }
}

}  // namespace tril
