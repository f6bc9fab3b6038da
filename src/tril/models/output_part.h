// OutputPart: some tokens of a model's target vocabulary, with their part of its output projection.
//
// The cost of logits over a part is proportional to its size, and their bits are those of the same
// tokens' logits over the whole vocabulary. Transformer::choose_output() fills a part, which may be
// filled again and keeps its memory; it is out of date once the model's weights change. A part
// belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tril/models/transformer.h"
#include "tril/ops/linear_parts.h"

namespace tril {

class OutputPart {
 public:
  // In the order of the columns of its logits.
  std::span<const int32_t> tokens() const { return tokens_; }

 private:
  friend class Transformer;
  Arena arena_;
  ops::LinearWeight weight_;
  std::vector<int32_t> tokens_;
};

}  // namespace tril
