// Updater: one update of a model's weights from the micro-batches it is given. Runs with a folder
// (train/trainer.h) and training in memory (train/learn.h) both stand on it. Internal to train/.
//
// An update has two parts. First the micro-batches, in order: each is a forward and a backward
// pass, whose gradients are added to those before. Then the change: clipping, AdamW, the average of
// the weights. Each micro-batch is one step of the queue (device/queue.h) and the change is another
// one, so that gradients can be exchanged between processes before the weights change.
//
// update() only enqueues. On a GPU the host goes on while the update is computed, and asks for its
// outcome a few updates later; on the CPU the outcome is there at once. The bits of an update
// depend on the weights, the micro-batches, its number and the options alone.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tril/data/batches.h"
#include "tril/models/transformer.h"
#include "tril/train/average.h"
#include "tril/train/optimizer.h"
#include "tril/train/schedule.h"

namespace tril {

// Whether a device computes while the host goes on: the host may then be some updates ahead, and
// its threads are free for other work.
inline bool computes_beside_the_host(Device device) { return device != Device::cpu; }

struct UpdaterOptions {
  AdamWOptions optimizer{};
  AverageOptions average{};
  ScheduleOptions schedule{};
  double smoothing = 0.0;     // of the labels
  uint64_t seed = 1;          // of dropout
  bool gradient_norm = true;  // outcomes tell it
};

// What became of an update.
struct UpdateOutcome {
  int64_t update = 0;         // its number
  int64_t target_tokens = 0;  // of all its micro-batches
  double loss_sum = 0.0;      // over these tokens, with smoothed labels
  // Of the whole gradient before clipping. Not finite: the weights have not changed.
  double gradient_norm = 0.0;

  // Per token. Exact for one micro-batch: a float times fewer than 2^29 tokens fits into a double.
  double loss() const { return loss_sum / static_cast<double>(target_tokens); }
};

class Updater {
 public:
  // Trains `model`, which no other thread may use meanwhile, in `session`; both must outlive it.
  // Raises `invalid_argument` for options that make no sense.
  Updater(Transformer& model, const UpdaterOptions& options, Session& session);

  // Enqueues update number `number`, counted from 1; the micro-batches may change once it returns.
  // Where there are several, `cancelled` (if any) is asked before each: when it says true, false is
  // returned, and neither weights nor moments have changed.
  bool update(int64_t number, std::span<const Batch> micro_batches,
              const std::function<bool()>& cancelled = {});

  // The oldest outcome that was not taken yet, once more updates are under way than a device may be
  // behind: to be taken after each update. Waits for it.
  std::optional<UpdateOutcome> due_outcome();
  // The same however few are under way; none when all were taken.
  std::optional<UpdateOutcome> next_outcome();

  double rate(int64_t number) const { return learning_rate(options_.schedule, number); }
  AdamWOptimizer& optimizer() { return optimizer_; }
  const AdamWOptimizer& optimizer() const { return optimizer_; }
  WeightAverage& average() { return average_; }
  const WeightAverage& average() const { return average_; }

 private:
  // An update that was enqueued: losses and norm as Queue::fetch() numbers them.
  struct Enqueued {
    int64_t update = 0;
    int64_t target_tokens = 0;
    std::vector<int64_t> losses{};
    std::optional<int64_t> gradient{};
  };
  // Both are bodies of a step: they may be called twice (Queue::step).
  Tensor enqueue_gradients(const Batch& batch, AdamWOptimizer::MicroBatch which, int64_t number,
                           int64_t target_tokens);
  void enqueue_change(int64_t number);

  Transformer& model_;
  UpdaterOptions options_;
  Session& session_;
  AdamWOptimizer optimizer_;
  WeightAverage average_;
  std::deque<Enqueued> enqueued_;  // whose outcome was not taken, oldest first
};

}  // namespace tril
