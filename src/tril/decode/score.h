// Scoring: the log-probability of given targets, token by token.
//
// Targets are known, so one parallel masked pass gives all their rows at once; and since that pass
// has the bits of decoding, the score of tokens emitted by a search equals the score it reported,
// compared with ==. A result depends on its own request and nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tril/decode/shortlist.h"
#include "tril/models/transformer.h"

namespace tril {

struct ScoreOptions {
  // What a target begins with: read, not scored. Absent, with decoder-only models alone: the first
  // token of a target is read, and its log-probability counts as 0.
  std::optional<int32_t> start = 2;
  int64_t batch_tokens = 4096;  // approximate source and target tokens per pass: bounds the memory
  // As in search: log-probabilities over each source's own set. A token outside it has a
  // log-probability of -infinity, and then so has the score.
  std::optional<Shortlist> shortlist{};
};

struct ScoreRequest {
  int64_t number = 0;           // returned with the result
  std::vector<int32_t> source;  // empty for a decoder-only model, and for no other
  // Scored as given: END only where it is included. At most max_length tokens.
  std::vector<int32_t> target;
  // The forced prefix of the search for this target: with a shortlist these tokens are in the set,
  // as they were in the search's. Without one it changes nothing.
  std::vector<int32_t> prefix{};
};

struct ScoreResult {
  int64_t number = 0;
  std::vector<float> log_probs;  // of each target token
  double score = 0.0;            // their sum, ascending, in double
};

// Returns nothing when no request is available now: those already received are scored, and it is
// called again. Returning nothing twice in a row is the end.
using NextScoreRequest = std::function<std::optional<ScoreRequest>()>;
using ScoreDone = std::function<bool(ScoreResult&&)>;  // false stops

// Scores all requests, in their order. Raises `invalid_argument` naming the request, before its
// batch is begun; and `bad_format` for a log-probability of NaN. Each batch resets the session;
// everything taken from its cache is released.
void score(const Transformer& model, const ScoreOptions& options, const NextScoreRequest& next,
           const ScoreDone& done, Session& session);

// One pair.
ScoreResult score(const Transformer& model, const ScoreOptions& options,
                  const ScoreRequest& request, Session& session);

}  // namespace tril
