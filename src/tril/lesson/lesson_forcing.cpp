#include "tril/lesson/lesson_forcing.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "tril/data/batches.h"
#include "tril/lesson/demo.h"
#include "tril/lesson/learn_phrasebook.h"
#include "tril/lesson/writable.h"
#include "tril/models/session_state.h"
#include "tril/prove/pairs.h"
#include "tril/train/evaluation.h"

namespace tril {
namespace {

constexpr int64_t kForcingPoints = 10;     // of the curve
constexpr int64_t kComparedTokens = 2048;  // of a comparison on unseen sentences

// The rows of one target in a batch.
struct Target {
  size_t begin = 0, length = 0;
  int32_t slot = -1;  // in the cache
};

// A batch's targets, read token by token from empty slots of the cache: call i reads token i of all
// targets that are that long.
class TokenByToken {
 public:
  TokenByToken(const Transformer& model, const Writable& writable, Batch& batch, Session& session)
      : model_(model), writable_(writable), batch_(batch), session_(session) {
    const Rows& rows = batch.target;
    for (size_t row = 0; row < rows.slots.size(); ++row) {
      if (rows.slots[row] < 0) continue;
      if (rows.positions[row] == 0) targets_.push_back({.begin = row});
      ++targets_.back().length;
    }
    for (Target& target : targets_) target.slot = session->cache.open();
  }
  ~TokenByToken() {
    for (const Target& target : targets_) session_->cache.release(target.slot);
  }
  TokenByToken(const TokenByToken&) = delete;
  TokenByToken& operator=(const TokenByToken&) = delete;

  size_t longest() const { return std::ranges::max(targets_, {}, &Target::length).length; }

  // Own predictions: the likeliest token after each becomes the next input, up to the length of the
  // target. The prediction after the last input is not needed, so there is one call fewer than the
  // longest target has rows.
  void write() {
    read(1, [&](const Target& target, size_t position, std::span<const float> log_probs) {
      batch_.target.tokens[target.begin + position + 1] = writable_.likeliest(log_probs);
    });
  }
  // The log-probability of each row's label; 0 for padding.
  std::vector<float> labels() {
    std::vector<float> result(batch_.labels.size(), 0.0f);
    read(0, [&](const Target& target, size_t position, std::span<const float> log_probs) {
      const size_t row = target.begin + position;
      result[row] = log_probs[static_cast<size_t>(batch_.labels[row])];
    });
    return result;
  }

 private:
  // Reads all but the last `spared` tokens of each target; f(target, position, log-probabilities).
  template <class F>
  void read(size_t spared, const F& f) {
    session_.reset();
    const Memory memory = model_.encode(batch_.source, session_);
    const Rows& all = batch_.target;
    for (size_t position = 0;; ++position) {
      Rows rows;
      std::vector<const Target*> read;
      for (const Target& target : targets_) {
        if (position + spared >= target.length) continue;
        const size_t row = target.begin + position;
        rows.add(all.tokens[row], {.slot = target.slot,
                                   .segment = all.segments[row],
                                   .first = static_cast<int32_t>(position)});
        read.push_back(&target);
      }
      if (read.empty()) return;
      session_.reset();
      const Tensor log_probs = model_.log_probs(model_.forward(rows, memory, session_), session_);
      const OnHost values(log_probs);
      for (size_t i = 0; i < read.size(); ++i) {
        f(*read[i], position, values.row(static_cast<int64_t>(i), log_probs.columns()));
      }
    }
  }

  const Transformer& model_;
  const Writable& writable_;
  Batch& batch_;
  Session& session_;
  std::vector<Target> targets_;
};

// The log-probability of each row's label in one call, as in training; 0 for padding.
std::vector<float> labels_in_one_call(const Transformer& model, const Batch& batch,
                                      Session& session) {
  session.reset();
  Tape tape(session);
  const Memory memory = model.encode(batch.source, session);
  const Tensor log_probs = model.log_probs(model.forward(batch.target, memory, session), session);
  const OnHost values(log_probs);
  std::vector<float> result(batch.labels.size(), 0.0f);
  for (size_t row = 0; row < result.size(); ++row) {
    if (batch.labels[row] < 0) continue;
    const auto of = values.row(static_cast<int64_t>(row), log_probs.columns());
    result[row] = of[static_cast<size_t>(batch.labels[row])];
  }
  return result;
}

// Unseen sentences in one call and token by token, from the same inputs.
void compare(const Translator& translator, const std::vector<PhrasePair>& phrases, Session& session,
             ForcingRun& run) {
  const Tokenizer& tokenizer = translator.tokenizer();
  const Writable writable(tokenizer);
  Batch batch;
  const auto look = [&] {
    if (run.feeding == Feeding::own) {
      TokenByToken(translator.model(), writable, batch, session).write();
    }
    const std::vector<float> at_once = labels_in_one_call(translator.model(), batch, session);
    const std::vector<float> one_by_one =
        TokenByToken(translator.model(), writable, batch, session).labels();
    for (size_t row = 0; row < at_once.size(); ++row) {
      if (batch.labels[row] < 0) continue;
      ++run.positions;
      run.loss_one_call -= static_cast<double>(at_once[row]);
      run.loss_token_by_token -= static_cast<double>(one_by_one[row]);
      const bool same =
          std::bit_cast<uint32_t>(at_once[row]) == std::bit_cast<uint32_t>(one_by_one[row]);
      run.positions_differing += same ? 0 : 1;
    }
    batch.clear();
  };
  for (size_t i = 0; i < phrases.size(); ++i) {
    const std::vector<int32_t> source = tokenizer.encode(phrases[i].english);
    add_to_batch(batch, tokenizer, source, tokenizer.encode(phrases[i].hindi),
                 static_cast<int32_t>(i));
    if (batch.target_tokens >= kComparedTokens) look();
  }
  if (batch.sentences > 0) look();
  run.loss_one_call /= static_cast<double>(run.positions);
  run.loss_token_by_token /= static_cast<double>(run.positions);
}

// The mean of each tenth.
std::vector<double> tenths(const std::vector<double>& values) {
  std::vector<double> means;
  for (int64_t i = 0; i < kForcingPoints; ++i) {
    const auto at = [&](int64_t tenth) {
      return values.begin() + static_cast<int64_t>(values.size()) * tenth / kForcingPoints;
    };
    double sum = 0.0;
    std::for_each(at(i), at(i + 1), [&](double value) { sum += value; });
    means.push_back(sum / static_cast<double>(at(i + 1) - at(i)));
  }
  return means;
}

void describe_norms(ForcingRun& run) {
  run.first_norm = run.norms.front();
  run.clipped = std::ranges::count_if(run.norms, [](double norm) { return norm > 1.0; });
  const auto half = std::span(run.norms).subspan(run.norms.size() / 2);
  const auto count = static_cast<double>(half.size());
  double sum = 0.0, squares = 0.0;
  for (const double norm : half) sum += norm;
  run.norm_mean = sum / count;
  for (const double norm : half) squares += (norm - run.norm_mean) * (norm - run.norm_mean);
  run.norm_spread = std::sqrt(squares / count) / run.norm_mean;
  run.norm_peak = std::ranges::max(half) / run.norm_mean;
}

ForcingRun run_once(const Phrasebook& phrasebook, Feeding feeding, Masking masking,
                    const ForcingOptions& options) {
  ForcingRun run{.feeding = feeding, .masking = masking};
  ForwardCounter counter;
  std::vector<double> losses;
  const auto prepare = [&](const Transformer& model, const Tokenizer& tokenizer, Batch& batch,
                           Session& session) {
    const Writable writable(tokenizer);
    TokenByToken targets(model, writable, batch, session);
    const int64_t before = counter.calls();
    if (feeding == Feeding::own) targets.write();
    run.calls_before += counter.calls() - before;
    if (run.first_longest > 0) return;
    run.first_longest = static_cast<int64_t>(targets.longest());
    run.first_calls_before = run.calls_before;
  };
  const Translator translator = learn_phrasebook(
      phrasebook, {.updates = options.updates,
                   .masking = masking,
                   .seed = options.seed,
                   .threads = options.threads,
                   .progress =
                       [&](int64_t update, double loss) {
                         losses.push_back(loss);
                         if (options.progress) options.progress(feeding, masking, update, loss);
                       },
                   .gradient_norm = [&](int64_t, double norm) { run.norms.push_back(norm); },
                   .prepare = prepare,
                   .observer = &counter});
  run.calls_learning = counter.calls() - run.calls_before;
  run.curve = tenths(losses);
  describe_norms(run);

  Session session(translator.model(), options.threads);
  const Evaluation inference = evaluate(translator.model(), translator.tokenizer(),
                                        corpus_of(phrasebook.held_out), {}, session);
  run.loss_forced = inference.loss;
  run.exact = inference.exact;
  run.bleu = inference.bleu;
  session->masking = masking;
  session->hooks = options.hooks;
  compare(translator, phrasebook.held_out, session, run);
  return run;
}

void judge(ForcingLesson& l) {
  const ForcingRun &both = l.forcing_masked, &forcing = l.forcing_unmasked, &mask = l.own_masked,
                   &neither = l.own_unmasked;
  l.forcing_gives_inputs = both.inputs_known() && forcing.inputs_known() &&
                           mask.calls_before >= l.updates && neither.calls_before >= l.updates;
  l.mask_gives_function =
      both.same_bits() && mask.same_bits() && !forcing.same_bits() && !neither.same_bits();
  const auto has_both = [](const ForcingRun& run) { return run.inputs_known() && run.same_bits(); };
  l.both_are_needed = has_both(both) && !has_both(forcing) && !has_both(mask) && !has_both(neither);
  l.best_with_both =
      both.exact > forcing.exact && both.exact > mask.exact && both.exact > neither.exact;
  const auto calls = [](const ForcingRun& run) { return run.calls_before + run.calls_learning; };
  l.faster_with_forcing =
      both.loss_forced < mask.loss_forced && both.exact > mask.exact && calls(both) < calls(mask);
  l.steadier_with_forcing = both.norm_spread < mask.norm_spread;
  l.holds = l.forcing_gives_inputs && l.mask_gives_function && l.both_are_needed &&
            l.best_with_both && 2 * both.exact > l.held_out;
}

}  // namespace

ForcingLesson teach_forcing(const ForcingOptions& options) {
  require(options.updates >= kForcingPoints, ErrorCode::invalid_argument,
          "lesson forcing: ", options.updates, " updates; it needs at least ", kForcingPoints);
  const Phrasebook phrasebook = make_phrasebook();
  ForcingLesson lesson;
  lesson.updates = options.updates;
  lesson.held_out = static_cast<int64_t>(phrasebook.held_out.size());
  const auto run = [&](Feeding feeding, Masking masking) {
    return run_once(phrasebook, feeding, masking, options);
  };
  lesson.forcing_masked = run(Feeding::truth, Masking::causal);
  lesson.forcing_unmasked = run(Feeding::truth, Masking::none);
  lesson.own_masked = run(Feeding::own, Masking::causal);
  lesson.own_unmasked = run(Feeding::own, Masking::none);
  judge(lesson);
  return lesson;
}

}  // namespace tril
