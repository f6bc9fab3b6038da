// Averages of the weights during training: usually better than the weights after any one update.
//
// Exponential: after each update  average += (1 - d) (weight - average),  with d the decay, smaller
// in the first updates so that the beginning is forgotten. Of checkpoints: the mean over the
// weights at the last few evaluations, summed from the oldest on (Vaswani et al., section 6.1).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tril/io/safetensors.h"
#include "tril/models/transformer.h"
#include "tril/tensor/arena.h"
#include "tril/train/average_options.h"
#include "tril/train/frozen.h"

namespace tril {

class WeightAverage {
 public:
  // Of the weights of `model`, which it reads whenever they were updated. What is frozen is not
  // averaged, which could round it, but copied.
  WeightAverage(const Transformer& model, const AverageOptions& options)
      : WeightAverage(model, options, Frozen(model)) {}
  WeightAverage(const Transformer& model, const AverageOptions& options, const Frozen& frozen);

  // To be called after update number `update`.
  void updated(int64_t update, Context& context);
  // To be called before an evaluation.
  void evaluating();
  // Writes the averaged weights into a model of the same configuration.
  void write_to(Transformer& model, Context& context) const;

  // What a checkpoint keeps.
  std::vector<NamedTensor> tensors() const;
  void restore(std::span<const NamedTensor> tensors, const std::string& file);

 private:
  struct Copy {
    explicit Copy(Device device) : arena(device) {}
    Arena arena;
    std::vector<NamedTensor> weights;
    std::vector<Tensor> tensors;  // the same without names
  };
  std::unique_ptr<Copy> empty_copy() const;

  // Writes the average of a weight into `to`.
  void write_average(size_t number, const Tensor& to) const;

  Frozen frozen_;
  std::vector<NamedConstTensor> weights_;   // all, in the order of the model
  std::vector<NamedConstTensor> averaged_;  // those that are not frozen, likewise
  std::vector<ConstTensor> tensors_;        // the same without names
  AverageOptions options_;
  std::deque<std::unique_ptr<Copy>> copies_;  // the average, or the checkpoints, oldest first
};

}  // namespace tril
