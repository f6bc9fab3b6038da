#include "tril/train/average.h"

#include <algorithm>

#include "tril/base/rounding.h"

namespace tril {
namespace {

constexpr int64_t kChunk = 1 << 14;

// f(i) for every element, in parallel; each element is its own business.
template <class F>
void for_elements(const Parallel& parallel, int64_t size, const F& f) {
  parallel((size + kChunk - 1) / kChunk, [&](int64_t chunk) {
    const int64_t end = std::min(size, (chunk + 1) * kChunk);
    for (int64_t i = chunk * kChunk; i < end; ++i) f(i);
  });
}

std::string checkpoint_prefix(size_t number) { return concat("checkpoint.", number, "."); }

}  // namespace

WeightAverage::WeightAverage(const Transformer& model, const AverageOptions& options)
    : weights_(model.parameters()), options_(options) {
  require(options.decay >= 0.0 && options.decay < 1.0 && options.checkpoints >= 1,
          ErrorCode::invalid_argument, "average: a decay of ", options.decay, " and ",
          options.checkpoints, " checkpoints: the decay must be in [0, 1), the number positive");
  if (options.type != AverageType::exponential) return;
  evaluating();  // begins with the weights as they are
}

std::unique_ptr<WeightAverage::Copy> WeightAverage::empty_copy() const {
  auto copy = std::make_unique<Copy>();
  for (const auto& weight : weights_) {
    copy->weights.push_back({weight.name, Tensor(copy->arena, weight.tensor.shape())});
  }
  return copy;
}

void WeightAverage::evaluating() {
  if (options_.type == AverageType::none) return;
  if (options_.type == AverageType::exponential && !copies_.empty()) return;
  if (static_cast<int64_t>(copies_.size()) == options_.checkpoints) copies_.pop_front();
  copies_.push_back(empty_copy());
  for (size_t i = 0; i < weights_.size(); ++i) {
    std::copy_n(weights_[i].tensor.data(), weights_[i].tensor.size(),
                copies_.back()->weights[i].tensor.data());
  }
}

void WeightAverage::updated(int64_t update, Context& context) {
  if (options_.type != AverageType::exponential) return;
  const StandardRounding rounding;
  const auto n = static_cast<double>(update);
  const double decay = std::min(options_.decay, (1.0 + n) / (10.0 + n));
  const auto share = static_cast<float>(1.0 - decay);
  for (size_t i = 0; i < weights_.size(); ++i) {
    const float* weight = weights_[i].tensor.data();
    float* average = copies_.front()->weights[i].tensor.data();
    for_elements(context.parallel, weights_[i].tensor.size(),
                 [&](int64_t j) { average[j] += share * (weight[j] - average[j]); });
  }
}

void WeightAverage::write_to(Transformer& model, Context& context) const {
  const StandardRounding rounding;
  const auto parameters = model.parameters();
  const float share = 1.0f / static_cast<float>(std::max<size_t>(copies_.size(), 1));
  for (size_t i = 0; i < weights_.size(); ++i) {
    float* to = parameters[i].tensor.data();
    const int64_t size = parameters[i].tensor.size();
    if (copies_.empty()) {
      std::copy_n(weights_[i].tensor.data(), size, to);
      continue;
    }
    std::vector<const float*> from;
    for (const auto& copy : copies_) from.push_back(copy->weights[i].tensor.data());
    for_elements(context.parallel, size, [&](int64_t j) {
      float sum = from[0][j];
      for (size_t copy = 1; copy < from.size(); ++copy) sum += from[copy][j];
      to[j] = sum * share;
    });
  }
  model.weights_changed(context);
}

std::vector<NamedTensor> WeightAverage::tensors() const {
  std::vector<NamedTensor> result;
  for (size_t copy = 0; copy < copies_.size(); ++copy) {
    for (const NamedTensor& weight : copies_[copy]->weights) {
      result.push_back({checkpoint_prefix(copy) + weight.name, weight.tensor});
    }
  }
  return result;
}

void WeightAverage::restore(std::span<const NamedTensor> tensors, const std::string& file) {
  copies_.clear();
  for (;;) {
    const std::string prefix = checkpoint_prefix(copies_.size());
    if (std::none_of(tensors.begin(), tensors.end(),
                     [&](const NamedTensor& one) { return one.name.starts_with(prefix); })) {
      break;
    }
    copies_.push_back(empty_copy());
    for (const NamedTensor& weight : copies_.back()->weights) {
      copy_named(tensors, {prefix + weight.name, weight.tensor}, file);
    }
  }
  const auto held = static_cast<int64_t>(copies_.size());
  const bool fits = options_.type == AverageType::none          ? held == 0
                    : options_.type == AverageType::exponential ? held == 1
                                                                : held <= options_.checkpoints;
  require(fits, ErrorCode::bad_format, file, ": holds ", held,
          " averaged weights, which is not what its options ask for");
}

}  // namespace tril
