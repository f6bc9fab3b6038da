#include "tril/train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "tril/base/rounding.h"
#include "tril/io/safetensors.h"
#include "tril/ops/optimizer.h"
#include "tril/ops/rows.h"
#include "tril/ops/weights.h"
#include "tril/tensor/arena.h"
#include "tril/train/frozen.h"

namespace tril {

void check(const AdamWOptions& options) {
  const auto decays = [](float beta) { return beta >= 0.0f && beta < 1.0f; };
  require(decays(options.beta1) && decays(options.beta2) && options.epsilon > 0.0f &&
              options.decay >= 0.0f && options.clip_norm >= 0.0 && std::isfinite(options.clip_norm),
          ErrorCode::invalid_argument, "AdamW: beta1 ", options.beta1, ", beta2 ", options.beta2,
          ", epsilon ", options.epsilon, ", decay ", options.decay, ", clip_norm ",
          options.clip_norm, ": betas must be in [0, 1), epsilon positive, the rest not negative");
}

class AdamWOptimizer::State {
 public:
  State(const Transformer& model, const AdamWOptions& options, const Frozen& frozen);
  void add(const Gradients& gradients, MicroBatch which, Context& context);
  void step(float rate, Context& context);
  ops::AdamW& adamw() { return adamw_; }
  std::vector<NamedTensor> moments() const;

 private:
  // A parameter's gradient while micro-batches come in.
  struct Gathered {
    static constexpr int64_t kNone = -1;
    Tensor sum{};           // memory for it, allocated when first needed
    int64_t since = kNone;  // the first micro-batch of the update that had a gradient
  };

  std::vector<ops::UpdateTensor> without_frozen_rows() const;

  Transformer model_;
  ops::AdamW adamw_;
  Arena arena_;
  // Of the parameters that are not frozen:
  std::vector<std::string> names_;          // sorted
  std::vector<ops::UpdateTensor> tensors_;  // in their order
  std::vector<Gathered> gathered_;          // likewise
  std::vector<int64_t> frozen_rows_;        // likewise; empty where no parameter has one
  bool packs_ = false;  // weights have packed forms that AdamW does not write itself
};

AdamWOptimizer::State::State(const Transformer& model, const AdamWOptions& options,
                             const Frozen& frozen)
    : model_(model),
      adamw_(model.placement().device, {.beta1 = options.beta1,
                                        .beta2 = options.beta2,
                                        .epsilon = options.epsilon,
                                        .clip_norm = options.clip_norm}),
      arena_(model.placement().device) {
  check(options);
  auto parameters = model_.writable_parameters();
  std::sort(parameters.begin(), parameters.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  // A rounded weight is written together with the weight itself, and then no other form of it is
  // kept.
  packs_ = std::none_of(parameters.begin(), parameters.end(),
                        [](const auto& parameter) { return parameter.rounded.defined(); });
  std::erase_if(parameters, [&](const auto& parameter) { return frozen.holds(parameter.name); });
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
  gathered_.resize(tensors_.size());
  for (const std::string& name : names_) frozen_rows_.push_back(frozen.row_of(name));
  if (std::all_of(frozen_rows_.begin(), frozen_rows_.end(),
                  [](int64_t row) { return row == Frozen::kNoRow; })) {
    frozen_rows_.clear();
  }
}

void AdamWOptimizer::State::add(const Gradients& gradients, MicroBatch which, Context& context) {
  const StandardRounding rounding;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    Tensor& taken = tensors_[i].gradient;
    Gathered& gathered = gathered_[i];
    const Tensor gradient = gradients.of(tensors_[i].weight);
    if (which.count == 1) {
      taken = gradient;
      continue;
    }
    if (which.index == 0 || gathered.since == which.index) {
      taken = Tensor();
      gathered.since = Gathered::kNone;
    }
    if (!gradient.defined()) continue;
    if (gathered.since != Gathered::kNone) {
      ops::add_into(context, gradient, gathered.sum);
      continue;
    }
    if (!gathered.sum.defined()) gathered.sum = Tensor(arena_, gradient.shape());
    ops::copy(context, gradient, gathered.sum);
    taken = gathered.sum;
    gathered.since = which.index;
  }
}

void AdamWOptimizer::State::step(float rate, Context& context) {
  const StandardRounding rounding;
  if (frozen_rows_.empty()) {
    adamw_.update(context, tensors_, rate);
  } else {
    adamw_.update(context, without_frozen_rows(), rate);
  }
  if (packs_) model_.weights_changed(context);
}

// A table with a frozen row is two tables, those above and below it.
std::vector<ops::UpdateTensor> AdamWOptimizer::State::without_frozen_rows() const {
  std::vector<ops::UpdateTensor> result;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const ops::UpdateTensor& whole = tensors_[i];
    const int64_t frozen = frozen_rows_[i];
    if (frozen == Frozen::kNoRow) {
      result.push_back(whole);
      continue;
    }
    const auto add = [&](int64_t begin, int64_t end) {
      if (begin == end) return;
      const auto rows = [&](const Tensor& tensor) {
        return tensor.defined() ? tensor.slice(begin, end) : tensor;
      };
      result.push_back({.weight = rows(whole.weight),
                        .first = rows(whole.first),
                        .second = rows(whole.second),
                        .gradient = rows(whole.gradient),
                        .rounded = rows(whole.rounded),
                        .decay = whole.decay});
    };
    add(0, frozen);
    add(frozen + 1, whole.weight.shape()[0]);
  }
  return result;
}

std::vector<NamedTensor> AdamWOptimizer::State::moments() const {
  std::vector<NamedTensor> result;
  for (size_t i = 0; i < names_.size(); ++i) {
    result.push_back({"first." + names_[i], tensors_[i].first});
  }
  for (size_t i = 0; i < names_.size(); ++i) {
    result.push_back({"second." + names_[i], tensors_[i].second});
  }
  return result;
}

AdamWOptimizer::AdamWOptimizer(Transformer& model, const AdamWOptions& options)
    : AdamWOptimizer(model, options, Frozen(model)) {}
AdamWOptimizer::AdamWOptimizer(Transformer& model, const AdamWOptions& options,
                               const Frozen& frozen)
    : state_(new State(model, options, frozen)) {}
AdamWOptimizer::~AdamWOptimizer() { delete state_; }

void AdamWOptimizer::add(const Gradients& gradients, MicroBatch which, Context& context) {
  state_->add(gradients, which, context);
}
void AdamWOptimizer::step(float rate, Context& context) { state_->step(rate, context); }
void AdamWOptimizer::step(const Gradients& gradients, float rate, Context& context) {
  add(gradients, {}, context);
  step(rate, context);
}

AdamWOptimizer::Last AdamWOptimizer::last(Context& context) const {
  const ops::AdamW::Last last = state_->adamw().last(context);
  return {last.norm, last.steps};
}
int64_t AdamWOptimizer::fetch_last(Context& context) const {
  return state_->adamw().fetch_last(context);
}
AdamWOptimizer::Last AdamWOptimizer::fetched_last(Context& context, int64_t number) {
  const ops::AdamW::Last last = ops::AdamW::fetched_last(context, number);
  return {last.norm, last.steps};
}

std::vector<NamedTensor> AdamWOptimizer::moments() const { return state_->moments(); }

void AdamWOptimizer::restore(int64_t steps, std::span<const NamedTensor> moments,
                             const std::string& file) {
  for (const NamedTensor& own : this->moments()) copy_named(moments, own, file);
  state_->adamw().restore(steps);
}

}  // namespace tril
