#include "tril/train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "tril/kernels/adamw.h"
#include "tril/kernels/elementwise.h"

namespace tril {

AdamWOptimizer::AdamWOptimizer(const Transformer& model, const AdamWOptions& options)
    : options_(options) {
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

double AdamWOptimizer::step(Transformer& model, const Gradients& gradients, float rate,
                            Context& context) {
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

  ++steps_;
  // Powers by repeated multiplication: exact in order, no libm.
  double power1 = 1.0;
  double power2 = 1.0;
  for (int64_t i = 0; i < std::min<int64_t>(steps_, 100000); ++i) {
    power1 *= static_cast<double>(options_.beta1);
    power2 *= static_cast<double>(options_.beta2);
  }
  kernels::AdamW args{.rate = rate,
                      .beta1 = options_.beta1,
                      .beta2 = options_.beta2,
                      .epsilon = options_.epsilon,
                      .correction1 = static_cast<float>(1.0 - power1),
                      .correction2 = static_cast<float>(1.0 - power2)};
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
  model.weights_changed(context);
  return norm;
}

}  // namespace tril
