#include "tril/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "tril/base/clock.h"
#include "tril/base/math.h"
#include "tril/base/parallel.h"
#include "tril/data/batches.h"
#include "tril/io/atomic_file.h"
#include "tril/models/folder.h"
#include "tril/train/run_folder.h"
#include "tril/train/run_start.h"
#include "tril/train/updater.h"

namespace tril {
namespace {

// The option to change if a run diverges.
constexpr Field kRate{"schedule.peak"};
// After this many updates in a row without a finite gradient a run cannot recover.
constexpr int64_t kMostBadUpdates = 20;

// If a device computes, the host's threads are free to tokenize.
int threads_ahead(const RunOn& on) {
  constexpr int kMost = 12;
  if (!computes_beside_the_host(on.placement.device)) return 0;
  return std::clamp(Parallel(on.threads).threads() - 2, 1, kMost);
}

BatchOptions batch_options(const TrainingText& text, const TrainOptions& options, const RunOn& on) {
  return {.source_rows =
              balanced_source_rows(text.train, options.micro_batch_tokens, options.max_tokens),
          .target_rows = options.micro_batch_tokens,
          .seed = options.seed,
          .bpe_dropout = options.bpe_dropout,
          .max_tokens = std::max(options.model.max_length, options.max_tokens),
          .threads_ahead = threads_ahead(on),
          .languages = options.languages};
}

UpdaterOptions updater_options(const TrainOptions& options) {
  UpdaterOptions result{.optimizer = options.optimizer,
                        .average = options.average,
                        .schedule = options.schedule,
                        .smoothing = options.smoothing,
                        .seed = options.seed,
                        .frozen = options.freeze};
  result.schedule.updates = options.updates;
  return result;
}

bool is_finite(const Transformer& model) {
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

// How fast a run learns, without the time that evaluations and checkpoints take.
struct Speed {
  Stopwatch watch{};
  int64_t tokens = 0;
  double paused = 0.0;  // seconds

  double tokens_per_s() const {
    constexpr double kShortest = 1e-6;  // no clock is finer
    return static_cast<double>(tokens) / std::max(watch.seconds() - paused, kShortest);
  }
};

// While it lives, nothing is learnt.
class Pause {
 public:
  explicit Pause(Speed& speed) : speed_(speed), begun_(speed.watch.seconds()) {}
  ~Pause() { speed_.paused += speed_.watch.seconds() - begun_; }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  Speed& speed_;
  const double begun_;
};

// A run between two checkpoints: batches go to the updater, results into the folder.
class Run {
 public:
  // `model` is what it begins with, unless the checkpoint of a run to be resumed has its weights.
  Run(const TrainingText& text, const TrainOptions& options, RunFolder& folder,
      const Tokenizer& tokenizer, Transformer model, const TrainState& state, RunStart start,
      const RunOn& on, const TrainEvents& events)
      : text_(text),
        options_(options),
        folder_(folder),
        tokenizer_(tokenizer),
        events_(events),
        model_(std::move(model)),
        candidate_(model_.config(), options.seed, on.placement),
        session_(model_, on.threads),
        updater_(model_, updater_options(options), session_),
        state_(state),
        stream_(text.train, tokenizer, batch_options(text, options, on), state.place),
        micro_batches_(static_cast<size_t>(options.batch_tokens / options.micro_batch_tokens)) {
    if (start == RunStart::resume) folder_.load_checkpoint(state, model_, updater_, session_);
  }

  // Records the run as it begins. A new one exists, and can be resumed, from the moment its first
  // checkpoint replaces any other: until then the previous run is untouched.
  void begin() { save(); }

  TrainSummary go() {
    folder_.open_log(state_);
    speed_ = {};
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
      if (evaluation_due()) updater_.average().evaluating();
      if (options_.save_every > 0 && state_.update % options_.save_every == 0) save();
      if (events_.progress) events_.progress(status());
    }
    if (!state_.finished) save();
    check_outcome();
    return {.last = status(),
            .finished = state_.finished,
            .best_update = state_.best_update,
            .best = state_.best,
            .parameters = model_.parameter_count(),
            .stopped_early = state_.finished && state_.update < options_.updates};
  }

 private:
  // A run without any useful result has failed.
  void check_outcome() const {
    require(!state_.finished || !text_.valid || state_.evaluated, ErrorCode::invalid_argument,
            kRate, "train: no evaluation had a finite loss, so there is no model to keep");
    // A model that knows nothing and gives uniform probabilities has a loss of log(vocab).
    if (events_.message &&
        state_.last_loss > math::log(static_cast<double>(tokenizer_.vocab())) + 1.0) {
      events_.message(
          {kRate, "warning: it does worse than guessing: its learning rate may be too high"});
    }
  }

  // An evaluation that was cancelled is repeated when the run is resumed.
  bool evaluation_due() const {
    return state_.update > state_.last_evaluation &&
           (state_.update % options_.evaluate_every == 0 || state_.update == options_.updates) &&
           (state_.update > 0 || text_.valid);
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
    if (!updater_.update(state_.update + 1, micro_batches_, events_.cancelled)) return false;
    ++state_.update;
    state_.target_tokens += tokens;
    sitting_tokens_ += tokens;
    speed_.tokens += tokens;
    place_before_.reset();
    while (const auto outcome = updater_.due_outcome()) take(*outcome);
    return true;
  }

  void take(const UpdateOutcome& outcome) {
    state_.bad_updates = std::isfinite(outcome.gradient_norm) ? 0 : state_.bad_updates + 1;
    require(state_.bad_updates < kMostBadUpdates, ErrorCode::invalid_argument, kRate,
            "train: the gradients are no longer finite after update ", outcome.update - 1);
    gradient_norm_ = outcome.gradient_norm;
    if (!std::isfinite(outcome.loss_sum)) return;
    state_.loss_sum += outcome.loss_sum;
    state_.loss_tokens += outcome.target_tokens;
  }
  void take_all_outcomes() {
    while (const auto outcome = updater_.next_outcome()) take(*outcome);
  }

  double recent_loss() const {
    return state_.loss_tokens == 0 ? state_.last_loss
                                   : state_.loss_sum / static_cast<double>(state_.loss_tokens);
  }

  void write_log() {
    take_all_outcomes();
    state_.last_loss = recent_loss();
    folder_.log({.update = state_.update,
                 .values = {{"loss", state_.last_loss},
                            {"gradient_norm", gradient_norm_},
                            {"rate", updater_.rate(state_.update)},
                            {"tokens", static_cast<double>(state_.target_tokens)},
                            {"seconds", seconds()},
                            {"tokens_per_second", speed_.tokens_per_s()}}});
    speed_ = {};
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
                       .rate = updater_.rate(state_.update),
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

  // Evaluates the averaged weights; false if that was cancelled.
  bool evaluate_candidate() {
    take_all_outcomes();
    const Pause pause(speed_);
    updater_.average().write_to(candidate_, session_);
    if (!text_.valid) {
      publish_unseen();
    } else {
      const Evaluation result = evaluate(candidate_, tokenizer_, *text_.valid,
                                         {.beam = options_.valid_beam,
                                          .micro_batch_tokens = options_.micro_batch_tokens,
                                          .languages = options_.languages,
                                          .cancelled = events_.cancelled},
                                         session_);
      if (result.cancelled) return false;
      log_evaluation(result);
      judge(result);
    }
    folder_.keep_last(candidate_, state_);
    return true;
  }

  // Without validation text the last model is the best, unless it is unusable.
  void publish_unseen() {
    require(is_finite(candidate_), ErrorCode::invalid_argument, kRate,
            "train: the weights are no longer finite");
    require(state_.bad_updates == 0 || state_.update < options_.updates,
            ErrorCode::invalid_argument, kRate, "train: the last ", state_.bad_updates,
            " updates had no finite gradient");
    folder_.publish(candidate_, state_);
  }

  void log_evaluation(const Evaluation& result) {
    LogRecord record{.update = state_.update, .values = {{"valid_loss", result.loss}}};
    if (text_.train.has_source()) {
      record.values.emplace_back("valid_bleu", result.bleu);
      record.values.emplace_back("valid_exact", static_cast<double>(result.exact));
    }
    folder_.log(record);
  }

  // Publishes the candidate if it is the best so far; otherwise patience may end.
  void judge(const Evaluation& result) {
    const bool by_bleu = options_.best_by == BestBy::bleu && text_.train.has_source();
    const double score = by_bleu ? result.bleu : -result.loss;
    // Weights without a finite loss can still have a BLEU, of 0.
    const bool best = std::isfinite(result.loss) && (!state_.evaluated || score > state_.best);
    if (best) {
      state_.evaluated = true;
      state_.best = score;
      state_.best_update = state_.update;
      state_.worse = 0;
      folder_.publish(candidate_, state_);
    } else {
      ++state_.worse;
      state_.finished =
          state_.finished || (options_.patience > 0 && state_.worse >= options_.patience);
    }
    if (events_.evaluated) events_.evaluated(status(), result, best);
  }

  void save() {
    take_all_outcomes();
    const Pause pause(speed_);
    state_.seconds = seconds();
    counted_ = sitting_.seconds();
    state_.place = place_before_ ? *place_before_ : stream_.place();
    state_.optimizer_steps = updater_.optimizer().last(session_).steps;
    folder_.save_checkpoint(state_, model_, updater_);
  }

  const TrainingText& text_;
  const TrainOptions& options_;
  RunFolder& folder_;
  const Tokenizer& tokenizer_;
  const TrainEvents& events_;
  Transformer model_;
  Transformer candidate_;  // the averaged weights, for evaluation and for saving
  Session session_;
  Updater updater_;
  TrainState state_;
  BatchStream stream_;
  std::optional<StreamPlace> place_before_;  // where the current update began
  std::vector<Batch> micro_batches_;
  Stopwatch sitting_;
  double counted_ = 0.0;  // seconds of this sitting already in state_
  int64_t sitting_tokens_ = 0;
  Speed speed_;                 // since the last line of the log in this sitting
  double gradient_norm_ = 0.0;  // of the last update whose outcome was read
};

// Whether the checkpoint says the same of the run as `state`, with which it is resumed.
bool is_recorded(const TrainState& state, const RunPaths& paths) {
  const TrainState recorded = load_state(paths.checkpoint);
  return recorded.options == state.options && recorded.finished == state.finished;
}

}  // namespace

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

void check_start(const std::string& folder, RunStart start) {
  require(!folder.empty(), ErrorCode::invalid_argument, "train: the output folder has no name");
  const RunPaths paths(folder);
  const bool checkpoint = file_exists(paths.checkpoint);
  const bool model = file_exists(path_in(folder, kConfigFile));
  if (start == RunStart::resume) {
    require(checkpoint, ErrorCode::io, Field{model ? "start.model" : "start.resume"},
            paths.checkpoint,
            ": there is no run to resume here: a run can be resumed once its first checkpoint is "
            "written");
  } else if (start == RunStart::fresh) {
    require(!checkpoint && !model, ErrorCode::invalid_argument,
            Field{checkpoint ? "start.checkpoint" : "overwrite"}, paths.folder, ": holds a ",
            model ? "model" : "training run", " already");
  }
  check_writable(folder);
}

std::string options_of_run(const std::string& folder) {
  return load_state(RunPaths(folder).checkpoint).options;
}

TrainSummary train(TrainingText& text, const TrainOptions& given, const std::string& folder,
                   RunStart start, const RunOn& on, const TrainEvents& events) {
  TrainOptions options = given;
  check(options);
  Transformer::check_trainable(options.model, on.placement, "train");
  check_with_text(options, text);
  check_start(folder, start);
  const RunPaths paths(folder);
  // While a run is being resumed no other run may write to it.
  std::optional<FolderLock> lock;
  if (start == RunStart::resume) lock.emplace(paths.lock, events.message);
  const std::optional<BaseModel> base = first_base(text, options, start);
  TrainState state = first_state(text, options, paths, start, base);
  const ModelFiles beside = first_files(text, options, paths, start, base, state, events);
  const Tokenizer tokenizer = first_tokenizer(
      beside, options, options.tokenizer_file.empty() ? paths.checkpoint : options.tokenizer_file);
  options.languages = languages_for(options, tokenizer, beside, folder);
  RunFolder files(paths, options, beside);
  if (start == RunStart::resume) files.check_models(state);
  prepare_text(text, options, tokenizer, events);
  if (options.updates == 0) options.updates = updates_for(text.train, options);
  require(state.update <= options.updates, ErrorCode::bad_format, Field{"updates"},
          paths.checkpoint, ": is after update ", state.update, ", and only ", options.updates,
          " are wanted in all");
  // If the run is already complete, nothing is left to do.
  if (state.update == options.updates && state.last_evaluation == state.update) {
    state.finished = true;
  }
  warn(text.train, options, events);
  const TransformerConfig config = model_config(text, options, tokenizer, state, paths);
  config.check();
  Transformer model = base ? weights_of(*base, config, on.placement, events.message)
                           : Transformer(config, options.seed, on.placement);
  if (!options.freeze.empty() && events.message) {
    events.message({{},
                    concat("frozen: ", Frozen(config, options.freeze).weights(), " of ",
                           model.parameter_count(), " weights keep their values")});
  }
  Run run(text, options, files, tokenizer, std::move(model), state, start, on, events);

  // Everything was checked: from here on the folder is written. An existing model stays until the
  // first evaluation of this run, and an abandoned run until this one's first checkpoint.
  if (!lock) {
    make_folders(paths.training);
    lock.emplace(paths.lock, events.message);
    check_start(folder, start);  // another run may have begun, and ended, meanwhile
  }
  for (const auto& path : {paths.folder, paths.training, paths.last}) remove_abandoned(path);
  if (start != RunStart::resume || !is_recorded(state, paths)) run.begin();
  if (events.resumable) events.resumable();
  files.write_records(state);
  return run.go();
}

}  // namespace tril
