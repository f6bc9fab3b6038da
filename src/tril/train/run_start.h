// What a run begins or continues with: its state, its tokenizer, the configuration of its model,
// and the checks that options, text and checkpoint belong together. Internal to train/.
#pragma once

#include "tril/train/checkpoint.h"
#include "tril/train/run_folder.h"
#include "tril/train/trainer.h"
#include "tril/train/tuning.h"

namespace tril {

// Raises `invalid_argument` for options that do not suit this kind of text.
void check_with_text(const TrainOptions& options, const TrainingText& text);

// The model that the options name, checked against them, the text and each other; none when
// resuming, and for a run that begins with random weights.
std::optional<BaseModel> first_base(const TrainingText& text, const TrainOptions& options,
                                    RunStart start);

// Raises unless the checkpoint belongs to this text and these options; only `updates` may differ.
TrainState first_state(const TrainingText& text, const TrainOptions& options, const RunPaths& paths,
                       RunStart start, const std::optional<BaseModel>& base);

// What goes beside the weights of the run's models, tokenizer.model among it: from the base model,
// or a tokenizer learnt from the text or read from the options' file; recorded in the state. When
// resuming, the run's own.
ModelFiles first_files(const TrainingText& text, const TrainOptions& options, const RunPaths& paths,
                       RunStart start, const std::optional<BaseModel>& base, TrainState& state,
                       const TrainEvents& events);
// The tokenizer among these; raises if BPE dropout is wanted and it has none. `file` is for errors.
Tokenizer first_tokenizer(const ModelFiles& files, const TrainOptions& options,
                          const std::string& file);

// Leaves out sentences that are too long, and reports what is left. Raises `invalid_argument` if
// nothing is, or if the sides of the validation text are swapped.
void prepare_text(TrainingText& text, const TrainOptions& options, const Tokenizer& tokenizer,
                  const TrainEvents& events);

// The default number of updates for the text.
int64_t updates_for(const Corpus& corpus, const TrainOptions& options);

// Warns about options that will hardly do what was meant.
void warn(const Corpus& corpus, const TrainOptions& options, const TrainEvents& events);

TransformerConfig model_config(const TrainingText& text, const TrainOptions& options,
                               const Tokenizer& tokenizer, const TrainState& state,
                               const RunPaths& paths);

}  // namespace tril
