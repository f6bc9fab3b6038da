// Fine-tuning: what a run takes from the model it begins with.
//
// Such a run has that model's configuration, tokenizer and layout, and its weights are copied; the
// text, dropout and everything about learning are its own. Files that are sealed with the model's
// weights go on to the new model. The first checkpoint holds all of it, so that the model is needed
// only once.
#pragma once

#include <string>

#include "tril/base/function.h"
#include "tril/models/folder.h"
#include "tril/models/transformer.h"
#include "tril/text/tokenizer.h"
#include "tril/train/options.h"

namespace tril {

// A model folder without its weights.
struct BaseModel {
  std::string folder;
  std::string identity;  // of the weights: their seal, or the checksum of a file without one
  TransformerConfig config;
  Tokenizer tokenizer;
  ModelFiles beside;  // what was sealed with the weights, but for config.json and tokenizer.model
};
// Raises, naming the file, for a folder without a model, with packed weights alone, without a
// tokenizer, or with files that do not belong together; `unsupported` for a model that cannot be
// trained.
BaseModel read_base(const std::string& folder);

// The options of a run that begins with this model, with defaults made for that
// (docs/design/train.md says how they were chosen).
TrainOptions tuning_options(const BaseModel& base);

// The languages of every pair: those of the options, or else the model's (generation.json among the
// files beside its weights). None for a tokenizer without languages.
LanguagePair languages_for(const TrainOptions& options, const Tokenizer& tokenizer,
                           const ModelFiles& beside, const std::string& folder);

// Raises `invalid_argument` for options that contradict the model, naming both values, and for
// languages that it does not have.
void check_with_base(const TrainOptions& options, const BaseModel& base);

// A model of this configuration with the weights of `base`. Raises `io` if they were replaced since
// read_base().
Transformer weights_of(const BaseModel& base, const TransformerConfig& config,
                       const Placement& placement, const Function<void(const Notice&)>& notice);

}  // namespace tril
