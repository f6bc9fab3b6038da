#include "tril/lesson/lesson_forcing.h"

#include <fmt/core.h>

#include <array>

#include "lesson.h"
#include "output.h"
#include "tril/lesson/pictures.h"

namespace tril::app {
namespace {

using Row = std::vector<std::string>;

std::array<const ForcingRun*, 4> runs_of(const ForcingLesson& l) {
  return {&l.forcing_masked, &l.forcing_unmasked, &l.own_masked, &l.own_unmasked};
}

Row heading() { return {"", "forcing, mask", "forcing, no mask", "own, mask", "own, no mask"}; }

// A table row with f's result for each combination.
template <class F>
Row row_of(const ForcingLesson& l, const char* name, const F& f) {
  Row row = {name};
  for (const ForcingRun* run : runs_of(l)) row.push_back(f(*run));
  return row;
}

std::string per_update(const ForcingLesson& l, int64_t calls) {
  return number(static_cast<double>(calls) / static_cast<double>(l.updates), 1);
}

void print_inputs(const ForcingLesson& l) {
  print_heading("1", "When are the inputs of a training step known? Calls of forward(), counted.");
  print_table({heading(),
               row_of(l, "calls before the first step's inputs are known",
                      [](const ForcingRun& run) { return std::to_string(run.first_calls_before); }),
               row_of(l, "the same, mean of all updates",
                      [&](const ForcingRun& run) { return per_update(l, run.calls_before); }),
               row_of(l, "then, for loss and gradients",
                      [&](const ForcingRun& run) { return per_update(l, run.calls_learning); })},
              Align::right);
  print_text(fmt::format(
      "The longest target of the first step has {} tokens, END included. With teacher forcing all "
      "inputs are there before the decoder runs. Own predictions have to be written first, one "
      "after the other, mask or not.",
      l.forcing_masked.first_longest));
}

void print_function(const ForcingLesson& l) {
  print_heading("2", "Is one call for all positions what inference computes token by token?");
  print_table({heading(),
               row_of(l, "loss per token, one call",
                      [](const ForcingRun& run) { return number(run.loss_one_call, 4); }),
               row_of(l, "the same inputs, token by token",
                      [](const ForcingRun& run) { return number(run.loss_token_by_token, 4); }),
               row_of(l, "positions that differ in any bit",
                      [](const ForcingRun& run) {
                        return fmt::format("{} of {}", run.positions_differing, run.positions);
                      }),
               row_of(l, "the same function",
                      [](const ForcingRun& run) { return run.same_bits() ? "yes" : "no"; })},
              Align::right);
  print_text(fmt::format(
      "On {} sentences that none has seen, with the inputs of its own kind of training. Under the "
      "mask one call gives the same bits. Without it earlier positions see later inputs, which "
      "inference does not have.",
      l.held_out));
}

void print_learning(const ForcingLesson& l) {
  print_heading("3", "What is learnt. Training loss per token:");
  Table table = {heading()};
  const auto points = static_cast<int64_t>(l.forcing_masked.curve.size());
  for (int64_t i = 0; i < points; ++i) {
    const std::string updates =
        fmt::format("{:>4}–{}", l.updates * i / points + 1, l.updates * (i + 1) / points);
    table.push_back(row_of(l, updates.c_str(), [&](const ForcingRun& run) {
      return number(run.curve[static_cast<size_t>(i)], 3);
    }));
  }
  print_table(table, Align::right);
  fmt::print("\n");
  print_table(
      {heading(),
       row_of(l, "unseen: loss, true words, masked",
              [](const ForcingRun& run) { return number(run.loss_forced, 3); }),
       row_of(l, "unseen: written exactly right",
              [](const ForcingRun& run) { return std::to_string(run.exact); }),
       row_of(l, "unseen: BLEU", [](const ForcingRun& run) { return number(run.bleu, 1); })},
      Align::right);
}

void print_gradients(const ForcingLesson& l) {
  print_heading("4", "Gradients: the norm of each update's whole gradient, before clipping at 1.");
  print_table(
      {heading(),
       row_of(l, "first update", [](const ForcingRun& run) { return number(run.first_norm, 2); }),
       row_of(l, "second half: mean",
              [](const ForcingRun& run) { return number(run.norm_mean, 3); }),
       row_of(l, "second half: standard deviation / mean",
              [](const ForcingRun& run) { return number(run.norm_spread, 3); }),
       row_of(l, "second half: largest / mean",
              [](const ForcingRun& run) { return number(run.norm_peak, 2); }),
       row_of(l, "updates clipped",
              [](const ForcingRun& run) { return std::to_string(run.clipped); })},
      Align::right);
  const ForcingRun &forcing = l.forcing_masked, &own = l.own_masked;
  print_text(fmt::format(
      "\"Teacher forcing trains faster\" {}: under the mask, after {} updates, {} of {} unseen "
      "sentences are right with it and {} without, from {} and {} calls per update.",
      l.faster_with_forcing ? "holds here" : "does not hold here", l.updates, forcing.exact,
      l.held_out, own.exact, per_update(l, forcing.calls_before + forcing.calls_learning),
      per_update(l, own.calls_before + own.calls_learning)));
  print_text(fmt::format(
      "\"It makes gradients stable\" {}: relative to its mean the norm varies by {} with forcing "
      "and by {} with own predictions. The mean itself is {} and {}, and {} and {} updates are "
      "clipped.",
      l.steadier_with_forcing ? "holds here" : "does not hold here", number(forcing.norm_spread, 3),
      number(own.norm_spread, 3), number(forcing.norm_mean, 3), number(own.norm_mean, 3),
      forcing.clipped, own.clipped));
}

}  // namespace

bool show_forcing(const LessonFlags& flags) {
  ForcingOptions options{.seed = flags.seed, .threads = flags.threads};
  std::function<void(int64_t, double)> shown;
  options.progress = [&](Feeding feeding, Masking masking, int64_t update, double loss) {
    if (update == 1) {
      shown = learning_progress(
          options.updates,
          concat(word_for(feeding), masking == Masking::causal ? ", mask" : ", no mask"));
    }
    shown(update, loss);
  };
  fmt::print("{}",
             set_text(fmt::format("Teacher forcing or the mask: which lets training compute all "
                                  "positions in one call? The phrasebook learnt with each "
                                  "combination, {} updates each. Own predictions: before each "
                                  "update the model writes what its decoder reads, token by token.",
                                  options.updates),
                      "", ""));
  flush_output();
  const ForcingLesson l = teach_forcing(options);
  write_picture(flags, draw_forcing(l));
  print_inputs(l);
  print_function(l);
  print_learning(l);
  print_gradients(l);
  print_text(
      "Computed in one call or prefix by prefix, the gradients are the same: tril lesson "
      "sequential.");
  return print_verdict(
      l.holds,
      fmt::format("Neither alone. Teacher forcing makes all inputs known, the mask makes one call "
                  "the function that inference computes; only with both is that function trained "
                  "in one call. With forcing alone {} of {} sentences come out right, with the "
                  "mask alone {}, with both {}. Forcing {}; its gradients {}.",
                  l.forcing_unmasked.exact, l.held_out, l.own_masked.exact, l.forcing_masked.exact,
                  l.faster_with_forcing ? "trains faster" : "does not train faster",
                  l.steadier_with_forcing ? "are steadier" : "are not steadier"),
      "forcing or the mask alone was enough, or both together did not learn best.");
}

}  // namespace tril::app
