// What training leaves as it is: whole parameters, and one row of the embeddings.
//
// A frozen parameter keeps its bits: it has no moments and no decay, does not count for the norm of
// the gradient, and is not averaged. The row is that of the configuration's frozen_token, such as
// Marian's padding, which is what its decoder reads first. Internal to train/.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "tril/models/transformer.h"

namespace tril {

class Frozen {
 public:
  // The row alone.
  explicit Frozen(const Transformer& model) : Frozen(model.config(), {}) {}
  // Parts are "embeddings" (tables of tokens), "positions" (tables of positions), "encoder",
  // "decoder", or the first characters of parameters' names. Raises `invalid_argument` for a part
  // that the model does not have, and if nothing would be left to learn.
  Frozen(const TransformerConfig& config, std::span<const std::string> parts);

  // How many numbers the frozen parameters have.
  int64_t weights() const { return weights_; }
  bool holds(const std::string& parameter) const { return names_.contains(parameter); }
  // The row of a parameter that keeps its values; kNoRow: none.
  static constexpr int64_t kNoRow = -1;
  int64_t row_of(const std::string& parameter) const;

 private:
  std::set<std::string> names_;
  int64_t weights_ = 0;
  std::set<std::string> tables_;  // the parameters with such a row
  int64_t row_ = kNoRow;
};

}  // namespace tril
