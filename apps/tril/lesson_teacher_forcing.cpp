#include "tril/lesson/lesson_teacher_forcing.h"

#include <fmt/core.h>

#include "lesson.h"
#include "output.h"
#include "tril/lesson/phrasebook.h"
#include "tril/lesson/pictures.h"
#include "tril/text/display.h"

namespace tril::app {
namespace {

void print_example(const TeacherLesson& l) {
  const TeacherExample& e = l.example;
  print_heading("", fmt::format("\"{}\" should become {}.", escaped(e.english), escaped(e.hindi)));
  if (!l.real) {
    print_text(l.with_mistake == 0 ? "(This model makes no mistake. We feed its second choice as "
                                     "if it had been its first.)"
                                   : "(No mistake of this model shows what follows. We feed its "
                                     "second choice as if it had "
                                     "been its first.)");
  }
  Table training = {{"", "fed", "predicted", "right", "p(right)"}};
  Table inference = {{"", "fed", "predicted"}};
  for (size_t i = 0; i < e.steps.size(); ++i) {
    const TeacherStep& s = e.steps[i];
    const std::string name = fmt::format("step {}", i + 1);
    if (!s.right.empty()) {
      training.push_back({name, escaped(s.fed_in_training), escaped(s.predicted_in_training),
                          escaped(s.right), number(s.right_probability),
                          s.mistake ? "← wrong" : ""});
    }
    if (!s.predicted_in_inference.empty()) {
      const bool first = static_cast<int64_t>(i) == e.mistake;
      inference.push_back({name, escaped(s.fed_in_inference), escaped(s.predicted_in_inference),
                           !first   ? ""
                           : l.real ? "← the same mistake"
                                    : "← fed by us",
                           static_cast<int64_t>(i) == e.mistake + 1 ? "← it is fed" : ""});
      if (!first) inference.back().erase(inference.back().begin() + 3);
    }
  }
  print_text("Training with teacher forcing: the right token is fed, whatever was predicted.");
  print_table(training, Align::left, "    ");
  print_text("Inference: what was predicted is fed.");
  print_table(inference, Align::left, "    ");
  print_text(fmt::format("It writes: {}", escaped(e.written)));
  print_text(fmt::format(
      "After the mistake: {} of {} right if it is corrected. If it is fed back, {} in the right "
      "position, {} in the right order.",
      e.right_when_corrected, e.following, e.right_when_followed, e.followed_in_order));
}

// The lecture's own sentence with a wrong word fed in, as training would never do.
void print_swapped(const SwappedWord& s) {
  print_heading("", fmt::format("\"{}\": we feed {}, then {}, and look at the next prediction.",
                                s.english, s.right, s.wrong));
  print_table({{"", "predicted next", "probability"},
               {s.right, escaped(s.next_after_right), number(s.probability_after_right)},
               {s.wrong, escaped(s.next_after_wrong), number(s.probability_after_wrong)}},
              Align::left);
  print_text(fmt::format(
      "In training too a word depends on the word before it, the true one: from the changed word "
      "on, {} of {} positions have other logits; before it, {} of {}.",
      s.after_changed, s.after, s.before_changed, s.before));
}

void print_counts(const TeacherLesson& l, Seen seen) {
  print_heading("", fmt::format("All {} sentences{}:", l.sentences,
                                seen == Seen::never ? ", none of which it has seen"
                                                    : " (whether it has seen them is not known)"));
  if (l.with_mistake == 0) {
    print_text("Every token is predicted right: there is no mistake to follow.");
    return;
  }
  print_table({{"with a token predicted wrong", std::to_string(l.with_mistake),
                percent(l.with_mistake, l.sentences)},
               {"steps after the first mistake", std::to_string(l.following), ""}},
              Align::right);
  if (l.following == 0) return;
  print_text("Of these steps");
  const auto row = [&](const char* what, int64_t count) {
    return std::vector<std::string>{what, std::to_string(count), percent(count, l.following)};
  };
  print_table({row("right in training, where it is corrected", l.right_when_corrected),
               row("right in inference, in position", l.right_when_followed),
               row("right in inference, in order", l.followed_in_order)},
              Align::right);
}

}  // namespace

bool show_teacher_forcing(const LessonFlags& flags) {
  const Phrasebook phrasebook = make_phrasebook();
  const Subject subject = find_translator(flags, phrasebook);
  const TeacherLesson l =
      teach_teacher_forcing(subject.translator, phrasebook.held_out, flags.threads);
  write_picture(flags, draw_teacher_forcing(l));
  if (l.left_out > 0) {
    message(fmt::format("{} sentences are longer than the model can read and are left out\n",
                        l.left_out));
  }
  fmt::print("Teacher forcing: what happens after a wrong word.\n");
  print_example(l);
  print_swapped(l.swapped);
  print_counts(l, subject.seen);
  return print_verdict(
      l.holds,
      l.real
          ? "Training corrects a mistake at the next step, inference follows it. Up to the mistake "
            "both predict the same tokens: one function, fed differently."
          : "A wrong word that is fed is followed. This model makes no mistake of its own that "
            "shows it, so we fed one.",
      "correcting a mistake did not help, or the two ways differ before it.");
}

}  // namespace tril::app
