// What a run begins with, or goes on with: its state, its tokenizer, the configuration of its
// model, and the checks that options, text and checkpoint belong together. Internal to train/.
#pragma once

#include "tril/train/checkpoint.h"
#include "tril/train/run_folder.h"
#include "tril/train/trainer.h"

namespace tril {

// Raises `invalid_argument` for options that do not go with this kind of text.
void check_with_text(const TrainOptions& options, const TrainingText& text);

// Raises unless the checkpoint belongs to this text and these options; only `updates` may differ.
TrainState first_state(const TrainingText& text, const TrainOptions& options, const RunPaths& paths,
                       RunStart start);

// Learnt from the text or read from the options' file, and noted in the state; that of the run
// where one goes on.
Tokenizer first_tokenizer(const TrainingText& text, const TrainOptions& options,
                          const RunPaths& paths, RunStart start, TrainState& state,
                          const TrainEvents& events);

// Leaves out what is too long, and says what is left. Raises `invalid_argument` when nothing is, or
// when the sides of the validation text are swapped.
void prepare_text(TrainingText& text, const TrainOptions& options, const Tokenizer& tokenizer,
                  const TrainEvents& events);

// As many updates as suit the text, where the options leave it open.
int64_t updates_for(const Corpus& corpus, const TrainOptions& options);

// Says what will hardly do what was meant.
void warn(const Corpus& corpus, const TrainOptions& options, const TrainEvents& events);

TransformerConfig model_config(const TrainingText& text, const TrainOptions& options,
                               const Tokenizer& tokenizer);

}  // namespace tril
