#include "tril/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <memory>
#include <system_error>

#include "tril/base/clock.h"
#include "tril/base/fingerprint.h"
#include "tril/base/math.h"
#include "tril/data/batches.h"
#include "tril/data/permutation.h"
#include "tril/data/sides.h"
#include "tril/io/atomic_file.h"
#include "tril/io/json.h"
#include "tril/io/safetensors.h"
#include "tril/train/checkpoint.h"
#include "tril/train/log.h"
#include "tril/train/run_folder.h"
#include "tril/train/step.h"

namespace tril {
namespace {

constexpr auto kBad = ErrorCode::invalid_argument;
// What to change where a run diverges.
constexpr Field kRate{"schedule.peak"};
constexpr int64_t kMaxFileBytes = int64_t{1} << 30;  // of a tokenizer or a configuration
// After so many updates in a row without a finite gradient there is no way back.
constexpr int64_t kMostBadUpdates = 20;

constexpr const char* kRun = "run";  // a note beside the weights: which run made them

// What tells runs apart: everything that decides on the weights, but for how long it goes on.
std::string identity_of_run(const TrainOptions& given, const TrainState& state) {
  TrainOptions options = given;
  options.train = options.valid = {};  // the texts count, not what their files are called
  options.tokenizer_file.clear();
  options.updates = 0;
  return hexadecimal(
      fingerprint(concat(to_toml(options), state.corpus, " ", state.valid, " ", state.tokenizer)));
}

// A run that has evaluated has left its models in the folder. Models of another run beside it mean
// that the checkpoint was put there.
void check_models_of_run(const RunPaths& paths, const TrainOptions& options,
                         const TrainState& state) {
  if (state.last_evaluation == 0) return;
  const std::string weights = path_in(paths.last, kWeightsFile);
  if (!file_exists(weights)) return;
  const SafetensorsMetadata notes = read_safetensors_info(weights).metadata;
  const auto run = notes.find(kRun);
  require(run == notes.end() || run->second == identity_of_run(options, state),
          ErrorCode::bad_format, paths.checkpoint, ": is of another run than the models in ",
          paths.folder);
}

Tokenizer learn_tokenizer(const TrainingText& text, const TrainOptions& options,
                          const TrainEvents& events) {
  if (!options.tokenizer_file.empty()) {
    return Tokenizer::from_bytes(read_file(options.tokenizer_file, kMaxFileBytes),
                                 options.tokenizer_file);
  }
  if (events.message) events.message("learning the subword tokens");
  const int64_t sides = text.train.has_source() ? 2 : 1;
  // All lines in their order, or as many as are wanted, drawn from the whole text.
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

TransformerConfig model_config(const TrainingText& text, const TrainOptions& options,
                               const Tokenizer& tokenizer) {
  TransformerConfig config = options.model;
  if (!text.train.has_source()) config.encoder_layers = 0;
  require(!text.train.has_source() || config.encoder_layers > 0, kBad,
          "train: encoder-layers must be positive for pairs; a text alone has no encoder");
  config.target_vocab = tokenizer.vocab();
  config.source_vocab = config.decoder_only() ? 0 : tokenizer.vocab();
  config.max_length = std::max(config.max_length, options.max_tokens);
  return config.completed();
}

// Where a device computes the host's threads are free to cut sentences.
int threads_ahead(const RunOn& on) {
  constexpr int kMost = 12;
  return on.placement.device == Device::cpu
             ? 0
             : std::clamp(Parallel(on.threads).threads() - 2, 1, kMost);
}

BatchOptions batch_options(const TrainingText& text, const TrainOptions& options, const RunOn& on) {
  return {.source_rows =
              balanced_source_rows(text.train, options.micro_batch_tokens, options.max_tokens),
          .target_rows = options.micro_batch_tokens,
          .seed = options.seed,
          .bpe_dropout = options.bpe_dropout,
          .max_tokens = std::max(options.model.max_length, options.max_tokens),
          .threads_ahead = threads_ahead(on)};
}

// A run between two checkpoints, and everything it owns.
class Run {
 public:
  Run(TrainingText& text, const TrainOptions& options, const RunPaths& paths,
      const Tokenizer& tokenizer, const TrainState& state, const RunOn& on,
      const TrainEvents& events)
      : text_(text),
        options_(options),
        paths_(paths),
        tokenizer_(tokenizer),
        events_(events),
        model_(model_config(text, options, tokenizer), options.seed, on.placement),
        candidate_(model_.config(), options.seed, on.placement),
        session_(model_, on.threads),
        optimizer_(model_, options.optimizer),
        average_(model_, options.average),
        state_(state),
        stream_(text.train, tokenizer, batch_options(text, options, on), state.place),
        micro_batches_(static_cast<size_t>(options.batch_tokens / options.micro_batch_tokens)),
        schedule_(options.schedule) {
    schedule_.updates = options.updates;
    model_.prepare_training(session_);
    if (state.update > 0) {
      load_checkpoint(paths.checkpoint, state, model_, optimizer_, average_, session_);
    }
  }

  // A new run exists, and can be resumed, from the moment its first checkpoint replaces any other:
  // until then the previous run is untouched.
  void begin() { save(); }

  TrainSummary go() {
    log_ = std::make_unique<TrainingLog>(paths_.log, state_.update, state_.last_evaluation);
    TrainSummary summary;
    summary.parameters = model_.parameter_count();
    while (!state_.finished) {
      if (evaluation_due()) {
        if (!evaluate_candidate()) break;
        state_.last_evaluation = state_.update;
        state_.finished = state_.finished || state_.update == options_.updates;
        save();
        continue;
      }
      if (cancelled() || !update()) break;
      const bool last = state_.update == options_.updates;
      if (state_.update % options_.log_every == 0 || last) write_log();
      if (evaluation_due()) average_.evaluating();
      if (options_.save_every > 0 && state_.update % options_.save_every == 0) save();
      if (events_.progress) events_.progress(status());
    }
    if (!state_.finished) save();
    check_outcome();
    // What knows nothing and says so has a loss of log(vocab).
    if (events_.message &&
        state_.last_loss > math::log(static_cast<double>(tokenizer_.vocab())) + 1.0) {
      events_.message(
          {kRate, "warning: it does worse than guessing: its learning rate may be too high"});
    }
    summary.last = status();
    summary.finished = state_.finished;
    summary.stopped_early = state_.finished && state_.update < options_.updates;
    summary.best = state_.best;
    summary.best_update = state_.best_update;
    return summary;
  }

 private:
  // A run without any useful result has failed.
  void check_outcome() const {
    require(!state_.finished || !text_.valid || state_.evaluated, ErrorCode::invalid_argument,
            kRate, "train: no evaluation had a finite loss, so there is no model to keep");
  }

  // An evaluation that was cancelled is repeated when the run is resumed.
  bool evaluation_due() const {
    return state_.update > state_.last_evaluation &&
           (state_.update % options_.evaluate_every == 0 || state_.update == options_.updates);
  }

  bool cancelled() const { return events_.cancelled && events_.cancelled(); }

  // False if it was cancelled between two micro-batches: then nothing has been learnt from it, and
  // the stream is where it was before.
  bool update() {
    const bool in_parts = micro_batches_.size() > 1;
    if (in_parts) place_before_ = stream_.place();
    int64_t tokens = 0;
    for (Batch& batch : micro_batches_) {
      if (in_parts && cancelled()) return false;
      stream_.next(batch);
      tokens += batch.target_tokens;
    }
    const auto number = state_.update + 1;
    Outcome outcome{.update = number, .tokens = tokens};
    for (size_t i = 0; i < micro_batches_.size(); ++i) {
      if (in_parts && cancelled()) return false;
      Tensor loss;
      session_.queue.step([&] { loss = enqueue(i, number, tokens); });
      outcome.losses.push_back(session_.queue.fetch(loss.raw(), sizeof(float)));
    }
    outcome.last = optimizer_.fetch_last(session_);
    outcomes_.push_back(std::move(outcome));
    state_.update = number;
    state_.target_tokens += tokens;
    sitting_tokens_ += tokens;
    place_before_.reset();
    // A device may be some updates behind; the host looks when it must.
    while (outcomes_.size() > updates_behind(session_)) learn_outcome();
    return true;
  }

  // One micro-batch of an update, the last with the update itself. May be walked before it runs
  // (device/queue.h), so it leaves nothing on the host that a second call would find.
  Tensor enqueue(size_t micro_batch, int64_t number, int64_t tokens) {
    const Batch& batch = micro_batches_[micro_batch];
    const bool last = micro_batch + 1 == micro_batches_.size();
    const auto rate = static_cast<float>(learning_rate(schedule_, number));
    session_.reset();
    session_.dropout = DropoutStep{.seed = options_.seed, .step = static_cast<uint32_t>(number)};
    Tape tape(session_);
    const Tensor loss = batch_loss(model_, batch,
                                   {.smoothing = static_cast<float>(options_.smoothing),
                                    .factor = 1.0f / static_cast<float>(tokens)},
                                   session_);
    const Gradients gradients = tape.backward(loss);
    if (micro_batches_.size() == 1) {
      optimizer_.step(gradients, rate, session_);
    } else {
      optimizer_.add(gradients,
                     micro_batch == 0 ? AdamWOptimizer::MicroBatch::first
                                      : AdamWOptimizer::MicroBatch::further,
                     session_);
      if (last) optimizer_.step(rate, session_);
    }
    if (last) average_.updated(number, session_);
    return loss;
  }

  // What became of the oldest update that nobody has looked at yet.
  void learn_outcome() {
    const Outcome outcome = std::move(outcomes_.front());
    outcomes_.pop_front();
    const double norm = AdamWOptimizer::fetched_last(session_, outcome.last).norm;
    state_.bad_updates = std::isfinite(norm) ? 0 : state_.bad_updates + 1;
    require(state_.bad_updates < kMostBadUpdates, ErrorCode::invalid_argument, kRate,
            "train: the gradients are no longer finite after update ", outcome.update - 1);
    double sum = 0.0;
    for (const int64_t fetch : outcome.losses) {
      float loss = 0.0f;
      session_.queue.fetched(fetch, &loss, sizeof loss);
      sum += static_cast<double>(loss) * static_cast<double>(outcome.tokens);
    }
    if (!std::isfinite(sum)) return;
    state_.loss_sum += sum;
    state_.loss_tokens += outcome.tokens;
  }
  void learn_all_outcomes() {
    while (!outcomes_.empty()) learn_outcome();
  }

  double recent_loss() const {
    return state_.loss_tokens == 0 ? state_.last_loss
                                   : state_.loss_sum / static_cast<double>(state_.loss_tokens);
  }

  void write_log() {
    learn_all_outcomes();
    state_.last_loss = recent_loss();
    log_->append({.update = state_.update,
                  .values = {{"loss", state_.last_loss},
                             {"rate", learning_rate(schedule_, state_.update)},
                             {"tokens", static_cast<double>(state_.target_tokens)},
                             {"seconds", seconds()}}});
    state_.loss_sum = 0.0;
    state_.loss_tokens = 0;
  }

  double seconds() const { return state_.seconds + sitting_.seconds() - counted_; }

  TrainStatus status() const {
    const double sitting = sitting_.seconds();
    TrainStatus status{.update = state_.update,
                       .updates = options_.updates,
                       .epoch = stream_.epochs(),
                       .loss = recent_loss(),
                       .rate = learning_rate(schedule_, state_.update),
                       .tokens_per_s = static_cast<double>(sitting_tokens_) / sitting,
                       .seconds = seconds(),
                       .best = std::fabs(state_.best),
                       .evaluated = state_.evaluated};
    const double done = static_cast<double>(state_.update);
    status.seconds_left =
        done == 0.0 ? 0.0
                    : status.seconds / done * static_cast<double>(options_.updates - state_.update);
    return status;
  }

  // What the weights average to, looked at with text it has not seen; false when it was cancelled.
  bool evaluate_candidate() {
    learn_all_outcomes();
    average_.write_to(candidate_, session_);
    if (!text_.valid) {
      require(is_finite(candidate_), ErrorCode::invalid_argument, kRate,
              "train: the weights are no longer finite");
      require(state_.bad_updates == 0 || state_.update < options_.updates,
              ErrorCode::invalid_argument, kRate, "train: the last ", state_.bad_updates,
              " updates had no finite gradient");
      publish(paths_.folder);
      keep_last();
      return true;
    }
    const Evaluation result = evaluate(candidate_, tokenizer_, *text_.valid,
                                       {.beam = options_.valid_beam,
                                        .micro_batch_tokens = options_.micro_batch_tokens,
                                        .cancelled = events_.cancelled},
                                       session_);
    if (result.cancelled) return false;
    LogRecord record{.update = state_.update, .values = {{"valid_loss", result.loss}}};
    const bool by_bleu = options_.best_by == BestBy::bleu && text_.train.has_source();
    if (text_.train.has_source()) {
      record.values.emplace_back("valid_bleu", result.bleu);
      record.values.emplace_back("valid_exact", static_cast<double>(result.exact));
    }
    log_->append(record);
    const double score = by_bleu ? result.bleu : -result.loss;
    // Weights without a finite loss can still have a BLEU, of 0.
    const bool best = std::isfinite(result.loss) && (!state_.evaluated || score > state_.best);
    if (best) {
      state_.evaluated = true;
      state_.best = score;
      state_.best_update = state_.update;
      state_.worse = 0;
      publish(paths_.folder);
    } else {
      ++state_.worse;
      state_.finished =
          state_.finished || (options_.patience > 0 && state_.worse >= options_.patience);
    }
    if (events_.evaluated) events_.evaluated(status(), result, best);
    keep_last();
    return true;
  }

  static bool is_finite(const Transformer& model) {
    for (const auto& parameter : model.parameters()) {
      const OnHost weights(parameter.tensor);
      const auto values = weights.values();
      if (!std::all_of(values.begin(), values.end(),
                       [](float weight) { return std::isfinite(weight); })) {
        return false;
      }
    }
    return true;
  }

  void publish(const std::string& folder) const {
    candidate_.save(folder, {.beside = {{std::string(kTokenizerFile), tokenizer_.bytes()}},
                             .notes = {{kRun, identity_of_run(options_, state_)}}});
  }

  void keep_last() const {
    publish(paths_.last);
    write_file_atomically(paths_.curve, draw_curve(log_->records()), Links::replace);
  }

  void save() {
    learn_all_outcomes();
    state_.seconds = seconds();
    counted_ = sitting_.seconds();
    state_.place = place_before_ ? *place_before_ : stream_.place();
    state_.optimizer_steps = optimizer_.last(session_).steps;
    if (log_ != nullptr) log_->flush();
    save_checkpoint(paths_.checkpoint, state_, tokenizer_.bytes(), model_, optimizer_, average_);
  }

  TrainingText& text_;
  const TrainOptions& options_;
  const RunPaths& paths_;
  const Tokenizer& tokenizer_;
  const TrainEvents& events_;
  Transformer model_;
  Transformer candidate_;  // the averaged weights, for evaluation and for saving
  Session session_;
  AdamWOptimizer optimizer_;
  WeightAverage average_;
  TrainState state_;
  std::unique_ptr<TrainingLog> log_;
  BatchStream stream_;
  std::optional<StreamPlace> place_before_;  // where the current update began
  std::vector<Batch> micro_batches_;
  ScheduleOptions schedule_;
  Stopwatch sitting_;
  // Updates that were enqueued and not looked at, oldest first; losses and norm as Queue::fetch
  // numbers them.
  struct Outcome {
    int64_t update = 0;
    int64_t tokens = 0;
    std::vector<int64_t> losses{};
    int64_t last = 0;
  };
  std::deque<Outcome> outcomes_;
  double counted_ = 0.0;  // seconds of this sitting that state_ knows of
  int64_t sitting_tokens_ = 0;
};

// What a run begins or goes on with. Raises unless the checkpoint belongs to this text and these
// options.
TrainState first_state(const TrainingText& text, const TrainOptions& options, const RunPaths& paths,
                       RunStart start) {
  TrainState now;
  now.options = to_toml(options);
  now.corpus = text.train.fingerprint();
  now.valid = text.valid ? text.valid->fingerprint() : 0;
  if (start != RunStart::resume) return now;
  TrainState state = load_state(paths.checkpoint);
  const std::string other = first_difference(now.options, state.options);
  if (other == "updates") {  // more may be asked for than at first; everything else stays
    const auto rest = [](const std::string& options_text) {
      return options_text.substr(options_text.find("\nbatch-tokens"));
    };
    require(rest(now.options) == rest(state.options), kBad, paths.checkpoint,
            ": was made with other options; only the number of updates may change");
    state.options = now.options;
    state.finished = false;
    // Patience that was lost is given anew.
    if (options.patience > 0 && state.worse >= options.patience) state.worse = 0;
  }
  require(other.empty() || other == "updates", kBad, paths.checkpoint, ": was made with another ",
          other, "; a run goes on with the options it began with");
  require(state.corpus == now.corpus, kBad, paths.checkpoint,
          ": was made from another text: the training files have changed since");
  require(state.valid == now.valid, kBad, paths.checkpoint,
          ": was made with other validation files: they have changed since");
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
  if (!in_checkpoint) bytes = read_file(paths.tokenizer, kMaxFileBytes);
  require(fingerprint(bytes) == state.tokenizer, ErrorCode::bad_format, file,
          ": is not the tokenizer of this run");
  return Tokenizer::from_bytes(std::move(bytes), file);
}

int64_t updates_for(const Corpus& corpus, const TrainOptions& options) {
  constexpr int64_t kRounds = 60;
  return std::clamp<int64_t>(corpus.target_tokens() * kRounds / options.batch_tokens, 500, 100'000);
}

// Says what will hardly do what was meant.
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

void prepare(TrainingText& text, const TrainOptions& options, const Tokenizer& tokenizer,
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
  require(verdict != Sides::Verdict::swapped, kBad,
          "train: the two sides of the validation text read as if they were swapped");
  if (verdict == Sides::Verdict::one_odd) {
    say("warning: one side of the validation text reads like the other language");
  }
}

}  // namespace

void check_start(const std::string& folder, RunStart start) {
  require(!folder.empty(), kBad, "train: the output folder has no name");
  const RunPaths paths(folder);
  const bool checkpoint = file_exists(paths.checkpoint);
  const bool model = file_exists(path_in(folder, kConfigFile));
  if (start == RunStart::resume) {
    require(checkpoint, ErrorCode::io, Field{model ? "start.model" : "start.resume"},
            paths.checkpoint,
            ": there is no run to resume here: a run can be resumed once its first checkpoint is "
            "written");
  } else if (start == RunStart::fresh) {
    require(!checkpoint && !model, kBad, Field{checkpoint ? "start.checkpoint" : "overwrite"},
            paths.folder, ": holds a ", model ? "model" : "training run", " already");
  }
  check_writable(folder);
}

std::string options_of_run(const std::string& folder) {
  return load_state(RunPaths(folder).checkpoint).options;
}

TrainingText read_text(const TrainOptions& options, const TrainEvents& events) {
  check(options);
  if (events.message) events.message("reading the text");
  CorpusOptions corpus;
  std::error_code error;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(error);
  if (!error) corpus.spool_folder = temporary.string();
  TrainingText text{Corpus(options.train, corpus), std::nullopt};
  if (!options.valid.empty()) text.valid.emplace(options.valid, corpus);
  return text;
}

TrainSummary train(TrainingText& text, const TrainOptions& given, const std::string& folder,
                   RunStart start, const RunOn& on, const TrainEvents& events) {
  TrainOptions options = given;
  check(options);
  require(options.patience == 0 || text.valid, kBad, "train: patience needs validation text");
  check_start(folder, start);
  const RunPaths paths(folder);
  // While a run is being resumed no other run may write to it.
  std::optional<FolderLock> lock;
  if (start == RunStart::resume) lock.emplace(paths.lock, events.message);
  TrainState state = first_state(text, options, paths, start);
  const Tokenizer tokenizer = first_tokenizer(text, options, paths, start, state, events);
  if (start == RunStart::resume) check_models_of_run(paths, options, state);
  prepare(text, options, tokenizer, events);
  if (options.updates == 0) options.updates = updates_for(text.train, options);
  require(state.update <= options.updates, ErrorCode::bad_format, Field{"updates"},
          paths.checkpoint, ": is after update ", state.update, ", and only ", options.updates,
          " are wanted in all");
  warn(text.train, options, events);
  model_config(text, options, tokenizer).check();
  Run run(text, options, paths, tokenizer, state, on, events);

  // Everything was checked: from here on the folder is written. An existing model stays until the
  // first evaluation of this run, and an abandoned run until this one's first checkpoint.
  if (!lock) {
    make_folders(paths.training);
    lock.emplace(paths.lock, events.message);
    check_start(folder, start);  // another run may have begun, and ended, meanwhile
  }
  for (const auto& path : {paths.folder, paths.training, paths.last}) remove_abandoned(path);
  if (start != RunStart::resume) run.begin();
  if (events.resumable) events.resumable();
  // For people: the checkpoint holds both.
  write_file_atomically(paths.tokenizer, tokenizer.bytes(), Links::replace);
  write_file_atomically(paths.options, state.options, Links::replace);
  return run.go();
}

}  // namespace tril
