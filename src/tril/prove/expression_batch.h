// What the proofs for every input run: the model's configuration with room for their tokens, and
// the batches of a training pass.
#pragma once

#include <cstdint>

#include "tril/prove/expression_rows.h"
#include "tril/tensor/rows.h"

namespace tril {

// The configuration with room for the proof's tokens and positions, without dropout. This adds
// leaves and changes none.
TransformerConfig config_with_room(const TransformerConfig& config,
                                   const EveryInputOptions& options, int64_t tokens);

// Sources and targets of one training pass.
struct ExpressionBatch {
  Rows source{};  // empty for a decoder-only model
  Rows target{};
  int64_t first = 0;  // the checked sentence's first row among the target's
};
// The first `length` tokens of the checked sentence as training has them: packed, with a sentence
// directly before and another behind padding.
ExpressionBatch packed_batch(const TokenVariables& variables, const EveryInputOptions& options,
                             int64_t length);
// The same tokens with nothing else in the batch.
ExpressionBatch batch_alone(const TokenVariables& variables, const EveryInputOptions& options,
                            int64_t length);

}  // namespace tril
