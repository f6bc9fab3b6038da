// Training: from text to a model folder, in a run that can be stopped at any moment and continued
// as if it had never been.
//
// The folder holds, when a run is done,
//   config.json, model.safetensors, tokenizer.model   the best model: what `tril translate` reads
//   last/                                             the model of the last evaluation
//   training/checkpoint.safetensors                   the run: options, tokenizer, weights, state
//   training/options.toml, tokenizer.model            the same, for people to read
//   training/log.jsonl, curve.svg, lock
//   training/events.out.tfevents.tril                 the log, for TensorBoard
// The checkpoint is authoritative: everything else is recreated from it, bit for bit, whatever was
// or was not written when the run was killed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tril/base/error.h"
#include "tril/base/function.h"
#include "tril/data/corpus.h"
#include "tril/tensor/placement.h"
#include "tril/train/evaluation.h"
#include "tril/train/options.h"

namespace tril {

// Reports during training. All may be empty; all are called on the thread that called train().
struct TrainStatus {
  int64_t update = 0;
  int64_t updates = 0;
  double epoch = 0.0;         // rounds through the corpus
  double loss = 0.0;          // per target token, with smoothed labels, recently
  double rate = 0.0;          // the learning rate
  double tokens_per_s = 0.0;  // target tokens, this sitting
  double seconds = 0.0;       // over all sittings
  double seconds_left = 0.0;
  double best = 0.0;  // of the evaluations so far, if there are any: BLEU, or the loss
  bool evaluated = false;
};
struct TrainEvents {
  Function<void(const TrainStatus&)> progress{};
  Function<void(const Notice&)> message{};
  Function<void(const TrainStatus&, const Evaluation&, bool best)> evaluated{};
  Function<bool()> cancelled{};  // true: write a checkpoint and return
  Function<void()> resumable{};  // from now on RunStart::resume continues this run
};

enum class RunStart { fresh, overwrite, resume };

struct TrainSummary {
  TrainStatus last{};
  bool finished = false;  // false: cancelled; RunStart::resume continues
  int64_t best_update = 0;
  double best = 0.0;
  int64_t parameters = 0;
  bool stopped_early = false;  // by patience
};

// The training data. Corpora come from the options' files, or from elsewhere (built-in texts).
struct TrainingText {
  Corpus train;
  std::optional<Corpus> valid;
};
TrainingText read_text(const TrainOptions& options, const TrainEvents& events);

// Raises unless such a run may begin in the folder and files can be written there; train() calls it
// too.
void check_start(const std::string& folder, RunStart start);
// The options of the run in a folder, as TOML, from its checkpoint.
std::string options_of_run(const std::string& folder);

// Where it runs. The options of a run, its checkpoint and its models are the same everywhere: one
// device can continue what another began.
struct RunOn {
  int threads = 0;  // 0: all cores
  Placement placement;

  RunOn(int thread_count = 0, const Placement& where = {})  // NOLINT: most name only threads
      : threads(thread_count), placement(where) {}
};
TrainSummary train(TrainingText& text, const TrainOptions& given, const std::string& folder,
                   RunStart start, const RunOn& on, const TrainEvents& events);

}  // namespace tril
