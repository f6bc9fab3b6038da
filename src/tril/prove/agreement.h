// The statement tril exists for, put to a model: the parallel pass of training and token-by-token
// decoding are the same function.
//
// Every sentence goes through forward() twice: all its tokens in one call under a tape, as training
// does it, and one token a call with a growing cache, as decoding does it. The logits of every
// position are compared as bit patterns.
#pragma once

#include <cstdint>
#include <span>

#include "tril/prove/pairs.h"

namespace tril {

struct Agreement {
  int64_t sentences = 0;
  int64_t positions = 0;
  int64_t logits = 0;
  int64_t differing = 0;       // logits whose bits are not the same
  int64_t parallel_calls = 0;  // of forward()
  int64_t stepwise_calls = 0;
  double parallel_seconds = 0.0;
  double stepwise_seconds = 0.0;
};

Agreement compare_parallel_with_stepwise(const Transformer& model, std::span<const TokenPair> pairs,
                                         Session& session);

}  // namespace tril
