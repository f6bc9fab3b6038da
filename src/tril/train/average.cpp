#include "tril/train/average.h"

#include <algorithm>

#include "tril/base/rounding.h"
#include "tril/ops/weights.h"

namespace tril {
namespace {

std::string checkpoint_prefix(size_t number) { return concat("checkpoint.", number, "."); }

}  // namespace

WeightAverage::WeightAverage(const Transformer& model, const AverageOptions& options,
                             const Frozen& frozen)
    : frozen_(frozen), weights_(model.parameters()), options_(options) {
  for (const auto& weight : weights_) {
    if (!frozen_.holds(weight.name)) averaged_.push_back(weight);
  }
  for (const auto& weight : averaged_) tensors_.push_back(weight.tensor);
  require(!weights_.empty(), ErrorCode::unsupported,
          "average: this model was loaded for inference: its weights are packed");
  require(options.decay >= 0.0 && options.decay < 1.0 && options.checkpoints >= 1,
          ErrorCode::invalid_argument, "average: a decay of ", options.decay, " and ",
          options.checkpoints, " checkpoints: the decay must be in [0, 1), the number positive");
  if (options.type != AverageType::exponential) return;
  evaluating();  // starts with the current weights
}

std::unique_ptr<WeightAverage::Copy> WeightAverage::empty_copy() const {
  auto copy = std::make_unique<Copy>(weights_.front().tensor.device());
  for (const auto& weight : averaged_) {
    copy->weights.push_back({weight.name, Tensor(copy->arena, weight.tensor.shape())});
    copy->tensors.push_back(copy->weights.back().tensor);
  }
  return copy;
}

void WeightAverage::evaluating() {
  if (options_.type == AverageType::none) return;
  if (options_.type == AverageType::exponential && !copies_.empty()) return;
  if (static_cast<int64_t>(copies_.size()) == options_.checkpoints) copies_.pop_front();
  copies_.push_back(empty_copy());
  for (size_t i = 0; i < averaged_.size(); ++i) {
    copy_into(averaged_[i].tensor, copies_.back()->weights[i].tensor);
  }
}

void WeightAverage::updated(int64_t update, Context& context) {
  if (options_.type != AverageType::exponential) return;
  const StandardRounding rounding;
  const auto n = static_cast<double>(update);
  const double decay = std::min(options_.decay, (1.0 + n) / (10.0 + n));
  const auto share = static_cast<float>(1.0 - decay);
  ops::move_towards(context, share, tensors_, copies_.front()->tensors);
}

void WeightAverage::write_average(size_t number, const Tensor& to) const {
  if (copies_.size() <= 1) {
    copy_into(copies_.empty() ? averaged_[number].tensor
                              : ConstTensor(copies_[0]->weights[number].tensor),
              to);
    return;
  }
  std::vector<float> sum = to_floats(copies_[0]->weights[number].tensor);
  for (size_t copy = 1; copy < copies_.size(); ++copy) {
    const std::vector<float> more = to_floats(copies_[copy]->weights[number].tensor);
    for (size_t j = 0; j < sum.size(); ++j) sum[j] += more[j];
  }
  const float share = 1.0f / static_cast<float>(copies_.size());
  for (float& value : sum) value *= share;
  set_values(to, sum);
}

void WeightAverage::write_to(Transformer& model, Context& context) const {
  const StandardRounding rounding;
  const auto parameters = model.writable_parameters();
  context.queue.wait();  // the average may be part of what is enqueued
  size_t next = 0;       // of those that are averaged
  for (size_t i = 0; i < weights_.size(); ++i) {
    const auto& [name, weight] = weights_[i];
    const Tensor& to = parameters[i].tensor;
    if (frozen_.holds(name)) {
      copy_into(weight, to);
      continue;
    }
    write_average(next++, to);
    if (const int64_t row = frozen_.row_of(name); row != Frozen::kNoRow) {
      const OnHost values(weight);
      set_values(to.slice(row, row + 1), values.row(row, weight.columns()));
    }
  }
  model.weights_changed(context);
  context.queue.wait();  // an evaluation reads the weights in a queue of its own
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
