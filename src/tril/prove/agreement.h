// The statement tril exists for, put to a model: the parallel pass of training and token-by-token
// decoding are the same function.
//
// Tokens go through forward() twice: all in one call under a tape, as training does it, and one
// token a call and sequence with a growing cache, as decoding does it. The logits of every position
// are compared as bit patterns. Where the tokens come from:
//   teacher-forced  they are given;
//   greedy          step by step, the model writes the likeliest token after each; what it wrote
//                   then goes through the parallel pass;
//   beam            step by step, several hypotheses that change places in the cache
//                   (Cache::fork, Cache::reorder); every one that survives goes through the
//                   parallel pass, and the logits met along its own history are compared.
// Alone: a sentence a call. In batches: the parallel pass has all sentences packed end to end with
// filler between them; step by step they join one after another, so that a call has rows at many
// positions, and leave when they are done.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tril/base/words.h"
#include "tril/prove/pairs.h"

namespace tril {

enum class Writing { teacher_forced, greedy, beam };
enum class Company { alone, in_batches };

template <>
struct Words<Writing> {
  static constexpr std::string_view kList[] = {"teacher-forced", "greedy", "beam"};
};
template <>
struct Words<Company> {
  static constexpr std::string_view kList[] = {"alone", "in batches"};
};

struct AgreementOptions {
  Writing writing = Writing::teacher_forced;
  Company company = Company::alone;
  // Greedy and beam: START is the first token of each target; at most so many tokens follow, and
  // never more than the model's max_length has room for.
  int64_t max_tokens = 12;
  int32_t end = 3;  // what ends a sentence
  int64_t beam = 4;
};

struct Agreement {
  int64_t sentences = 0;
  int64_t sequences = 0;  // sentences, or hypotheses that survived
  int64_t positions = 0;
  int64_t logits = 0;
  int64_t differing = 0;       // logits whose bits are not the same
  int64_t parallel_calls = 0;  // of forward(), counted in the model
  int64_t stepwise_calls = 0;
  int64_t moved = 0;  // beam: how often a hypothesis took over the cache of another

  // The first position of the first sequence whose logits differ.
  struct Place {
    int64_t sequence = 0;
    int64_t position = 0;
    bool operator==(const Place&) const = default;
  };
  std::optional<Place> first{};
};

// Uses the session's masking, hooks and cache, and gives back all it took of the cache. Raises what
// encode() and forward() raise, and `bad_format` when log-probabilities are NaN where a token is to
// be chosen.
Agreement compare_parallel_with_stepwise(const Transformer& model, std::span<const TokenPair> pairs,
                                         Session& session, const AgreementOptions& options = {});

}  // namespace tril
