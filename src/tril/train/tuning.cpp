#include "tril/train/tuning.h"

#include <algorithm>
#include <set>

#include "tril/base/error.h"
#include "tril/decode/generation.h"
#include "tril/io/atomic_file.h"
#include "tril/io/json.h"
#include "tril/io/safetensors.h"
#include "tril/models/folder_files.h"
#include "tril/tensor/context.h"
#include "tril/train/checkpoint.h"
#include "tril/train/frozen.h"
#include "tril/train/option_list.h"

namespace tril {
namespace {

// Chosen as docs/design/train.md says. A wider model needs smaller steps: the rate is this number
// divided by the width, 0.001 for a model 128 wide.
constexpr double kTuningRateTimesWidth = 0.128;
constexpr int64_t kTuningWarmUp = 20;
constexpr int64_t kTuningEvaluateEvery = 50;

// Weights with their seal, or an error that says why there are none to train.
std::string weights_file(const std::string& folder) {
  std::string file = path_in(folder, kWeightsFile);
  if (file_exists(file)) return file;
  const std::vector<Compute> kinds = packed_kinds(folder);
  require(!kinds.empty(), ErrorCode::io, file, ": not there");
  fail(ErrorCode::unsupported, folder, ": has only packed weights (", names_of(kinds),
       "), which cannot be trained: the folder they were made from is needed, the one with ",
       kWeightsFile);
}

// Everything that belongs to the weights but config.json.
ModelFiles files_of(const std::string& folder, const FolderSeal& seal) {
  ModelFiles files;
  std::set<std::string> names = {std::string(kTokenizerFile), std::string(kGenerationFile)};
  for (const auto& [name, checksum] : seal.files) names.insert(name);
  names.erase(std::string(kConfigFile));
  for (const std::string& name : names) {
    require(may_go_beside(name), ErrorCode::bad_format, path_in(folder, kWeightsFile),
            ": is sealed with a file '", printable(name), "', which cannot belong to a model");
    if (!seal.files.contains(name) && !file_exists(path_in(folder, name))) continue;
    std::string contents = read_model_file(folder, name);
    seal.check(folder, name, contents);
    files.emplace(name, std::move(contents));
  }
  return files;
}

Tokenizer tokenizer_of(const std::string& folder, ModelFiles& files,
                       const TransformerConfig& config) {
  const std::string file = path_in(folder, kTokenizerFile);
  auto found = files.extract(std::string(kTokenizerFile));
  require(!found.empty(), ErrorCode::io, file, ": not there, and text cannot be read without it");
  Tokenizer tokenizer = Tokenizer::from_bytes(std::move(found.mapped()), file);
  require(tokenizer.vocab(TextSide::target) == config.target_vocab &&
              (config.decoder_only() || tokenizer.vocab(TextSide::source) == config.source_vocab),
          ErrorCode::bad_format, file, ": the tokenizer has ", tokenizer.vocab(TextSide::source),
          " source and ", tokenizer.vocab(TextSide::target), " target tokens, the model ",
          config.source_vocab, " and ", config.target_vocab);
  return tokenizer;
}

bool has_bpe_dropout(const Tokenizer& tokenizer) {
  try {
    tokenizer.encode("x", {.probability = 0.5});
  } catch (const Error&) {
    return false;
  }
  return true;
}

// The options that a model decides on: its shape, and how text becomes tokens.
std::set<std::string, std::less<>> decided_by_the_model(const TrainOptions& options) {
  std::set<std::string, std::less<>> names;
  for_each_option(
      options, [&](std::string_view name, const auto&, std::string_view, std::string_view group) {
        const bool chosen = name == "dropout" || name == "max-tokens";
        if (!chosen && (group == "Model" || group == "Text")) names.emplace(name);
      });
  return names;
}

}  // namespace

BaseModel read_base(const std::string& folder) {
  const ConfigFile config = read_config(folder);
  const std::string weights = weights_file(folder);
  const FolderSeal seal = seal_of(read_safetensors_info(weights));
  seal.check(folder, kConfigFile, config.text);
  ModelFiles files = files_of(folder, seal);
  Tokenizer tokenizer = tokenizer_of(folder, files, config.config);
  return {.folder = folder,
          .identity = identity_of(weights),
          .config = config.config,
          .tokenizer = std::move(tokenizer),
          .beside = std::move(files)};
}

TrainOptions tuning_options(const BaseModel& base) {
  TrainOptions options;
  options.from = base.folder;
  options.model = base.config;
  options.tokenizer.vocab = base.tokenizer.vocab();
  options.max_tokens = std::min(options.max_tokens, base.config.max_length);
  options.schedule.peak = kTuningRateTimesWidth / static_cast<double>(base.config.model);
  options.schedule.warm_up = kTuningWarmUp;
  options.evaluate_every = kTuningEvaluateEvery;
  if (!has_bpe_dropout(base.tokenizer)) options.bpe_dropout = 0.0;
  return options;
}

LanguagePair languages_for(const TrainOptions& options, const Tokenizer& tokenizer,
                           const ModelFiles& beside, const std::string& folder) {
  LanguagePair languages = options.languages;
  if (tokenizer.languages().empty()) return languages;
  GenerationSettings model;
  if (const auto found = beside.find(std::string(kGenerationFile)); found != beside.end()) {
    model = generation_from_json(found->second, path_in(folder, kGenerationFile));
  }
  if (!options.model_languages.empty()) {
    const LanguagePair noted = languages_from(options.model_languages);
    model.from_language = noted.from;
    model.to_language = noted.to;
  }
  if (languages.from.empty()) languages.from = model.from_language;
  if (languages.to.empty()) languages.to = model.to_language;
  return languages;
}

void check_with_base(const TrainOptions& options, const BaseModel& base) {
  const auto decided = decided_by_the_model(options);
  std::string changes;
  for (const OptionChange& change :
       changed_options(to_toml(tuning_options(base)), options, base.folder)) {
    if (!decided.contains(change.name)) continue;
    changes += concat(changes.empty() ? "" : ", ", change.name, " ", change.recorded, ", not ",
                      change.now);
  }
  require(changes.empty(), ErrorCode::invalid_argument, base.folder, ": is a model with ", changes,
          ": a run that begins with a model keeps its shape and its tokenizer");
  require(options.max_tokens <= base.config.max_length, ErrorCode::invalid_argument, base.folder,
          ": reads at most ", base.config.max_length, " tokens, not the ", options.max_tokens,
          " of max-tokens");
  (void)Frozen(base.config, options.freeze);  // raises for parts that the model does not have
  // Each raises for a language that is not there, or that is needed and not named.
  const LanguagePair languages = languages_for(options, base.tokenizer, base.beside, base.folder);
  const bool translates = !base.config.decoder_only();
  if (translates) base.tokenizer.encode_source("", languages);
  base.tokenizer.encode_target("", languages);
  if (translates || base.tokenizer.has_start()) base.tokenizer.start(languages);
}

Transformer weights_of(const BaseModel& base, const TransformerConfig& config,
                       const Placement& placement, const Function<void(const Notice&)>& notice) {
  const Transformer from =
      Transformer::load(base.folder, {.purpose = Purpose::study, .notice = notice});
  require(identity_of(path_in(base.folder, kWeightsFile)) == base.identity &&
              (!from.seal().sealed() || from.seal().identity == base.identity),
          ErrorCode::io, path_in(base.folder, kWeightsFile),
          ": was replaced while it was read: try again");
  constexpr uint64_t kAnySeed = 1;  // every weight is replaced
  Transformer model(config, kAnySeed, placement);
  const auto parameters = from.parameters();
  const auto writable = model.writable_parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    copy_into(parameters[i].tensor, writable[i].tensor);
  }
  Context context(1, placement);
  model.weights_changed(context);
  context.queue.wait();  // sessions read the weights in queues of their own
  return model;
}

}  // namespace tril
