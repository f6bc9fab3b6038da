#include "lesson.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "commands.h"
#include "flags.h"
#include "output.h"
#include "output_files.h"
#include "suggest.h"

namespace tril::app {
namespace {

enum class Needs { nothing, seed, model };
enum class Draws { nothing, picture };

struct Lesson {
  const char* name;
  const char* says;
  const char* takes;  // roughly, on two cores
  bool (*show)(const LessonFlags&);
  Needs needs;
  Draws draws;
  std::vector<const char*> answers;  // the questions of learners that it answers
};

// In the order in which they are best learnt.
const std::vector<Lesson>& lessons() {
  static const std::vector<Lesson> list = {
      {"attention",
       "from scores to contextual embeddings, step by step",
       "at once",
       show_attention,
       Needs::nothing,
       Draws::picture,
       {"Why several heads? Where do the lecture's weights come from?"}},
      {"scale",
       "why scores are divided by √d_k",
       "2 s",
       show_scale,
       Needs::nothing,
       Draws::picture,
       {"Is the division by √d_k a matter of numerical stability?"}},
      {"masks",
       "causal, padding, both, window, prefix; -∞ and -1e9",
       "at once",
       show_masks,
       Needs::nothing,
       Draws::picture,
       {"Why add -∞ before the softmax and not zero the score?",
        "Why does much code write -1e9 instead, and when is that wrong?",
        "Is a padding mask the same thing? How do the shapes broadcast?",
        "Does the encoder use the causal mask? Is my mask causal (--check FILE)?"}},
      {"context",
       "\"bank\" beside \"river\" and beside \"money\", layer by layer",
       "20 s",
       show_context,
       Needs::seed,
       Draws::picture,
       {"What is a contextual embedding?"}},
      {"series",
       "prices by day: an autoregressive model without any language",
       "15 s",
       show_series,
       Needs::seed,
       Draws::picture,
       {"What is an autoregressive model, without any language?"}},
      {"teacher-forcing",
       "a wrong word, corrected in training and followed at inference",
       "10 s",
       show_teacher_forcing,
       Needs::model,
       Draws::picture,
       {"What happens when the model predicts a wrong word?"}},
      {"decoding",
       "with a cache, recomputed, without the mask; guessing and checking",
       "20 s",
       show_decoding,
       Needs::model,
       Draws::picture,
       {"Is the mask used at inference? Must inference take one call per token?"}},
      {"forcing",
       "the four combinations of teacher forcing and mask; gradients",
       "90 s",
       show_forcing,
       Needs::seed,
       Draws::picture,
       {"Is it teacher forcing or the mask that lets training run in one call?",
        "Does teacher forcing give faster training and stable gradients?"}},
      {"leakage",
       "the phrasebook learnt with the mask and without it",
       "25 s",
       show_leakage,
       Needs::seed,
       Draws::picture,
       {"What is data leakage?"}},
      {"sequential",
       "training prefix by prefix and all at once, measured",
       "25 s",
       show_sequential,
       Needs::nothing,
       Draws::picture,
       {"Why is sequential training slow? 3 words, 300 words, 16 rows of 300 words?"}},
      {"work",
       "steps that wait for each other, work, and how well the machine is used",
       "5 s",
       show_work,
       Needs::nothing,
       Draws::nothing,
       {"Is parallel training O(1)?"}},
      {"heads",
       "what each head looks at, and what switching it off costs",
       "100 s",
       show_heads,
       Needs::model,
       Draws::picture,
       {"What do the heads of a trained model do? Are more heads better?"}},
      {"tasks",
       "translation, summary and chat: the same class, the same mask",
       "40 s",
       show_tasks,
       Needs::seed,
       Draws::picture,
       {"What is masked attention used for?"}},
  };
  return list;
}

// Lessons about all the others, which `tril lesson all` leaves out.
const std::vector<Lesson>& overviews() {
  static const std::vector<Lesson> list = {
      {"claims",
       "every claim of lecture notes, with its verdict",
       "at once",
       show_claims,
       Needs::model,
       Draws::nothing,
       {"Is what my notes say true?"}},
      {"summary",
       "masked attention in six lines, in English or Hindi",
       "at once",
       show_summary,
       Needs::nothing,
       Draws::nothing,
       {}},
      {"quiz",
       "twenty questions, some of them about your own model",
       "10 s",
       show_quiz,
       Needs::model,
       Draws::nothing,
       {"Have I understood it?"}},
  };
  return list;
}

// "15 s" with a non-breaking blank.
std::string unbroken(std::string text) {
  for (size_t at = text.find(' '); at != std::string::npos; at = text.find(' ', at)) {
    text.replace(at, 1, "\u00a0");
  }
  return text;
}

void list_lessons() {
  const auto print = [](const Lesson& lesson) {
    const std::string name = fmt::format("{:<17}", lesson.name);
    fmt::print("{}", set_text(concat(lesson.says, " (", unbroken(lesson.takes), ")"), name,
                              std::string(name.size(), ' ')));
    for (const char* question : lesson.answers)
      fmt::print("{}", set_text(question, "    ", "    "));
  };
  for (const Lesson& lesson : overviews()) print(lesson);
  fmt::print("\n");
  for (const Lesson& lesson : lessons()) print(lesson);
  fmt::print("\n{}", set_text(fmt::format("Start one with '{0} lesson NAME', or all of them with "
                                          "'{0} lesson all'. Times are for two cores.",
                                          program_name()),
                              "", ""));
  fmt::print("\nOn a model of your own (or {} demo's):\n", program_name());
  print_table({{fmt::format("{} prove MODEL", program_name()),
                "proves, bit for bit, that training and inference are one function"},
               {fmt::format("{} explain MODEL 'A sentence'", program_name()),
                "writes a page that shows both, step by step"}},
              Align::left);
}

const Lesson& find_lesson(const std::string& name) {
  std::vector<std::string> names;
  std::string all;
  for (const auto* list : {&lessons(), &overviews()}) {
    for (const Lesson& lesson : *list) {
      if (name == lesson.name) return lesson;
      names.emplace_back(lesson.name);
      all += concat(all.empty() ? "" : ", ", lesson.name);
    }
  }
  fail(ErrorCode::invalid_argument, "lesson: there is no lesson '", name, "'",
       did_you_mean(name, names), "; there are ", all, " and all");
}

// What the command takes as the name of a lesson.
std::vector<std::string> names_to_give() {
  std::vector<std::string> names;
  for (const auto* list : {&lessons(), &overviews()}) {
    for (const Lesson& lesson : *list) names.emplace_back(lesson.name);
  }
  names.emplace_back("all");
  return names;
}

bool show_all(const LessonFlags& flags) {
  bool holds = true;
  for (const Lesson& lesson : lessons()) {
    fmt::print("{}\n", std::string(static_cast<size_t>(text_columns()), '='));
    flush_output();
    holds = lesson.show(flags) && holds;
    fmt::print("\n");
  }
  return holds;
}

}  // namespace

void add_lesson(CLI::App& app) {
  auto flags = std::make_shared<LessonFlags>();
  auto name = std::make_shared<std::string>();
  CLI::App* lesson = app.add_subcommand(
      "lesson", "Small experiments on attention, masks and training, each with its verdict");
  const CLI::Option* given =
      lesson->add_option("name", *name, "Which lesson, or all; 'tril lesson' lists them")
          ->check(such_as(names_to_give()));
  const CLI::Option* words = lesson->add_option(
      "number", flags->words, "After claims: which ones to answer and run, or all");
  const CLI::Option* model =
      lesson
          ->add_option("--model", flags->model,
                       "A translator's folder (default: ./demo-model, or one is learnt)")
          ->type_name(kFolder);
  lesson->add_option("--threads", flags->threads, "Threads to use (default: every core)")
      ->transform(whole_number(0, 1024));
  const CLI::Option* seed =
      lesson->add_option("--seed", flags->seed, "Seed of what a lesson learns")
          ->transform(any_seed())
          ->capture_default_str();
  const CLI::Option* svg =
      lesson
          ->add_option("--svg", flags->svg,
                       "Also draw it: a file for the picture (every lesson but work has one)")
          ->type_name(kFile);
  const CLI::Option* check = lesson
                                 ->add_option("--check", flags->check,
                                              "With masks: a file with a mask of your own (0 and "
                                              "-inf, 1 and 0, or . and X; - is stdin); "
                                              "says whether it is causal, and where not")
                                 ->type_name(kFile);
  const CLI::Option* page =
      lesson->add_option("--page", flags->page, "With quiz: write it as a page to this file")
          ->type_name(kFile);
  const CLI::Option* hindi = lesson->add_flag("--hindi", flags->hindi, "With summary: in Hindi");
  lesson->footer(
      "Examples:\n  tril lesson\n  tril lesson attention\n  tril lesson claims 13\n"
      "  tril lesson masks --check my-mask.txt\n"
      "  tril lesson teacher-forcing --model demo-model\n\n"
      "Every figure is computed in the run. Exit code 0: the experiment confirms the verdict; 1: "
      "it "
      "does not; 2: the lesson could not run.");
  lesson->callback([=] {
    if (given->count() == 0) {
      require(model->count() + seed->count() + svg->count() + check->count() + page->count() +
                      hindi->count() ==
                  0,
              ErrorCode::invalid_argument, "lesson: which one? 'tril lesson' lists them");
      list_lessons();
      return;
    }
    const bool all = *name == "all";
    if (!all) {
      const Lesson& chosen = find_lesson(*name);
      require(words->count() == 0 || chosen.show == show_claims, ErrorCode::invalid_argument,
              "lesson: '", chosen.name, "' stands alone; numbers go with claims");
      require(model->count() == 0 || chosen.needs == Needs::model, ErrorCode::invalid_argument,
              "lesson: '", chosen.name, "' uses no trained model: leave --model out");
      require(seed->count() == 0 || chosen.needs != Needs::nothing, ErrorCode::invalid_argument,
              "lesson: '", chosen.name, "' uses no random numbers: leave --seed out");
      require(svg->count() == 0 || chosen.draws == Draws::picture, ErrorCode::invalid_argument,
              "lesson: '", chosen.name, "' has no picture: leave --svg out");
      require(check->count() == 0 || chosen.show == show_masks, ErrorCode::invalid_argument,
              "lesson: '", chosen.name, "' checks no mask: --check goes with masks");
      require(check->count() == 0 || svg->count() == 0, ErrorCode::invalid_argument,
              "lesson: --check draws no picture: leave --svg out");
      require(page->count() == 0 || chosen.show == show_quiz, ErrorCode::invalid_argument,
              "lesson: '", chosen.name, "' writes no page: --page goes with quiz");
      require(hindi->count() == 0 || chosen.show == show_summary, ErrorCode::invalid_argument,
              "lesson: '", chosen.name, "' is in English only: --hindi goes with summary");
    }
    require(
        !all ||
            svg->count() + check->count() + words->count() + page->count() + hindi->count() == 0,
        ErrorCode::invalid_argument, "lesson: all takes only --model, --seed and --threads");
    check_output("--page", flags->page, {}, flags->model);
    check_output("--svg", flags->svg, {}, flags->model);
    if (!(all ? show_all(*flags) : find_lesson(*name).show(*flags))) throw Failed{};
  });
}

}  // namespace tril::app
