// Search: from a model's log-probabilities to sentences, many at a time.
//
// Greedy search, beam search and sampling, for encoder–decoders and decoder-only models; which
// tokens they choose is written in search_rule.h. Sentences live in slots: as soon as one is
// finished the next takes its place, so short sentences never wait for long ones. The result for a
// sentence is a function of the model, the request and the options alone: it does not depend on
// other sentences, the number of slots or the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tril/decode/search_rule.h"
#include "tril/decode/shortlist.h"
#include "tril/models/transformer.h"

namespace tril {

// How to search, with the special tokens: with text, Tokenizer's start(), end() and unwritable().
struct SearchOptions : SearchRule {
  // The first token of every target: given, never emitted. Absent: a decoder-only model begins with
  // the prefix, which may not be empty then.
  std::optional<int32_t> start = 2;
  int32_t end = 3;  // what ends one
  // Never chosen, though a prefix may contain them. With END among them every hypothesis is cut.
  std::vector<int32_t> forbidden{};
  // Each sentence is translated with the tokens of its own set, END among them: log p and the
  // choice are over these alone (decode/shortlist.h). Encoder–decoders only.
  std::optional<Shortlist> shortlist{};
  std::vector<int32_t> more_ends{};  // other tokens that end a target just as END does
  // Tokens that may not follow one another in this way, two or more each.
  std::vector<std::vector<int32_t>> forbidden_sequences{};
  std::optional<int32_t> forced_end{};  // an END that is chosen at the limit; absent: cut there

  bool is_end(int32_t token) const {
    return token == end || (!more_ends.empty() && std::find(more_ends.begin(), more_ends.end(),
                                                            token) != more_ends.end());
  }
  int64_t ends() const { return 1 + static_cast<int64_t>(more_ends.size()); }
  // Whether a choice depends on more of the sequence than its length.
  bool looks_back() const {
    return !forbidden_sequences.empty() || no_repeat_ngram > 0 || repetition_penalty != 1.0;
  }
  bool renormalizes() const { return renormalize && beam > 1; }
  // Whether the host works out what to choose by, row by row.
  bool changes_values() const { return looks_back() || renormalizes(); }
};

struct SearchRequest {
  int64_t number = 0;           // the caller's name for it: returned, and used in errors
  std::vector<int32_t> source;  // empty for a decoder-only model, and for no other
  // Tokens the target must begin with, without END; for a decoder-only model the text so far.
  // There must be room for another token in the model's max_length.
  std::vector<int32_t> prefix;
  // Samples are drawn from this stream of the seed's random numbers: requests with different ones
  // are independent.
  int64_t stream = 0;
  // How many of the prefix's first tokens the model itself asks for (a language): they count as
  // written, for max_tokens and min_tokens, and not in the sum that ranks.
  int64_t forced = 0;
};

struct Hypothesis {
  std::vector<int32_t> tokens;   // with the forced prefix and, if it ended, END
  std::vector<float> log_probs;  // of each token
  double score = 0.0;            // their sum, ascending, in double
  double rank = 0.0;             // see search_rule.h
  // False: cut at max_tokens, max_ratio or the model's max_length, whichever comes first.
  bool ended = false;
  bool end_forced = false;  // ended, but only because forced_end did so at the limit
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
    double score = 0.0;  // of the whole hypothesis: the sum by which it is ordered
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
