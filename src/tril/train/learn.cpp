#include "tril/train/learn.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>

#include "tril/base/error.h"
#include "tril/data/permutation.h"
#include "tril/train/step.h"

namespace tril {
namespace {

constexpr auto kBad = ErrorCode::invalid_argument;

// However training ends, the session is restored to its usual state.
class TrainingSession {
 public:
  TrainingSession(Session& session, Masking masking) : session_(session) {
    session_.masking = masking;
  }
  ~TrainingSession() {
    session_.masking = Masking::causal;
    session_.dropout.reset();
  }
  TrainingSession(const TrainingSession&) = delete;
  TrainingSession& operator=(const TrainingSession&) = delete;

 private:
  Session& session_;
};

}  // namespace

double learn(Transformer& model, const NextBatch& next, const LearnOptions& options,
             Session& session) {
  require(options.updates >= 1, kBad, "learn: ", options.updates, " updates; it needs at least 1");
  require(options.smoothing >= 0.0 && options.smoothing < 1.0, kBad, "learn: a smoothing of ",
          options.smoothing, " is not in [0, 1)");
  check(options.optimizer);
  const TrainingSession restored(session, options.masking);
  ScheduleOptions schedule = options.schedule;
  schedule.updates = options.updates;
  model.prepare_training(session);
  AdamWOptimizer optimizer(model, options.optimizer);
  std::optional<WeightAverage> average;
  if (options.average.type != AverageType::none) average.emplace(model, options.average);
  Batch batch;
  // May be walked before it runs (device/queue.h).
  const auto enqueue = [&](int64_t update) {
    session.reset();
    session.dropout = DropoutStep{.seed = options.seed, .step = static_cast<uint32_t>(update)};
    Tape tape(session);
    const Tensor loss = batch_loss(model, batch,
                                   {.smoothing = static_cast<float>(options.smoothing),
                                    .factor = 1.0f / static_cast<float>(batch.target_tokens)},
                                   session);
    const auto rate = static_cast<float>(learning_rate(schedule, update));
    optimizer.step(tape.backward(loss), rate, session);
    if (average) average->updated(update, session);
    return loss;
  };
  float last = 0.0f;
  struct Outcome {
    int64_t loss = 0;  // Queue::fetch()
    std::optional<int64_t> gradient{};
  };
  std::deque<Outcome> outcomes;  // of updates that nobody has looked at: a device may be behind
  int64_t looked_at = 0;
  const auto look = [&] {
    const Outcome outcome = outcomes.front();
    outcomes.pop_front();
    session.queue.fetched(outcome.loss, &last, sizeof last);
    ++looked_at;
    require(std::isfinite(last), kBad, "learn: the loss of update ", looked_at,
            " is not finite: a smaller rate helps");
    if (options.progress) options.progress(looked_at, static_cast<double>(last));
    if (outcome.gradient) {
      const double norm = AdamWOptimizer::fetched_last(session, *outcome.gradient).norm;
      options.gradient_norm(looked_at, norm);
    }
  };
  const size_t behind = updates_behind(session);
  for (int64_t update = 1; update <= options.updates; ++update) {
    next(batch);
    Tensor loss;
    session.queue.step([&] { loss = enqueue(update); });
    outcomes.push_back({.loss = session.queue.fetch(loss.raw(), sizeof last)});
    if (options.gradient_norm) outcomes.back().gradient = optimizer.fetch_last(session);
    while (outcomes.size() > behind) look();
  }
  while (!outcomes.empty()) look();
  if (average) average->write_to(model, session);
  return static_cast<double>(last);
}

void add_to_batch(Batch& batch, const LearnPair& pair, int32_t start, int32_t number) {
  require(!pair.target.empty(), kBad, "learn: pair ", number, " has no target");
  const auto sentence = static_cast<int32_t>(batch.sentences);
  const bool alone = pair.source.empty();
  if (!alone) batch.source.add_sequence(pair.source, {.slot = sentence, .sentence = number});
  std::vector<int32_t> read = {start};
  read.insert(read.end(), pair.target.begin(), pair.target.end() - 1);
  batch.target.add_sequence(
      read, {.slot = sentence, .segment = alone ? -1 : sentence, .sentence = number});
  batch.labels.insert(batch.labels.end(), pair.target.begin(), pair.target.end());
  ++batch.sentences;
  batch.source_tokens += static_cast<int64_t>(pair.source.size());
  batch.target_tokens += static_cast<int64_t>(pair.target.size());
}

PairBatches::PairBatches(std::span<const LearnPair> pairs, int32_t start, int64_t target_tokens,
                         uint64_t seed)
    : pairs_(pairs), start_(start), target_tokens_(target_tokens), seed_(seed) {
  require(!pairs.empty(), kBad, "learn: there are no pairs to learn from");
  for (size_t i = 0; i < pairs.size(); ++i) {
    require(!pairs[i].target.empty(), kBad, "learn: pair ", i, " has no target");
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
