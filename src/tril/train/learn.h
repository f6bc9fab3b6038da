// learn(): trains a small model in memory, without files and without resuming: for lessons,
// examples and tests. Complete runs, with everything that keeps them safe, are in train/trainer.h.
//
// An update is one batch: encode, forward under the mask, loss, backward, AdamW. The same batches
// and options give the same bits with any number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tril/data/batches.h"
#include "tril/models/transformer.h"
#include "tril/train/average_options.h"
#include "tril/train/optimizer.h"
#include "tril/train/schedule.h"

namespace tril {

struct LearnOptions {
  int64_t updates = 800;
  // schedule.updates is filled in.
  ScheduleOptions schedule = {.type = ScheduleType::cosine, .peak = 4e-3, .warm_up = 100};
  AdamWOptions optimizer{};
  AverageOptions average = {.type = AverageType::none};
  double smoothing = 0.0;
  Masking masking = Masking::causal;  // none: the fault that the mask prevents
  uint64_t seed = 1;                  // of dropout
  // Called after each update with the loss per token of its batch; may be empty.
  std::function<void(int64_t update, double loss)> progress{};
  // The same with the norm of the update's whole gradient, before clipping; may be empty.
  std::function<void(int64_t update, double norm)> gradient_norm{};
};

// Clears a batch and fills it with the data of the next update.
using NextBatch = std::function<void(Batch&)>;

// Trains the model, which no other thread may use meanwhile; with an average, its weights are the
// average's afterwards. Returns the loss of the last update. Leaves the session without dropout and
// under the causal mask. Raises `invalid_argument` for invalid options, before anything changes,
// and when the loss is no longer finite.
double learn(Transformer& model, const NextBatch& next, const LearnOptions& options,
             Session& session);

// A sentence in token ids: the encoder's input (empty for a decoder-only model), and the decoder's
// target, including END if it is to end.
struct LearnPair {
  std::vector<int32_t> source{};
  std::vector<int32_t> target{};
};

// Appends a pair to a batch: START and the target without its last token are the inputs, the target
// is the labels.
void add_to_batch(Batch& batch, const LearnPair& pair, int32_t start, int32_t number);

// Endless batches of pairs, each round in a new order, a function of (seed, round). A batch takes
// pairs until the next would exceed `target_tokens`, but at least one.
class PairBatches {
 public:
  // The pairs must outlive it. Raises `invalid_argument` if there is none, or one without a target.
  PairBatches(std::span<const LearnPair> pairs, int32_t start, int64_t target_tokens,
              uint64_t seed);
  void next(Batch& batch);

 private:
  std::span<const LearnPair> pairs_;
  int32_t start_;
  int64_t target_tokens_;
  uint64_t seed_;
  uint64_t round_ = 0;
  int64_t next_ = 0;  // in the round's order
};

}  // namespace tril
