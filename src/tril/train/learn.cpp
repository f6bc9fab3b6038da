#include "tril/train/learn.h"

#include <cmath>

#include "tril/base/error.h"
#include "tril/data/permutation.h"
#include "tril/models/session_state.h"
#include "tril/train/updater.h"

namespace tril {
namespace {

// However training ends, the session is restored to its usual state.
class TrainingSession {
 public:
  TrainingSession(Session& session, Masking masking) : session_(session) {
    session_->masking = masking;
  }
  ~TrainingSession() {
    session_->masking = Masking::causal;
    session_->dropout.reset();
  }
  TrainingSession(const TrainingSession&) = delete;
  TrainingSession& operator=(const TrainingSession&) = delete;

 private:
  Session& session_;
};

}  // namespace

double learn(Transformer& model, const NextBatch& next, const LearnOptions& options,
             Session& session) {
  require(options.updates >= 1, ErrorCode::invalid_argument, "learn: ", options.updates,
          " updates; it needs at least 1");
  require(options.smoothing >= 0.0 && options.smoothing < 1.0, ErrorCode::invalid_argument,
          "learn: a smoothing of ", options.smoothing, " is not in [0, 1)");
  check(options.optimizer);
  const TrainingSession restored(session, options.masking);
  UpdaterOptions each{.optimizer = options.optimizer,
                      .average = options.average,
                      .schedule = options.schedule,
                      .smoothing = options.smoothing,
                      .seed = options.seed,
                      .gradient_norm = static_cast<bool>(options.gradient_norm)};
  each.schedule.updates = options.updates;
  Updater updater(model, each, session);
  double last = 0.0;
  const auto look = [&](const UpdateOutcome& outcome) {
    last = outcome.loss();
    require(std::isfinite(last), ErrorCode::invalid_argument, "learn: the loss of update ",
            outcome.update, " is not finite: a smaller rate helps");
    if (options.progress) options.progress(outcome.update, last);
    if (options.gradient_norm) options.gradient_norm(outcome.update, outcome.gradient_norm);
  };
  Batch batch;
  for (int64_t update = 1; update <= options.updates; ++update) {
    next(batch);
    updater.update(update, {&batch, 1});
    while (const auto outcome = updater.due_outcome()) look(*outcome);
  }
  while (const auto outcome = updater.next_outcome()) look(*outcome);
  if (options.average.type != AverageType::none) updater.average().write_to(model, session);
  return last;
}

void add_to_batch(Batch& batch, const LearnPair& pair, int32_t start, int32_t number) {
  require(!pair.target.empty(), ErrorCode::invalid_argument, "learn: pair ", number,
          " has no target");
  add_to_batch(batch, {.start = start, .source = pair.source, .target = pair.target}, number);
}

PairBatches::PairBatches(std::span<const LearnPair> pairs, int32_t start, int64_t target_tokens,
                         uint64_t seed)
    : pairs_(pairs), start_(start), target_tokens_(target_tokens), seed_(seed) {
  require(!pairs.empty(), ErrorCode::invalid_argument, "learn: there are no pairs to learn from");
  for (size_t i = 0; i < pairs.size(); ++i) {
    require(!pairs[i].target.empty(), ErrorCode::invalid_argument, "learn: pair ", i,
            " has no target");
  }
}

void PairBatches::next(Batch& batch) {
  batch.clear();
  const auto size = static_cast<int64_t>(pairs_.size());
  for (;;) {
    const int64_t number = Permutation(size, seed_, round_)[next_];
    const LearnPair& pair = pairs_[static_cast<size_t>(number)];
    const auto tokens = static_cast<int64_t>(pair.target.size());
    if (batch.sentences > 0 && batch.target_tokens + tokens > target_tokens_) return;
    add_to_batch(batch, pair, start_, static_cast<int32_t>(number));
    if (++next_ == size) {
      next_ = 0;
      ++round_;
    }
  }
}

}  // namespace tril
