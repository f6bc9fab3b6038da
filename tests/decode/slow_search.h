// Search exactly as its header states it, slowly: no cache, no slots, no batches. Every step runs
// the parallel training pass over the whole hypothesis again.
#pragma once

#include <functional>
#include <vector>

#include "support/models.h"
#include "tril/decode/search.h"

namespace tril::testing {

// Log-probabilities of every next token, a row for each of START, if there is one, and `tokens`:
// one parallel pass under a tape, as in training.
std::vector<std::vector<float>> parallel_log_probs(const Transformer& model, const Tokens& source,
                                                   std::optional<int32_t> start,
                                                   const Tokens& tokens, Session& session);
// The same over a set of tokens alone: others have -infinity. `norm`, if given, receives the last
// row's normaliser: its largest logit minus the log-probability of that.
std::vector<std::vector<float>> parallel_log_probs(const Transformer& model, const Tokens& source,
                                                   std::optional<int32_t> start,
                                                   const Tokens& tokens, const Tokens& set,
                                                   Session& session, float* norm = nullptr);

// How many tokens may follow the prefix.
int64_t slow_limit(const SearchRequest& request, const SearchOptions& options,
                   const TransformerConfig& config);
double slow_rank(double sum, double tokens, double length_penalty);

// Beam search.
std::vector<Hypothesis> slow_beam(const Transformer& model, const SearchRequest& request,
                                  const SearchOptions& options);
// The likeliest token until END.
Hypothesis slow_greedy(const Transformer& model, const SearchRequest& request,
                       const SearchOptions& options);
// Every hypothesis there is, best first.
std::vector<Hypothesis> all_hypotheses(const Transformer& model, const SearchRequest& request,
                                       const SearchOptions& options);

// The results of search() for the requests, by number.
std::vector<SearchResult> run_search(const Transformer& model, const SearchOptions& options,
                                     int64_t slots, const std::vector<SearchRequest>& requests,
                                     Session& session);

// Equal in ids, in the bits of every log-probability and score, and in how they ended.
bool same(const Hypothesis& a, const Hypothesis& b);
bool same(const std::vector<Hypothesis>& a, const std::vector<Hypothesis>& b);

// A model of three tokens and START has little to say; these ids fit every random configuration.
SearchOptions small_options();
// A tiny model with `vocab` tokens whose probabilities are far from uniform.
Transformer sharp_model(Family family, int64_t vocab, uint64_t seed, int64_t max_length = 64);
// Requests with random sources (and prefixes, if wanted) that fit the model.
std::vector<SearchRequest> random_requests(const TransformerConfig& config, int count,
                                           int longest_source, int longest_prefix, int32_t end);
// Some of the rules that search.h states, by chance; and what makes a request fit them.
void add_random_rules(SearchOptions& options, const TransformerConfig& config);
void fit_to_rules(SearchRequest& request, const SearchOptions& options);
// A few tokens for each source token; END for all.
Shortlist random_shortlist(const TransformerConfig& config, int32_t end);

}  // namespace tril::testing
