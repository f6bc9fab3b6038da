// Tests the statement tril exists for on a model: the parallel pass of training and token-by-token
// decoding are the same function.
//
// Tokens go through forward() twice: all in one call under a tape, as in training, and one token
// per call and sequence with a growing cache, as in decoding. The logits of every position are
// compared as bit patterns. The tokens are
//   teacher-forced  given;
//   greedy          written by search(), the likeliest token after each;
//   beam            written by search(), several hypotheses at a time that continue in forks of
//                   each other's cache; every one goes through the parallel pass, even those that
//                   fell out of the beam, and the logits along its own history are compared.
// Alone: one sentence per call. In batches: the parallel pass has all sentences packed end to end
// with padding between them; step by step, given ones join one after another and leave when they
// are done, and a search has room for half of them, so that slots are refilled and calls have rows
// at many positions. The encoder's results for each source, its outputs and the keys and values
// that cross-attention reads, are compared too.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tril/base/words.h"
#include "tril/prove/pairs.h"

namespace tril {

struct AgreementOptions {
  Writing writing = Writing::teacher_forced;
  Company company = Company::alone;
  // Greedy and beam: see SearchOptions.
  int64_t max_tokens = 12;
  int32_t start = 2;
  std::vector<int32_t> forced{};  // what every target begins with after START: a language
  int32_t end = 3;
  std::vector<int32_t> forbidden{};
  int64_t beam = 4;
};

// Uses the session's masking, hooks and cache, and releases everything it took from the cache.
// Raises what encode(), forward() and search() raise.
Agreement compare_parallel_with_stepwise(const Transformer& model, std::span<const TokenPair> pairs,
                                         Session& session, const AgreementOptions& options = {});

}  // namespace tril
