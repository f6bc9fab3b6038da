#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "lesson.h"

namespace tril::app {
namespace {

constexpr int64_t kUpdates = 300;  // of a model that is to make mistakes

// The folder that was named; else the demo's where it is and translates; else one that learns now.
Translator find_translator(const LessonFlags& flags, const Phrasebook& phrasebook) {
  const std::string demo = "demo-model";
  std::error_code ignored;
  if (!flags.model.empty()) return Translator::load(flags.model, flags.threads);
  if (std::filesystem::exists(demo + "/config.json", ignored)) {
    Translator translator = Translator::load(demo, flags.threads);
    if (!translator.model().config().decoder_only()) {
      fmt::print(stderr, "using ./{} (--model chooses another)\n", demo);
      return translator;
    }
  }
  fmt::print(
      stderr,
      "no model here: learning the phrasebook for {} updates, few enough to leave mistakes\n",
      kUpdates);
  return learn_phrasebook(phrasebook, {.updates = kUpdates,
                                       .seed = flags.seed,
                                       .threads = flags.threads,
                                       .progress = learning_progress(kUpdates, "learning")});
}

void print_example(const TeacherLesson& l) {
  const TeacherExample& e = l.example;
  print_heading(fmt::format("\"{}\" is to become {}.", e.english, e.hindi));
  if (!l.real) {
    fmt::print(
        "(The model makes no mistake here that something follows. We put its second choice in\n"
        "as if it had been its first.)\n");
  }
  std::vector<std::vector<std::string>> training = {{"", "fed", "predicted", "right", "p(right)"}};
  std::vector<std::vector<std::string>> inference = {{"", "fed", "predicted"}};
  for (size_t i = 0; i < e.steps.size(); ++i) {
    const TeacherStep& s = e.steps[i];
    const std::string name = fmt::format("step {}", i + 1);
    if (!s.right.empty()) {
      training.push_back({name, s.fed_in_training, s.predicted_in_training, s.right,
                          number(s.right_probability), s.mistake ? "← wrong" : ""});
    }
    if (!s.predicted_in_inference.empty()) {
      const bool first = static_cast<int64_t>(i) == e.mistake;
      inference.push_back({name, s.fed_in_inference, s.predicted_in_inference,
                           first ? "← the same mistake" : "",
                           static_cast<int64_t>(i) == e.mistake + 1 ? "← it goes in" : ""});
      if (!first) inference.back().erase(inference.back().begin() + 3);
    }
  }
  fmt::print("  Training, teacher forcing: what goes in is right, whatever was predicted.\n");
  print_table(training, Align::left, "    ");
  fmt::print("  Inference: what was predicted goes in.\n");
  print_table(inference, Align::left, "    ");
  fmt::print("  It writes: {}\n", e.written);
  fmt::print(
      "  Behind the mistake {} of {} are right when it is corrected, {} when it is followed.\n",
      e.right_when_corrected, e.following, e.right_when_followed);
}

}  // namespace

bool show_teacher_forcing(const LessonFlags& flags) {
  const Phrasebook phrasebook = make_phrasebook();
  const Translator translator = find_translator(flags, phrasebook);
  const TeacherLesson l = teach_teacher_forcing(translator, phrasebook.held_out, flags.threads);
  if (l.left_out > 0) {
    fmt::print(stderr, "{} sentences are longer than the model can read, and left out\n",
               l.left_out);
  }
  fmt::print("Teacher forcing: what happens behind a wrong word.\n");
  print_example(l);
  print_heading(fmt::format("All {} sentences it has not seen: in {} a word is predicted wrong.",
                            l.sentences, l.with_mistake));
  print_table({{"steps behind the first mistake", std::to_string(l.following), ""},
               {"right in training, the mistake corrected", std::to_string(l.right_when_corrected),
                percent(l.right_when_corrected, l.following)},
               {"right in inference, the mistake followed", std::to_string(l.right_when_followed),
                percent(l.right_when_followed, l.following)}},
              Align::right);
  return print_verdict(
      l.holds,
      "Training corrects a mistake at the next step, inference follows it. Up to the mistake\n"
      "         both predict the same words: it is one function, fed differently.",
      "NOT as the lesson says: correcting a mistake did not help, or the two ways differ before "
      "it.");
}

}  // namespace tril::app
