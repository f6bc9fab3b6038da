#include "tril/train/run_start.h"

#include <algorithm>
#include <cmath>

#include "tril/base/fingerprint.h"
#include "tril/data/permutation.h"
#include "tril/data/sides.h"
#include "tril/decode/generation.h"
#include "tril/io/atomic_file.h"

namespace tril {
namespace {

constexpr int64_t kMaxTokenizerBytes = int64_t{1} << 30;

Tokenizer learn_tokenizer(const TrainingText& text, const TrainOptions& options,
                          const TrainEvents& events) {
  if (events.message) events.message("learning the subword tokens");
  const int64_t sides = text.train.has_source() ? 2 : 1;
  // All lines in order, or the wanted number drawn from the whole text.
  const int64_t lines = std::min(text.train.size() * sides, options.tokenizer_lines);
  const bool all = lines == text.train.size() * sides;
  const Permutation order(text.train.size(), options.seed, ~uint64_t{0});
  int64_t next = 0;
  TokenizerReport report;
  Tokenizer tokenizer = Tokenizer::train(
      [&](std::string& line) {
        if (next == lines) return false;
        const int64_t pair = all ? next / sides : order[next / sides];
        line = next % sides == sides - 1 ? text.train.target(pair) : text.train.source(pair);
        ++next;
        return true;
      },
      options.tokenizer, &report);
  if (events.message) {
    std::string text_line = concat(tokenizer.vocab(), " pieces from ", report.lines, " lines");
    if (!all) text_line += concat(" drawn from ", text.train.size() * sides);
    if (report.skipped > 0) {
      text_line += concat(" (", report.skipped, " lines left out of learning them)");
    }
    events.message(text_line);
  }
  return tokenizer;
}

// What the model translates unless told otherwise: as --languages says, or what it is tuned on.
// Into generation.json, whose other settings stay.
void note_languages(const TrainOptions& options, ModelFiles& files) {
  std::string& file = files[std::string(kGenerationFile)];
  GenerationSettings settings;
  if (!file.empty()) settings = generation_from_json(file, std::string(kGenerationFile));
  const LanguagePair languages =
      options.model_languages.empty() ? options.languages : languages_from(options.model_languages);
  if (!languages.from.empty()) settings.from_language = languages.from;
  if (!languages.to.empty()) settings.to_language = languages.to;
  file = to_json(settings);
}

// Whether more updates are requested than before; everything else must be the same.
bool updates_changed(const TrainState& state, const TrainOptions& options,
                     const std::string& checkpoint) {
  bool updates = false;
  std::string changes;
  for (const OptionChange& change : changed_options(state.options, options, checkpoint)) {
    if (change.name == "updates") {
      updates = true;
      continue;
    }
    changes += concat(changes.empty() ? "" : ", ", change.name, " (", change.recorded, ", now ",
                      change.now, ")");
  }
  require(changes.empty(), ErrorCode::invalid_argument, checkpoint, ": was made with another ",
          changes, "; a run goes on with the options it began with, but for the number of updates");
  return updates;
}

}  // namespace

void check_with_text(const TrainOptions& options, const TrainingText& text) {
  const bool has_encoder = options.model.encoder_layers > 0 || !options.from.empty();
  require(!text.train.has_source() || has_encoder, ErrorCode::invalid_argument,
          "train: encoder-layers must be positive for pairs; a text alone has no encoder");
  require(options.patience == 0 || text.valid, ErrorCode::invalid_argument,
          "train: patience needs validation text");
}

std::optional<BaseModel> first_base(const TrainingText& text, const TrainOptions& options,
                                    RunStart start) {
  if (start == RunStart::resume || options.from.empty()) return std::nullopt;
  BaseModel base = read_base(options.from);
  check_with_base(options, base);
  require(text.train.has_source() != base.config.decoder_only(), ErrorCode::invalid_argument,
          base.folder,
          base.config.decoder_only() ? ": is a decoder-only model: it learns from a text, not pairs"
                                     : ": is a model that translates: it learns from pairs");
  return base;
}

TrainState first_state(const TrainingText& text, const TrainOptions& options, const RunPaths& paths,
                       RunStart start, const std::optional<BaseModel>& base) {
  TrainState now;
  now.options = to_toml(options);
  now.corpus = text.train.fingerprint();
  now.valid = text.valid ? text.valid->fingerprint() : 0;
  if (base) {
    now.last_evaluation = -1;
    now.base = base->identity;
    TransformerConfig config = base->config;
    config.dropout = options.model.dropout;
    now.config = to_json(config);
  }
  if (start != RunStart::resume) return now;
  TrainState state = load_state(paths.checkpoint);
  const bool longer = updates_changed(state, options, paths.checkpoint);
  require(state.corpus == now.corpus, ErrorCode::invalid_argument, paths.checkpoint,
          ": was made from another text: the training files have changed since");
  require(state.valid == now.valid, ErrorCode::invalid_argument, paths.checkpoint,
          ": was made with other validation files: they have changed since");
  if (longer) {
    state.options = now.options;
    state.finished = false;
    // Patience that was used up is granted again.
    if (options.patience > 0 && state.worse >= options.patience) state.worse = 0;
  }
  return state;
}

ModelFiles first_files(const TrainingText& text, const TrainOptions& options, const RunPaths& paths,
                       RunStart start, const std::optional<BaseModel>& base, TrainState& state,
                       const TrainEvents& events) {
  const std::string tokenizer(kTokenizerFile);
  ModelFiles files;
  if (start == RunStart::resume) {
    files = load_files(paths.checkpoint);
    const bool in_checkpoint = files.contains(tokenizer);
    if (!in_checkpoint) files[tokenizer] = read_file(paths.tokenizer, kMaxTokenizerBytes);
    require(fingerprint(files[tokenizer]) == state.tokenizer, ErrorCode::bad_format,
            in_checkpoint ? paths.checkpoint : paths.tokenizer,
            ": is not the tokenizer of this run");
    return files;
  }
  if (base) {
    files = base->beside;
    files[tokenizer] = base->tokenizer.bytes();
  } else if (!options.tokenizer_file.empty()) {
    files[tokenizer] = read_file(options.tokenizer_file, kMaxTokenizerBytes);
  } else {
    files[tokenizer] = learn_tokenizer(text, options, events).bytes();
  }
  state.tokenizer = fingerprint(files[tokenizer]);
  if (!options.model_languages.empty() || options.languages != LanguagePair{}) {
    note_languages(options, files);
  }
  return files;
}

Tokenizer first_tokenizer(const ModelFiles& files, const TrainOptions& options,
                          const std::string& file) {
  Tokenizer tokenizer = Tokenizer::from_bytes(files.at(std::string(kTokenizerFile)), file);
  if (options.bpe_dropout > 0.0) tokenizer.encode("x", {.probability = options.bpe_dropout});
  return tokenizer;
}

namespace {

// Characters that a tokenizer does not know are lost in what a model learns. Looks at some pairs.
std::string unknown_warning(const Corpus& corpus, const Tokenizer& tokenizer) {
  constexpr int64_t kLooked = 1000;
  constexpr double kFew = 0.02;  // names in other scripts are everywhere
  const std::optional<int32_t> unknown = tokenizer.unknown();
  if (!unknown) return "";
  std::string warning;
  for (const TextSide side : {TextSide::source, TextSide::target}) {
    if (side == TextSide::source && !corpus.has_source()) continue;
    int64_t lost = 0, all = 0;
    for (int64_t pair = 0; pair < std::min(corpus.size(), kLooked); ++pair) {
      const std::string_view line =
          side == TextSide::source ? corpus.source(pair) : corpus.target(pair);
      const auto ids = tokenizer.encode(line, side);
      lost += std::count(ids.begin(), ids.end(), *unknown);
      all += std::ssize(ids);
    }
    const double share = all == 0 ? 0.0 : static_cast<double>(lost) / static_cast<double>(all);
    if (share < kFew) continue;
    warning += concat(warning.empty() ? "warning: the tokenizer does not know " : " and ",
                      static_cast<int64_t>(100.0 * share + 0.5), "% of the tokens of the ",
                      side == TextSide::source ? "source" : "target");
  }
  return warning.empty() ? "" : warning + ": the model cannot learn what they say";
}

}  // namespace

void prepare_text(TrainingText& text, const TrainOptions& options, const Tokenizer& tokenizer,
                  const TrainEvents& events) {
  const auto say = [&](const std::string& line) {
    if (events.message) events.message(line);
  };
  for (Corpus* corpus : {&text.train, text.valid ? &*text.valid : nullptr}) {
    if (corpus == nullptr) continue;
    corpus->limit_tokens(tokenizer, options.max_tokens, options.languages);
    say(concat(corpus->size(), corpus->has_source() ? " pairs" : " lines",
               corpus == &text.train ? " to learn from" : " to evaluate with"));
    for (const std::string& line : corpus->report().lines()) say(line);
  }
  if (!tokenizer.languages().empty()) {
    const LanguagePair& usual = tokenizer.default_languages();
    const auto& [from, to] = options.languages;
    say(concat("languages: from ",
               !from.empty()        ? from
               : usual.from.empty() ? "any"
                                    : usual.from,
               " to ",
               !to.empty()        ? to
               : usual.to.empty() ? "any"
                                  : usual.to));
  }
  if (const std::string warning = unknown_warning(text.train, tokenizer); !warning.empty()) {
    say(warning);
  }
  if (!text.valid || !text.train.has_source()) return;
  const Sides::Verdict verdict = Sides(text.train, tokenizer).judge(*text.valid, tokenizer);
  require(verdict != Sides::Verdict::swapped, ErrorCode::invalid_argument,
          "train: the two sides of the validation text read as if they were swapped");
  if (verdict == Sides::Verdict::one_odd) {
    say("warning: one side of the validation text reads like the other language");
  }
}

int64_t updates_for(const Corpus& corpus, const TrainOptions& options) {
  struct Default {
    int64_t rounds, least, most;
  };
  const Default of = options.from.empty() ? Default{60, 500, 100'000} : Default{10, 200, 20'000};
  return std::clamp(corpus.target_tokens() * of.rounds / options.batch_tokens, of.least, of.most);
}

void warn(const Corpus& corpus, const TrainOptions& options, const TrainEvents& events) {
  if (!events.message) return;
  const double rounds = static_cast<double>(options.updates) *
                        static_cast<double>(options.batch_tokens) /
                        static_cast<double>(corpus.target_tokens());
  const auto whole = std::llround(rounds);
  events.message(concat(options.updates, options.updates == 1 ? " update: " : " updates: ",
                        whole == 0 ? "less than one epoch"
                                   : concat("about ", whole, whole == 1 ? " epoch" : " epochs")));
  if (options.schedule.warm_up > options.updates / 2) {
    events.message(
        {Field{"schedule.warm_up"}, concat("warning: the warm-up takes ", options.schedule.warm_up,
                                           " updates, the whole training ", options.updates)});
  }
  if (corpus.report().skipped_pairs() > corpus.size()) {
    events.message("warning: more sentences were left out than are left to learn from");
  }
}

TransformerConfig model_config(const TrainingText& text, const TrainOptions& options,
                               const Tokenizer& tokenizer, const TrainState& state,
                               const RunPaths& paths) {
  if (!state.config.empty()) return config_from_json(state.config, paths.checkpoint);
  TransformerConfig config = options.model;
  if (!text.train.has_source()) config.encoder_layers = 0;
  config.target_vocab = tokenizer.vocab();
  config.source_vocab = config.decoder_only() ? 0 : tokenizer.vocab();
  config.max_length = std::max(config.max_length, options.max_tokens);
  return config.completed();
}

}  // namespace tril
