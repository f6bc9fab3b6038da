// Updater: one update of a model's weights from micro-batches. Used by runs with a folder
// (train/trainer.h) and by training in memory (train/learn.h). Internal to train/.
//
// An update has two parts. First the micro-batches, in order: each is a forward and a backward
// pass, whose gradients are added to those before. Then the change: clipping, AdamW, the average of
// the weights. Each micro-batch is one step of the queue (device/queue.h) and the change is another
// one, so that gradients can be exchanged between processes before the weights change.
//
// update() only enqueues. On a GPU the host continues while the update is computed, and reads its
// outcome a few updates later; on the CPU the outcome is available at once. The bits of an update
// depend on the weights, the micro-batches, its number and the options alone.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tril/base/function.h"
#include "tril/data/batches.h"
#include "tril/device/queue.h"
#include "tril/models/transformer.h"
#include "tril/train/average.h"
#include "tril/train/optimizer.h"
#include "tril/train/schedule.h"

namespace tril {

// Whether a device computes while the host continues: the host may then be some updates ahead, and
// its threads are free for other work.
inline bool computes_beside_the_host(Device device) { return device != Device::cpu; }

struct UpdaterOptions {
  AdamWOptions optimizer{};
  AverageOptions average{};
  ScheduleOptions schedule{};
  double smoothing = 0.0;             // of the labels
  uint64_t seed = 1;                  // of dropout
  std::vector<std::string> frozen{};  // parts (train/frozen.h)
  bool gradient_norm = true;          // whether outcomes contain it
};

// The result of an update.
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
  // Raises `invalid_argument` for invalid options.
  Updater(Transformer& model, const UpdaterOptions& options, Session& session);

  // Enqueues update number `number`, counted from 1; the micro-batches may change once it returns.
  // If there are several, `cancelled` (if any) is called before each: if it returns true, this
  // returns false, and neither weights nor moments have changed.
  bool update(int64_t number, std::span<const Batch> micro_batches,
              const Function<bool()>& cancelled = {});

  // The oldest outcome not read yet, once more updates are in flight than a device may be behind:
  // to be called after each update. Waits for it.
  std::optional<UpdateOutcome> due_outcome();
  // The same however few are in flight; nothing if all were read.
  std::optional<UpdateOutcome> next_outcome();

  double rate(int64_t number) const { return learning_rate(options_.schedule, number); }
  AdamWOptimizer& optimizer() { return optimizer_; }
  const AdamWOptimizer& optimizer() const { return optimizer_; }
  WeightAverage& average() { return average_; }
  const WeightAverage& average() const { return average_; }

 private:
  // A number of Queue::fetch() that is forgotten unless it is read.
  class Fetch {
   public:
    Fetch(Queue& queue, int64_t number) : queue_(&queue), number_(number) {}
    ~Fetch() {
      if (number_ >= 0) queue_->forget(number_);
    }
    Fetch(Fetch&& other) noexcept : queue_(other.queue_), number_(other.read()) {}
    Fetch& operator=(Fetch&&) = delete;
    // The number, for whoever reads it now.
    int64_t read() { return std::exchange(number_, -1); }

   private:
    Queue* queue_;
    int64_t number_;
  };
  // An update that was enqueued.
  struct Enqueued {
    int64_t update = 0;
    int64_t target_tokens = 0;
    std::vector<Fetch> losses{};  // in the order of the micro-batches
    std::optional<Fetch> gradient{};
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
  std::deque<Enqueued> enqueued_;  // whose outcome was not read yet, oldest first
};

}  // namespace tril
