// The table that compares training and inference, each cell with evidence from this model and one
// sentence.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tril/prove/pairs.h"

namespace tril {

// How the model writes: see SearchOptions. START is the target's first token.
struct TableOptions {
  int64_t max_tokens = 12;
  std::vector<int32_t> forced{};
  int32_t end = 3;
  std::vector<int32_t> forbidden{};
};

// Uses the session's masking and hooks. The weight that is changed to see both phases follow it
// belongs to a copy of the model. The target must have at least two tokens: one alone has no
// future.
TableEvidence gather_table(const Transformer& model, const TokenPair& pair,
                           const TableOptions& options, Session& session);

// The number of wrong predictions in a parallel pass over the target.
int64_t count_mistakes(const Transformer& model, const TokenPair& pair,
                       std::span<const int32_t> forbidden, Session& session);

}  // namespace tril
