// Checkpoint: everything a training run needs to continue as if it had never stopped, options and
// tokenizer included, in one file that is sealed and replaced whole or not at all: a run exists
// from the moment its first checkpoint is in place.
#pragma once

#include <cstdint>
#include <string>

#include "tril/data/batches.h"
#include "tril/models/folder.h"
#include "tril/train/average.h"
#include "tril/train/optimizer.h"

namespace tril {

// The state of a run besides its weights.
struct TrainState {
  int64_t update = 0;
  int64_t optimizer_steps = 0;  // fewer if gradients were not finite
  StreamPlace place{};
  int64_t target_tokens = 0;  // trained on so far
  double seconds = 0.0;       // over all sittings
  int64_t bad_updates = 0;    // in a row, without a finite gradient
  double last_loss = 0.0;     // of the last line of the log
  double loss_sum = 0.0;      // since the last line of the log: the sum, and the number of tokens
  int64_t loss_tokens = 0;
  // The update it was made after. 0: none yet; a run that began with a model is also evaluated
  // before its first update, and has -1 until then.
  int64_t last_evaluation = 0;
  bool evaluated = false;
  double best = 0.0;  // BLEU, or minus the loss
  int64_t best_update = 0;
  int64_t worse = 0;      // evaluations since the best
  bool finished = false;  // by its last update or by patience
  // What it belongs to: a run with other options or another text must not continue from it.
  std::string options{};
  uint64_t corpus = 0;
  uint64_t valid = 0;      // 0: none
  uint64_t tokenizer = 0;  // hash of its bytes
  // Of a run that began with a model: the identity of that model's weights, and the config.json of
  // this run's. Otherwise empty.
  std::string base{};
  std::string config{};

  // Whether models of the run are in its folder.
  bool has_models() const { return last_evaluation > (base.empty() ? 0 : -1); }
};

// Whether a file of this name can belong to the weights of a model folder: names come from files
// that are not trusted, and become names in the folder of a run.
bool may_go_beside(std::string_view name);
// `files` are those that go beside the weights of every model of the run, tokenizer.model among
// them.
void save_checkpoint(const std::string& path, const TrainState& state, const ModelFiles& files,
                     const Transformer& model, const AdamWOptimizer& optimizer,
                     const WeightAverage& average);
// The state alone, to be checked before anything is built.
TrainState load_state(const std::string& path);
// The files of save_checkpoint(); the tokenizer is to be compared with the state's hash of it, and
// missing in a checkpoint of a version that kept it in a separate file.
ModelFiles load_files(const std::string& path);
// Fills model, optimiser and average, which were made with the run's options.
void load_checkpoint(const std::string& path, const TrainState& state, Transformer& model,
                     AdamWOptimizer& optimizer, WeightAverage& average, Context& context);

}  // namespace tril
