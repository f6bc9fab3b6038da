#include "tril/train/run_start.h"

#include <algorithm>
#include <cmath>

#include "tril/base/fingerprint.h"
#include "tril/data/permutation.h"
#include "tril/data/sides.h"
#include "tril/io/atomic_file.h"

namespace tril {
namespace {

constexpr int64_t kMaxTokenizerBytes = int64_t{1} << 30;

Tokenizer learn_tokenizer(const TrainingText& text, const TrainOptions& options,
                          const TrainEvents& events) {
  if (!options.tokenizer_file.empty()) {
    return Tokenizer::from_bytes(read_file(options.tokenizer_file, kMaxTokenizerBytes),
                                 options.tokenizer_file);
  }
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
  require(!text.train.has_source() || options.model.encoder_layers > 0, ErrorCode::invalid_argument,
          "train: encoder-layers must be positive for pairs; a text alone has no encoder");
  require(options.patience == 0 || text.valid, ErrorCode::invalid_argument,
          "train: patience needs validation text");
}

TrainState first_state(const TrainingText& text, const TrainOptions& options, const RunPaths& paths,
                       RunStart start) {
  TrainState now;
  now.options = to_toml(options);
  now.corpus = text.train.fingerprint();
  now.valid = text.valid ? text.valid->fingerprint() : 0;
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

Tokenizer first_tokenizer(const TrainingText& text, const TrainOptions& options,
                          const RunPaths& paths, RunStart start, TrainState& state,
                          const TrainEvents& events) {
  if (start != RunStart::resume) {
    Tokenizer tokenizer = learn_tokenizer(text, options, events);
    state.tokenizer = fingerprint(tokenizer.bytes());
    if (options.bpe_dropout > 0.0) tokenizer.encode("x", {.probability = options.bpe_dropout});
    return tokenizer;
  }
  std::string bytes = load_tokenizer(paths.checkpoint);
  const bool in_checkpoint = !bytes.empty();
  const std::string& file = in_checkpoint ? paths.checkpoint : paths.tokenizer;
  if (!in_checkpoint) bytes = read_file(paths.tokenizer, kMaxTokenizerBytes);
  require(fingerprint(bytes) == state.tokenizer, ErrorCode::bad_format, file,
          ": is not the tokenizer of this run");
  return Tokenizer::from_bytes(std::move(bytes), file);
}

void prepare_text(TrainingText& text, const TrainOptions& options, const Tokenizer& tokenizer,
                  const TrainEvents& events) {
  const auto say = [&](const std::string& line) {
    if (events.message) events.message(line);
  };
  for (Corpus* corpus : {&text.train, text.valid ? &*text.valid : nullptr}) {
    if (corpus == nullptr) continue;
    corpus->limit_tokens(tokenizer, options.max_tokens);
    say(concat(corpus->size(), corpus->has_source() ? " pairs" : " lines",
               corpus == &text.train ? " to learn from" : " to evaluate with"));
    for (const std::string& line : corpus->report().lines()) say(line);
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
  constexpr int64_t kRounds = 60;
  return std::clamp<int64_t>(corpus.target_tokens() * kRounds / options.batch_tokens, 500, 100'000);
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
                               const Tokenizer& tokenizer) {
  TransformerConfig config = options.model;
  if (!text.train.has_source()) config.encoder_layers = 0;
  config.target_vocab = tokenizer.vocab();
  config.source_vocab = config.decoder_only() ? 0 : tokenizer.vocab();
  config.max_length = std::max(config.max_length, options.max_tokens);
  return config.completed();
}

}  // namespace tril
