// Token by token with a cache: what decoding does, with every logit kept. Internal to prove/.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tril/prove/agreement.h"

namespace tril {

// The logits of one position; hypotheses that part later share what they met before.
using LogitsRow = std::shared_ptr<const std::vector<float>>;

// What forward() was given step by step, and the logits it answered with.
struct Transcript {
  size_t sentence = 0;  // which pair
  std::vector<int32_t> tokens;
  std::vector<LogitsRow> logits;  // one a token
};

struct StepwiseResult {
  std::vector<Transcript> transcripts;  // a sentence each, or every hypothesis that survived
  int64_t moved = 0;                    // see Agreement
};

// The pairs from `first` on, `count` of them, at the same time: sentence i joins at step i.
StepwiseResult write_step_by_step(const Transformer& model, std::span<const TokenPair> pairs,
                                  size_t first, size_t count, const AgreementOptions& options,
                                  Session& session);

}  // namespace tril
