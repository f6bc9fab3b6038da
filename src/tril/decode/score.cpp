#include "tril/decode/score.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tril/base/rounding.h"
#include "tril/decode/encoded.h"
#include "tril/decode/log_probs.h"
#include "tril/decode/tokens.h"
#include "tril/models/output_part.h"
#include "tril/models/session_state.h"
#include "tril/nn/cache.h"

namespace tril {
namespace {

void check_options(const ScoreOptions& options, const TransformerConfig& config,
                   const Session& session) {
  require(session->tape == nullptr, ErrorCode::invalid_argument,
          "score: a tape is recording on the session");
  if (options.start) TokenCheck{"score", config}.special("start", *options.start);
  require(options.start || config.decoder_only(), ErrorCode::invalid_argument,
          "score: no START, but the model has an encoder: its targets need one");
  require(options.batch_tokens >= 1, ErrorCode::invalid_argument,
          "score: batch_tokens must be at least 1, got ", options.batch_tokens);
  if (options.shortlist) options.shortlist->check_fits("score", config);
}

void check_request(const ScoreRequest& request, const TransformerConfig& config) {
  const TokenCheck check{"score", config, request.number};
  check.source(request.source);
  check.target(request.target);
  check.in_vocabulary("prefix", request.prefix, config.target_vocab);
}

// Slots of the cache, released at the end of its life.
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

// The log-probability that each row gives its token, over the whole vocabulary:
void look_up(const Transformer& model, const Tensor& hidden, std::span<const int32_t> wanted,
             Session& session, std::span<float> log_probs) {
  each_log_probs(model, hidden, session,
                 [&](int64_t row, std::span<const float> all, int /*worker*/) {
                   const auto r = static_cast<size_t>(row);
                   log_probs[r] = all[static_cast<size_t>(wanted[r])];
                 });
}
// Over a part of it:
void look_up(const Transformer& model, const Tensor& hidden, const OutputPart& part,
             std::span<const int32_t> wanted, Session& session, std::span<float> log_probs) {
  const PartRows rows[] = {{0, hidden.rows(), &part}};
  const std::span<const int32_t> tokens = part.tokens();
  each_log_probs(model, hidden, rows, session,
                 [&](int64_t row, std::span<const float> all, int /*worker*/) {
                   const auto r = static_cast<size_t>(row);
                   const auto found = std::lower_bound(tokens.begin(), tokens.end(), wanted[r]);
                   log_probs[r] = found != tokens.end() && *found == wanted[r]
                                      ? all[static_cast<size_t>(found - tokens.begin())]
                                      : -std::numeric_limits<float>::infinity();
                 });
}

// Sentence by sentence, each over its own set: one part in memory at a time.
void look_up_by_sentence(const Transformer& model, const Tensor& hidden, const Shortlist& shortlist,
                         const std::vector<ScoreRequest>& batch, Session& session,
                         std::span<float> log_probs) {
  OutputPart part;
  std::vector<int32_t> set;
  int64_t begin = 0;
  for (const ScoreRequest& request : batch) {
    const auto rows = static_cast<int64_t>(request.target.size());
    if (rows == 0) continue;
    shortlist.choose(request.source, request.prefix, set);
    model.choose_output(set, part, session);
    look_up(model, hidden.slice(begin, begin + rows), part, request.target, session,
            log_probs.subspan(static_cast<size_t>(begin), request.target.size()));
    begin += rows;
  }
}

// One pass over whole targets, which were checked.
std::vector<ScoreResult> score_batch(const Transformer& model, const ScoreOptions& options,
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
  Slots slots(session->cache);
  std::vector<int32_t> wanted;                 // by row: the token whose log-probability it gives
  const size_t given = options.start ? 0 : 1;  // tokens of a target that no row predicts
  for (size_t i = 0; i < batch.size(); ++i) {
    const std::vector<int32_t>& tokens = batch[i].target;
    if (tokens.size() <= given) continue;
    const Place place{.slot = slots.open(), .segment = segments[i]};
    if (options.start) target.add(*options.start, place);
    target.add_sequence(
        std::span(tokens).first(tokens.size() - 1),
        {.slot = place.slot, .segment = place.segment, .first = options.start ? 1 : 0});
    wanted.insert(wanted.end(), tokens.begin() + static_cast<ptrdiff_t>(given), tokens.end());
  }
  std::vector<float> log_probs(wanted.size());
  if (!wanted.empty()) {
    const Tensor hidden = model.forward(target, encoded.memory(), session);
    if (options.shortlist) {
      look_up_by_sentence(model, hidden, *options.shortlist, batch, session, log_probs);
    } else {
      look_up(model, hidden, wanted, session, log_probs);
    }
  }
  for (const int32_t segment : segments) {
    if (segment >= 0) encoded.release(segment);
  }
  std::vector<ScoreResult> results;
  auto row = log_probs.begin();
  for (const ScoreRequest& request : batch) {
    ScoreResult& result = results.emplace_back();
    result.number = request.number;
    const size_t unscored = std::min(given, request.target.size());
    const auto end = row + static_cast<ptrdiff_t>(request.target.size() - unscored);
    result.log_probs.assign(unscored, 0.0f);
    result.log_probs.insert(result.log_probs.end(), row, end);
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
    for (ScoreResult& result : score_batch(model, options, batch, encoded, session)) {
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
  return score_batch(model, options, {request}, encoded, session)[0];
}

}  // namespace tril
