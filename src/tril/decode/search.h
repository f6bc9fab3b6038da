// Search: from a model's log-probabilities to sentences, many at a time.
//
// Greedy, beam search and sampling, for encoder–decoders and decoder-only models. Sentences live in
// slots: as soon as one is finished the next takes its place, so short sentences never wait for
// long ones. What becomes of a sentence is a function of the model, the request and the options
// alone: not of what else is being decoded, how many slots there are, or the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tril/models/transformer.h"

namespace tril {

struct SearchOptions {
  int32_t start = 2;   // what a target begins with: given, never emitted
  int32_t end = 3;     // what ends one
  int64_t beam = 1;    // 1: greedy
  int64_t n_best = 1;  // hypotheses wanted, at most `beam` (or samples, at any beam of 1)
  // A finished hypothesis of n tokens, END included, ranks by score / n^length_penalty.
  double length_penalty = 1.0;
  int64_t max_tokens = 256;  // emitted at most, END included
  double max_ratio = 0.0;    // 0: no limit; else also at most max_ratio * source tokens + 10
  // Sampling instead of the best token: draws are a function of (seed, request, sample, position).
  bool sample = false;
  double temperature = 1.0;
  int64_t top_k = 0;   // 0: all
  double top_p = 1.0;  // the smallest set of tokens whose probabilities reach it
  uint64_t seed = 1;
};

struct SearchRequest {
  int64_t number = 0;           // given back with the result; drives sampling
  std::vector<int32_t> source;  // empty for a decoder-only model
  std::vector<int32_t>
      prefix;  // tokens the target must begin with; for a decoder-only model the text so far
};

struct Hypothesis {
  std::vector<int32_t> tokens;   // with the forced prefix and, where it ended, END
  std::vector<float> log_probs;  // of each token
  double score = 0.0;            // their sum, ascending, in double
  double rank = 0.0;             // what hypotheses are sorted by
  bool ended = false;            // false: cut at max_tokens
};

struct SearchResult {
  int64_t number = 0;
  std::vector<Hypothesis> hypotheses;  // best first; at least one
};

// Hands out requests until there are no more.
using NextRequest = std::function<std::optional<SearchRequest>()>;
// Called for each request as it is finished, in that order: not the order they came in. Returning
// false stops the search.
using SearchDone = std::function<bool(SearchResult&&)>;

// Decodes all requests, at most `slots` hypotheses at a time.
void search(const Transformer& model, const SearchOptions& options, int64_t slots,
            const NextRequest& next, const SearchDone& done, Session& session);

}  // namespace tril
