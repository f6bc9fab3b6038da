// Everything that determines the result of a training run on a text.
//
// Two runs with the same options, text and version of tril end in the same bits; the number of
// threads is not an option because it has no influence. option_list.h is the one list of names: the
// program's flags, its TOML file and the record in the model folder are made from it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/words.h"
#include "tril/data/corpus.h"
#include "tril/models/config.h"
#include "tril/text/tokenizer.h"
#include "tril/train/average_options.h"
#include "tril/train/optimizer.h"
#include "tril/train/schedule.h"

namespace tril {

enum class Preset { tiny, small, base, big };
enum class BestBy { bleu, loss };

// Sets the sizes of the model, and its dropout in training.
void apply_preset(Preset preset, TransformerConfig& config);
// Preset tiny, with norms before the sub-layers, which learns faster and tolerates higher rates.
TransformerConfig default_model();

// The defaults are what worked best, on held-out text, with a small corpus of short sentences.
struct TrainOptions {
  CorpusFiles train{};
  CorpusFiles valid{};
  // A model folder to begin with; empty: random weights. tuning_options() (train/tuning.h) has the
  // other options for it.
  std::string from{};
  LanguagePair languages{};           // of every pair, for a model of several languages
  std::string model_languages{};      // "en-hi": recorded in the model as those it translates
  std::vector<std::string> freeze{};  // parts that keep their weights: "encoder", "embeddings", …
  std::string tokenizer_file{};       // an existing one; empty: learnt from the text
  TokenizerOptions tokenizer{};
  TransformerConfig model = default_model();  // vocabularies are filled in
  int64_t tokenizer_lines = 4'000'000;        // at most, drawn from the whole text
  int64_t max_tokens = 256;  // of a sentence, START or END included; longer pairs are left out

  // 0: as many as go through the text 60 times, from 500 to 100,000.
  int64_t updates = 0;
  int64_t batch_tokens = 4096;        // of target, per update
  int64_t micro_batch_tokens = 2048;  // of target, per pass; a divisor of batch_tokens
  ScheduleOptions schedule{};         // schedule.updates is filled in
  AdamWOptions optimizer{};
  AverageOptions average{};
  double smoothing = 0.1;
  double bpe_dropout = 0.1;
  uint64_t seed = 1;

  int64_t log_every = 50;        // updates
  int64_t evaluate_every = 250;  // and a checkpoint
  int64_t save_every = 0;        // updates between additional checkpoints; 0: none
  int64_t patience = 0;          // evaluations without improvement before it stops; 0: never stops
  BestBy best_by = BestBy::bleu;
  int64_t valid_beam = 1;
};

// "en-hi": the first hyphen separates. Raises `invalid_argument` for anything else.
LanguagePair languages_from(const std::string& text);
// Raises `invalid_argument` naming the option; checks everything that needs neither the text nor
// the model that a run begins with.
void check(const TrainOptions& options);

template <>
struct Words<TokenizerType> {
  static constexpr std::string_view kList[] = {"bpe", "unigram"};
};
template <>
struct Words<Normalization> {
  static constexpr std::string_view kList[] = {"identity", "nfkc"};
};
template <>
struct Words<ScheduleType> {
  static constexpr std::string_view kList[] = {"inverse-sqrt", "cosine", "constant"};
};
template <>
struct Words<AverageType> {
  static constexpr std::string_view kList[] = {"none", "exponential", "checkpoints"};
};
template <>
struct Words<Preset> {
  static constexpr std::string_view kList[] = {"tiny", "small", "base", "big"};
};
template <>
struct Words<BestBy> {
  static constexpr std::string_view kList[] = {"bleu", "loss"};
};

// The options as a TOML file whose names are the program's flags.
std::string to_toml(const TrainOptions& options);

// One option that differs from the record of a run, with both values in readable form.
struct OptionChange {
  std::string name;
  std::string recorded;
  std::string now;
};
// Compares the options one by one, in order, with a record written by to_toml(). Raises
// `bad_format`, naming the file of the record, if it cannot be read.
std::vector<OptionChange> changed_options(const std::string& record, const TrainOptions& options,
                                          const std::string& file);

}  // namespace tril
