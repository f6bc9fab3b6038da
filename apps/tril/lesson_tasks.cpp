#include "tril/lesson/lesson_tasks.h"

#include <fmt/core.h>

#include "lesson.h"
#include "tril/lesson/pictures.h"

namespace tril::app {
namespace {

void print_models(const TasksLesson& l) {
  print_heading("1", "Three models, one class:");
  Table table = {{"", "kind", "examples", "parameters", "loss per token"}};
  for (const TaskFigures& task : l.tasks) {
    table.push_back({task.name, task.decoder_only ? "decoder only" : "encoder and decoder",
                     std::to_string(task.examples), std::to_string(task.parameters),
                     number(task.loss, 3)});
  }
  print_table(table, Align::left);
  print_text(
      "A chat is one sequence, so it needs no encoder: what was said before is the beginning of "
      "what "
      "the decoder reads. Its loss also counts the user's words, and nobody can know which name "
      "comes.");
}

void print_answers(const TasksLesson& l) {
  print_heading("2", "Answers to examples that were not in the training text:");
  Table table;
  for (const TaskFigures& task : l.tasks) {
    for (size_t i = 0; i < task.shown.size(); ++i) {
      const bool right = task.written[i] == task.shown[i].answer;
      table.push_back(
          {i == 0 ? task.name : "", task.shown[i].given,
           fmt::format("→ {}{}", task.written[i],
                       right ? "" : fmt::format(" (expected: {})", task.shown[i].answer))});
    }
  }
  print_table(table, Align::left);
  print_text(
      "In summary and chat the name and the thing of these examples never occur together in the "
      "training text. The answer takes them from what was read.");
}

void print_masks(const TasksLesson& l) {
  print_heading("3", "The same measurements for all three:");
  const auto of = [](int64_t part, int64_t all) { return fmt::format("{} of {}", part, all); };
  Table table = {{""},
                 {"held-out answers exactly right"},
                 {"rows of masked attention that see themselves and all before them"},
                 {"logits that differ between one parallel call and token by token"},
                 {"the same with the mask taken off"}};
  for (const TaskFigures& task : l.tasks) {
    table[0].push_back(task.name);
    table[1].push_back(of(task.exact, task.held_out));
    table[2].push_back(of(task.causal_rows, task.rows));
    table[3].push_back(of(task.agreement.differing, task.agreement.logits));
    table[4].push_back(of(task.unmasked.differing, task.unmasked.logits));
  }
  print_table(table, Align::right);
}

}  // namespace

bool show_tasks(const LessonFlags& flags) {
  TasksOptions options{.seed = flags.seed, .threads = flags.threads};
  constexpr int64_t kModels = 3;
  const auto show = learning_progress(kModels * options.updates, "learning");
  options.progress = [&](int64_t update, int64_t /*updates*/, double loss) { show(update, loss); };
  const TasksLesson l = teach_tasks(options);
  write_picture(flags, draw_tasks(l));
  fmt::print("{}",
             set_text(fmt::format("Translation, summary and chat as toy tasks, each learnt in "
                                  "{} updates by a tril::Transformer.",
                                  options.updates),
                      "", ""));
  print_models(l);
  print_answers(l);
  print_masks(l);
  return print_verdict(
      l.holds,
      "One class and one mask serve all three tasks. In each of them the parallel pass of training "
      "and decoding token by token give the same bits, and the mask is the reason: without it they "
      "differ.",
      "a task was not learnt, a row saw something else than the mask allows, or the two passes "
      "differ.");
}

}  // namespace tril::app
