#include "tril/lesson/lesson_leakage.h"

#include <fmt/core.h>

#include "lesson.h"
#include "output.h"
#include "tril/lesson/pictures.h"

namespace tril::app {
namespace {

void print_losses(const LeakageLesson& l) {
  print_heading("1", "The training loss per token. Without the mask it looks excellent.");
  Table table = {{"updates", "with", "without"}};
  const auto points = static_cast<int64_t>(l.masked.curve.size());
  for (int64_t i = 0; i < points; ++i) {
    const auto at = static_cast<size_t>(i);
    table.push_back(
        {fmt::format("{:>4}–{}", l.updates * i / points + 1, l.updates * (i + 1) / points),
         number(l.masked.curve[at], 3), number(l.unmasked.curve[at], 3)});
  }
  print_table(table, Align::right);
  print_heading(
      "2", fmt::format("The loss per token on {} sentences that neither has seen.", l.held_out));
  print_table({{"", "with", "without"},
               {"as each was trained", number(l.masked.held_out_loss, 3),
                number(l.unmasked.held_out_loss, 3)},
               {"with the mask on, as in decoding", number(l.masked.held_out_loss_masked, 3),
                number(l.unmasked.held_out_loss_masked, 3)}},
              Align::right);
}

void print_writing(const LeakageLesson& l) {
  print_heading("3", "What each writes when it must decode, token by token.");
  const auto shown = [](const std::string& text) { return text.empty() ? "(nothing)" : text; };
  Table table = {{"", "right", "with", "without", "without, END forbidden"}};
  for (size_t i = 0; i < l.sentences.size(); ++i) {
    table.push_back({l.sentences[i].english, l.sentences[i].hindi, shown(l.masked.writes[i]),
                     shown(l.unmasked.writes[i]), shown(l.unmasked.forced[i])});
  }
  print_table(table, Align::left);
  fmt::print("\n");
  print_table(
      {{"of the unseen sentences", "with", "without"},
       {"exactly right", fmt::format("{} of {}", l.masked.exact, l.held_out),
        fmt::format("{} of {}", l.unmasked.exact, l.held_out)},
       {"nothing written", std::to_string(l.masked.empty), std::to_string(l.unmasked.empty)},
       {"BLEU", number(l.masked.bleu, 1), number(l.unmasked.bleu, 1)}},
      Align::right);
  print_heading("4", "Why? Two experiments on the same sentences, both computed as in training:");
  const auto of = [](int64_t part, int64_t all) { return fmt::format("{} of {}", part, all); };
  print_table({{"", "with", "without"},
               {"fed the Hindi of another sentence: predicts the word fed next",
                of(l.masked.copied, l.masked.rows), of(l.unmasked.copied, l.unmasked.rows)},
               {"fed the first half of its own Hindi: predicts END",
                of(l.masked.ended, l.masked.cut), of(l.unmasked.ended, l.unmasked.cut)}},
              Align::right);
  print_text(fmt::format(
      "Without the mask the model learns to copy the next word. When it decodes, there is no next "
      "word to copy. That it has learnt to answer an empty position with END explains only part of "
      "the empty output: cut in the middle, {} of {} sentences do not end.",
      l.unmasked.cut - l.unmasked.ended, l.unmasked.cut));
}

}  // namespace

bool show_leakage(const LessonFlags& flags) {
  LeakageOptions options{.seed = flags.seed, .threads = flags.threads};
  const auto masked = learning_progress(options.updates, "with the mask");
  const auto unmasked = learning_progress(options.updates, "without the mask");
  options.progress = [&](Masking masking, int64_t update, double loss) {
    (masking == Masking::causal ? masked : unmasked)(update, loss);
  };
  fmt::print("{}", set_text(fmt::format("Data leakage: the phrasebook learnt with the mask and "
                                        "without it, from the same sentences with the same seed, "
                                        "{} updates each.",
                                        options.updates),
                            "", ""));
  flush_output();
  const LeakageLesson l = teach_leakage(options);
  write_picture(flags, draw_leakage(l));
  print_losses(l);
  print_writing(l);
  return print_verdict(
      l.holds,
      fmt::format(
          "Without the mask the training loss is {:.1f} times lower, and {} of {} sentences come "
          "out right instead of {}. A loss that can see the answers means nothing.",
          l.masked.curve.back() / l.unmasked.curve.back(), l.unmasked.exact, l.held_out,
          l.masked.exact),
      "the loss without the mask is not far lower, or it decodes well.");
}

}  // namespace tril::app
