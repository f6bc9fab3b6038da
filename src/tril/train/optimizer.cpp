#include "tril/train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "tril/base/rounding.h"
#include "tril/kernels/adamw.h"
#include "tril/kernels/elementwise.h"

namespace tril {

AdamWOptimizer::AdamWOptimizer(const Transformer& model, const AdamWOptions& options)
    : model_(model), options_(options) {
  const auto decays = [](float beta) { return beta >= 0.0f && beta < 1.0f; };
  require(decays(options.beta1) && decays(options.beta2) && options.epsilon > 0.0f &&
              options.decay >= 0.0f && options.clip_norm >= 0.0,
          ErrorCode::invalid_argument, "AdamW: beta1 ", options.beta1, ", beta2 ", options.beta2,
          ", epsilon ", options.epsilon, ", decay ", options.decay, ", clip_norm ",
          options.clip_norm, ": betas must be in [0, 1), epsilon positive, the rest not negative");
  auto parameters = model.parameters();
  std::sort(parameters.begin(), parameters.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  for (const auto& parameter : parameters) {
    const Shape& shape = parameter.tensor.shape();
    Moments moments{parameter.tensor, Tensor(arena_, shape), Tensor(arena_, shape)};
    std::fill_n(moments.first.data(), shape.size(), 0.0f);
    std::fill_n(moments.second.data(), shape.size(), 0.0f);
    moments_.push_back(moments);
  }
}

double AdamWOptimizer::step(const Gradients& gradients, float rate, Context& context) {
  const StandardRounding rounding;
  double squares = 0.0;
  for (const Moments& moments : moments_) {
    const Tensor gradient = gradients.of(moments.weight);
    if (!gradient.defined()) continue;
    const Arena::Scope scratch(context.arena);
    auto* partial = context.arena.allocate_array<float>(
        (gradient.size() + kernels::kSquareChunk - 1) / kernels::kSquareChunk);
    squares += kernels::sum_of_squares(context.parallel, gradient.size(), gradient.data(), partial);
  }
  const double norm = std::sqrt(squares);

  if (!std::isfinite(norm)) return norm;
  ++steps_;
  power1_ *= static_cast<double>(options_.beta1);
  power2_ *= static_cast<double>(options_.beta2);
  kernels::AdamW args{.rate = rate,
                      .beta1 = options_.beta1,
                      .beta2 = options_.beta2,
                      .epsilon = options_.epsilon,
                      .correction1 = static_cast<float>(1.0 - power1_),
                      .correction2 = static_cast<float>(1.0 - power2_)};
  if (options_.clip_norm > 0.0 && norm > options_.clip_norm) {
    args.factor = static_cast<float>(options_.clip_norm / norm);
  }
  for (const Moments& moments : moments_) {
    const Tensor gradient = gradients.of(moments.weight);
    if (!gradient.defined()) continue;
    args.decay = moments.weight.shape().rank() >= 2 ? options_.decay : 0.0f;
    kernels::adamw(context.parallel, args, gradient.size(), gradient.data(), moments.first.data(),
                   moments.second.data(), moments.weight.data());
  }
  model_.weights_changed(context);
  return norm;
}

}  // namespace tril
