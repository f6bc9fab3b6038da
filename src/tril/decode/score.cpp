#include "tril/decode/score.h"

#include <cmath>

#include "tril/base/rounding.h"
#include "tril/decode/encoded.h"
#include "tril/decode/log_probs.h"
#include "tril/decode/tokens.h"

namespace tril {
namespace {

constexpr auto kBad = ErrorCode::invalid_argument;

void check_options(const ScoreOptions& options, const TransformerConfig& config,
                   const Session& session) {
  require(session.tape == nullptr, kBad, "score: a tape is recording on the session");
  TokenCheck{"score", config}.special("start", options.start);
  require(options.batch_tokens >= 1, kBad, "score: batch_tokens must be at least 1, got ",
          options.batch_tokens);
}

void check_request(const ScoreRequest& request, const TransformerConfig& config) {
  const TokenCheck check{"score", config, request.number};
  check.source(request.source);
  check.target(request.target);
}

// Slots of the cache, given back when it ends.
class Slots {
 public:
  explicit Slots(Cache& cache) : cache_(cache) {}
  ~Slots() {
    for (const int32_t slot : slots_) cache_.release(slot);
  }
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;

  int32_t open() {
    slots_.reserve(slots_.size() + 1);
    return slots_.emplace_back(cache_.open());
  }

 private:
  Cache& cache_;
  std::vector<int32_t> slots_;
};

// One pass over whole targets. Requests were checked.
std::vector<ScoreResult> score_batch(const Transformer& model, int32_t start,
                                     const std::vector<ScoreRequest>& batch,
                                     EncodedSentences& encoded, Session& session) {
  session.reset();
  const bool decoder_only = model.config().decoder_only();
  Rows source, target;
  for (size_t i = 0; i < batch.size(); ++i) {
    source.add_sequence(batch[i].source, {.slot = static_cast<int32_t>(i)});
  }
  std::vector<int32_t> segments(batch.size(), -1);
  if (!decoder_only) segments = encoded.add(model, source, session);
  Slots slots(session.cache);
  std::vector<int32_t> wanted;  // by row: the token whose log-probability it gives
  for (size_t i = 0; i < batch.size(); ++i) {
    const std::vector<int32_t>& tokens = batch[i].target;
    if (tokens.empty()) continue;
    const Place place{.slot = slots.open(), .segment = segments[i]};
    target.add(start, place);
    target.add_sequence(std::span(tokens).first(tokens.size() - 1),
                        {.slot = place.slot, .segment = place.segment, .first = 1});
    wanted.insert(wanted.end(), tokens.begin(), tokens.end());
  }
  std::vector<float> log_probs(wanted.size());
  if (!wanted.empty()) {
    each_log_probs(model, model.forward(target, encoded.memory(), session), session,
                   [&](int64_t row, std::span<const float> all, int /*worker*/) {
                     const auto r = static_cast<size_t>(row);
                     log_probs[r] = all[static_cast<size_t>(wanted[r])];
                   });
  }
  for (const int32_t segment : segments) {
    if (segment >= 0) encoded.release(segment);
  }
  std::vector<ScoreResult> results;
  auto row = log_probs.begin();
  for (const ScoreRequest& request : batch) {
    ScoreResult& result = results.emplace_back();
    result.number = request.number;
    const auto end = row + static_cast<ptrdiff_t>(request.target.size());
    result.log_probs.assign(row, end);
    for (; row != end; ++row) result.score += double{*row};
    require(!std::isnan(result.score), ErrorCode::bad_format, "score: request ", request.number,
            ": the model gives NaN for a log-probability");
  }
  return results;
}

}  // namespace

void score(const Transformer& model, const ScoreOptions& options, const NextScoreRequest& next,
           const ScoreDone& done, Session& session) {
  const StandardRounding rounding;
  check_options(options, model.config(), session);
  EncodedSentences encoded;
  for (;;) {
    std::vector<ScoreRequest> batch;
    for (size_t tokens = 0; tokens < static_cast<size_t>(options.batch_tokens);) {
      std::optional<ScoreRequest> request = next();
      if (!request) break;
      check_request(*request, model.config());
      tokens += request->source.size() + request->target.size() + 1;
      batch.push_back(std::move(*request));
    }
    if (batch.empty()) return;
    for (ScoreResult& result : score_batch(model, options.start, batch, encoded, session)) {
      if (!done(std::move(result))) return;
    }
  }
}

ScoreResult score(const Transformer& model, const ScoreOptions& options,
                  const ScoreRequest& request, Session& session) {
  const StandardRounding rounding;
  check_options(options, model.config(), session);
  check_request(request, model.config());
  EncodedSentences encoded;
  return score_batch(model, options.start, {request}, encoded, session)[0];
}

}  // namespace tril
