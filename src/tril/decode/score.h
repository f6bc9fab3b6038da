// Scoring: the log-probability of given targets, token by token.
//
// Targets are whole, so one parallel pass under the mask gives all their rows at once; and since
// that pass has the bits of decoding, the score of the tokens a search emitted is the very score it
// reported, compared with ==. A result depends on its own request and nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tril/decode/shortlist.h"
#include "tril/models/transformer.h"

namespace tril {

struct ScoreOptions {
  int32_t start = 2;            // what a target begins with: read, not scored
  int64_t batch_tokens = 4096;  // source and target tokens in one pass, about: bounds the memory
  // As search's: log-probabilities over each source's own set. A token outside it has one of
  // -infinity, and so does the score then.
  std::optional<Shortlist> shortlist{};
};

struct ScoreRequest {
  int64_t number = 0;           // given back with the result
  std::vector<int32_t> source;  // empty for a decoder-only model, and for no other
  // What is scored, as it stands: END only where it is written. At most max_length tokens.
  std::vector<int32_t> target;
  // What the search for this target was made to begin with: with a shortlist these tokens are in
  // the set, as they were in the search's. Without one it changes nothing.
  std::vector<int32_t> prefix{};
};

struct ScoreResult {
  int64_t number = 0;
  std::vector<float> log_probs;  // of each target token
  double score = 0.0;            // their sum, ascending, in double
};

// Nothing means that none is there now: what was handed out is scored, and it is asked again. The
// end is nothing twice running.
using NextScoreRequest = std::function<std::optional<ScoreRequest>()>;
using ScoreDone = std::function<bool(ScoreResult&&)>;  // false stops

// Scores all requests, in their order. Raises `invalid_argument` naming the request, before its
// batch is begun; and `bad_format` for a log-probability of NaN. Each batch resets the session; all
// that is taken of its cache is given back.
void score(const Transformer& model, const ScoreOptions& options, const NextScoreRequest& next,
           const ScoreDone& done, Session& session);

// One pair.
ScoreResult score(const Transformer& model, const ScoreOptions& options,
                  const ScoreRequest& request, Session& session);

}  // namespace tril
