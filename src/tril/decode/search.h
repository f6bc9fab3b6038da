// Search: from a model's log-probabilities to sentences, many at a time.
//
// Greedy search, beam search and sampling, for encoder–decoders and decoder-only models. Sentences
// live in slots: as soon as one is finished the next takes its place, so short sentences never wait
// for long ones. The result for a sentence is a function of the model, the request and the options
// alone: it does not depend on other sentences, the number of slots or the number of threads.
//
// The model reads START and the forced prefix in one call; then every step appends one token.
// log p is the fp32 number of Transformer::log_probs, with a shortlist over the sentence's set; a
// score adds them in double, ascending.
//
// Beam search. Each alive hypothesis offers its continuations; they are ordered by score, then by
// the place of their hypothesis, then by log p, then by lower token, and the first 2 * beam are
// considered. A continuation with END among the first `beam` is a finished hypothesis, one further
// back is dropped; of the others the first `beam` are the alive hypotheses of the next step, in
// this order. A sentence is done when at least `beam` hypotheses have finished, or when it reaches
// its limit, where alive hypotheses are cut. Results are sorted: finished ones before cut ones (a
// loop's mean log-probability tends to 0, so by rank alone it would win), then by rank, the earlier
// first at equal rank. So a beam of 1 is greedy search: the likeliest token, the lower one at equal
// likelihood, until END; and a beam wide enough to drop nothing is exhaustive search.
//
// Sampling. The weight of a token is e^((log p - m) / temperature) in double (base/math.h), m being
// the largest log p allowed. `top_k` keeps the k largest weights (the lower token at equal
// weights), `top_p` the fewest largest weights whose sum reaches top_p times the sum of those that
// top_k kept. A token is drawn in proportion to its weight. Samples are independent of each other
// and may be equal. On a GPU weights are integers (kernels/cuda/draw.h), so the same seed draws
// other tokens than on the CPU.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tril/base/words.h"
#include "tril/decode/shortlist.h"
#include "tril/models/transformer.h"

namespace tril {

// When a beam search is done, apart from its limit: see above.
enum class EarlyStopping { yes, no, never };
template <>
struct Words<EarlyStopping> {
  static constexpr std::string_view kList[] = {"yes", "no", "never"};
};

// What becomes of hypotheses that are cut at the limit: see above.
enum class CutHypotheses { last, ranked };
template <>
struct Words<CutHypotheses> {
  static constexpr std::string_view kList[] = {"last", "ranked"};
};

// How to search, independent of the vocabulary.
struct SearchRule {
  int64_t beam = 1;    // 1: greedy
  int64_t n_best = 1;  // hypotheses wanted, at most `beam`; with `sample`, how many to draw
  // A hypothesis of n tokens, prefix and END included, ranks by score / n^length_penalty.
  double length_penalty = 0.6;
  EarlyStopping early_stopping = EarlyStopping::yes;
  CutHypotheses cut = CutHypotheses::last;
  // Whether the given prefix (a prompt) counts in the rank, with its score and its length.
  bool rank_prefix = true;
  // The most tokens to choose, END included; the prefix does not count, except for its forced
  // tokens. 0: as many as the model's max_length allows, which is the limit in any case.
  int64_t max_tokens = 0;
  // END is not chosen before this many tokens, counted in the same way.
  int64_t min_tokens = 0;
  // Encoder–decoders: also at most max_ratio * source tokens + 10, so that a translation that loops
  // does not do so for long. 0: no such limit.
  double max_ratio = 4.0;
  // No sequence of this many tokens occurs twice in START, prefix and what follows. 0: any may.
  int64_t no_repeat_ngram = 0;
  // Tokens that were read or written before become less likely (above 1) or more (below 1).
  double repetition_penalty = 1.0;  // above 0
  // Draw instead of taking the best; requires a beam of 1.
  bool sample = false;
  double temperature = 1.0;  // above 0
  int64_t top_k = 0;         // 0: all
  double top_p = 1.0;        // above 0, at most 1
  uint64_t seed = 1;         // draws are a function of (seed, stream, sample, position)

  // The most hypotheses alive at once, which is the number of slots a request needs.
  int64_t width() const { return sample ? n_best : beam; }
  bool operator==(const SearchRule&) const = default;
};

// And the special tokens: with text, Tokenizer's start(), end() and unwritable().
struct SearchOptions : SearchRule {
  int32_t start = 2;  // the first token of every target: given, never emitted
  int32_t end = 3;    // what ends one
  // Never chosen, though a prefix may contain them; probabilities are not renormalised. With END
  // among them every hypothesis is cut.
  std::vector<int32_t> forbidden{};
  // Each sentence is translated with the tokens of its own set, END among them: log p and the
  // choice are over these alone (decode/shortlist.h). Encoder–decoders only.
  std::optional<Shortlist> shortlist{};
};

struct SearchRequest {
  int64_t number = 0;           // the caller's name for it: returned, and used in errors
  std::vector<int32_t> source;  // empty for a decoder-only model, and for no other
  // Tokens the target must begin with, without END; for a decoder-only model the text so far.
  // Shorter than the model's max_length: there must be room for a token.
  std::vector<int32_t> prefix;
  // Samples are drawn from this stream of the seed's random numbers: requests with different ones
  // are independent.
  int64_t stream = 0;
};

struct Hypothesis {
  std::vector<int32_t> tokens;   // with the forced prefix and, if it ended, END
  std::vector<float> log_probs;  // of each token
  double score = 0.0;            // their sum, ascending, in double
  double rank = 0.0;             // score / n^length_penalty
  // False: cut at max_tokens, max_ratio or the model's max_length, whichever comes first.
  bool ended = false;
};

struct SearchResult {
  int64_t number = 0;
  // At least one, best first. Samples come in the order they were drawn: sorted, the first would no
  // longer be a fair draw.
  std::vector<Hypothesis> hypotheses;
};

// One step of one request, to show how a result was found. The hypotheses it begins with are those
// kept in the step before, in their order; in the first step there is one, the forced prefix.
struct SearchStep {
  enum class Fate {
    kept,      // goes on (in the last step: was cut, or abandoned because enough had ended)
    finished,  // ended with END
    dropped,   // considered, but fell out of the beam
  };
  struct Candidate {
    size_t parent = 0;  // which hypothesis it continues
    int32_t token = 0;
    float log_prob = 0.0f;
    double score = 0.0;  // of the whole hypothesis
    Fate fate = Fate::dropped;
  };

  int64_t number = 0;  // of the request
  int64_t length = 0;  // tokens of each hypothesis before this step, the prefix included
  // All that were considered, best first; in sampling, all that were drawn.
  std::vector<Candidate> candidates;
};
// Called after each step of each request, in the order of their rows in the step; absent, it costs
// nothing.
using SearchTrace = std::function<void(const SearchStep&)>;

// Provides requests. Returning nothing means that none is available now: it is called again after
// each step while sentences are being decoded, and the search ends when there is nothing and none
// is. So a source that may block (a terminal) blocks only when everything it provided is done.
using NextRequest = std::function<std::optional<SearchRequest>()>;
// Called for each request when it is finished, which need not be in the order of submission. It may
// use the session, and search with it. Returning false stops the search.
using SearchDone = std::function<bool(SearchResult&&)>;

// Decodes all requests, at most `slots` hypotheses at a time; `slots` is at least the beam, or the
// number of samples of a request. Raises `invalid_argument` naming the option, or the request by
// its number, before anything is decoded for it; and `bad_format` when a model's log-probabilities
// are NaN. Each step resets the session. However the search ends, it releases everything it took
// from the session's cache.
void search(const Transformer& model, const SearchOptions& options, int64_t slots,
            const NextRequest& next, const SearchDone& done, Session& session,
            const SearchTrace& trace = {});

}  // namespace tril
