#include "tril/train/updater.h"

#include "tril/models/session_state.h"
#include "tril/train/batch_loss.h"

namespace tril {
namespace {

// Updates that may be enqueued before the host reads the outcome of the oldest.
size_t most_under_way(const Session& session) {
  return computes_beside_the_host(session.device()) ? 2 : 0;
}

}  // namespace

Updater::Updater(Transformer& model, const UpdaterOptions& options, Session& session)
    : model_(model),
      options_(options),
      session_(session),
      optimizer_(model, options.optimizer, Frozen(model.config(), options.frozen)),
      average_(model, options.average, Frozen(model.config(), options.frozen)) {
  model_.prepare_training(session_);
}

bool Updater::update(int64_t number, std::span<const Batch> micro_batches,
                     const Function<bool()>& cancelled) {
  require(!micro_batches.empty(), ErrorCode::invalid_argument, "update: no micro-batches");
  const auto count = static_cast<int64_t>(micro_batches.size());
  Enqueued enqueued{.update = number};
  for (const Batch& batch : micro_batches) enqueued.target_tokens += batch.target_tokens;
  Tensor loss;
  // Copies to the host keep a GPU waiting: none is made between the last micro-batch and the
  // change.
  const auto fetch_loss = [&] {
    enqueued.losses.emplace_back(session_->queue, session_->queue.fetch(loss.raw(), sizeof(float)));
  };
  for (int64_t i = 0; i < count; ++i) {
    if (count > 1 && cancelled && cancelled()) return false;
    session_->queue.step([&] {
      loss = enqueue_gradients(micro_batches[static_cast<size_t>(i)], {.index = i, .count = count},
                               number, enqueued.target_tokens);
    });
    if (i + 1 < count) fetch_loss();
  }
  session_->queue.step([&] { enqueue_change(number); });
  fetch_loss();
  if (options_.gradient_norm) {
    enqueued.gradient.emplace(session_->queue, optimizer_.fetch_last(session_));
  }
  enqueued_.push_back(std::move(enqueued));
  return true;
}

Tensor Updater::enqueue_gradients(const Batch& batch, AdamWOptimizer::MicroBatch which,
                                  int64_t number, int64_t target_tokens) {
  session_.reset();
  session_->dropout = DropoutStep{.seed = options_.seed, .step = static_cast<uint32_t>(number)};
  Tape tape(session_);
  const Tensor loss = batch_loss(model_, batch,
                                 {.smoothing = static_cast<float>(options_.smoothing),
                                  .factor = 1.0f / static_cast<float>(target_tokens)},
                                 session_);
  optimizer_.add(tape.backward(loss), which, session_);
  return loss;
}

void Updater::enqueue_change(int64_t number) {
  // The gradients of the last micro-batch may still be in the session's arena, so it is not reset.
  // Even so, what this step allocates and uploads has the same addresses in every call.
  const Arena::Scope on_device(session_->arena);
  const Arena::Scope on_host(session_->host);
  session_->queue.reset();
  optimizer_.step(static_cast<float>(rate(number)), session_);
  average_.updated(number, session_);
}

std::optional<UpdateOutcome> Updater::due_outcome() {
  if (enqueued_.size() <= most_under_way(session_)) return std::nullopt;
  return next_outcome();
}

std::optional<UpdateOutcome> Updater::next_outcome() {
  if (enqueued_.empty()) return std::nullopt;
  Enqueued oldest = std::move(enqueued_.front());
  enqueued_.pop_front();
  UpdateOutcome outcome{.update = oldest.update, .target_tokens = oldest.target_tokens};
  if (oldest.gradient) {
    outcome.gradient_norm = AdamWOptimizer::fetched_last(session_, oldest.gradient->read()).norm;
  }
  for (Fetch& fetch : oldest.losses) {
    float loss = 0.0f;
    session_->queue.fetched(fetch.read(), &loss, sizeof loss);
    outcome.loss_sum += static_cast<double>(loss) * static_cast<double>(oldest.target_tokens);
  }
  return outcome;
}

}  // namespace tril
