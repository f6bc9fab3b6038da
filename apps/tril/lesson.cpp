#include "lesson.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "commands.h"
#include "flags.h"
#include "output_files.h"

namespace tril::app {
namespace {

enum class Needs { nothing, seed, model };
enum class Draws { nothing, picture };

struct Lesson {
  const char* name;
  const char* says;
  bool (*show)(const LessonFlags&);
  Needs needs;
  Draws draws;
  std::vector<const char*> answers;  // the questions of learners
};

// In the order in which one learns them.
const std::vector<Lesson>& lessons() {
  static const std::vector<Lesson> list = {
      {"attention",
       "from scores to contextual embeddings, step by step",
       show_attention,
       Needs::nothing,
       Draws::picture,
       {"Why several heads?"}},
      {"masks",
       "causal, padding, both, window, prefix; -∞ against -1e9",
       show_masks,
       Needs::nothing,
       Draws::picture,
       {"Why add -∞ before the softmax and not zero the score?",
        "Why do many codes write -1e9 instead, and when is that wrong?",
        "Is a padding mask the same thing? How do the shapes broadcast?",
        "Does the encoder use the causal mask?"}},
      {"context",
       "\"bank\" beside \"river\" and beside \"money\", layer by layer",
       show_context,
       Needs::seed,
       Draws::nothing,
       {"What is a contextual embedding?"}},
      {"series",
       "prices by day: an autoregressive model without any language",
       show_series,
       Needs::seed,
       Draws::nothing,
       {"What is an autoregressive model, without any language?"}},
      {"teacher-forcing",
       "a wrong word, corrected in training and followed in inference",
       show_teacher_forcing,
       Needs::model,
       Draws::nothing,
       {"What happens when the model predicts a wrong word?"}},
      {"leakage",
       "the phrasebook learnt with the mask and without it",
       show_leakage,
       Needs::seed,
       Draws::picture,
       {"What is data leakage?"}},
      {"forcing",
       "teacher forcing and the mask, each with and without the other",
       show_forcing,
       Needs::seed,
       Draws::picture,
       {"Is training parallel by teacher forcing, or by the mask?",
        "Does forcing make training faster and gradients stable?"}},
      {"decoding",
       "with a cache, recomputed, without the mask; guess and check",
       show_decoding,
       Needs::model,
       Draws::nothing,
       {"Is the mask used in inference?", "Must inference make one call per token?"}},
      {"sequential",
       "training prefix by prefix against all at once, measured",
       show_sequential,
       Needs::nothing,
       Draws::picture,
       {"Why is sequential training slow? 3 words, 300 words, 16 rows of 300 words?"}},
  };
  return list;
}

void list_lessons() {
  for (const Lesson& lesson : lessons()) {
    fmt::print("{:<17}{}\n", lesson.name, lesson.says);
    for (const char* question : lesson.answers) fmt::print("{:<17}  {}\n", "", question);
  }
  fmt::print(
      "\nStart one with: {0} lesson NAME\n"
      "\nOn a model of your own (or {0} demo's):\n"
      "  {0} prove MODEL                 that training and inference are one function, bit for "
      "bit\n"
      "  {0} explain MODEL 'A sentence'  a page that shows both, step by step\n",
      program_name());
}

const Lesson& find_lesson(const std::string& name) {
  std::string names;
  for (const Lesson& lesson : lessons()) {
    if (name == lesson.name) return lesson;
    names += (names.empty() ? "" : ", ") + std::string(lesson.name);
  }
  fail(ErrorCode::invalid_argument, "lesson: there is no lesson '", name, "'; there are ", names);
}

}  // namespace

void add_lesson(CLI::App& app) {
  auto flags = std::make_shared<LessonFlags>();
  auto name = std::make_shared<std::string>();
  CLI::App* lesson = app.add_subcommand(
      "lesson", "Small experiments on attention, masks and training, each with its verdict");
  const CLI::Option* given =
      lesson->add_option("name", *name, "Which lesson; without one they are listed");
  const CLI::Option* model = lesson->add_option(
      "--model", flags->model, "A translator's folder (default: ./demo-model, or one is learnt)");
  lesson->add_option("--threads", flags->threads, "Threads to use; 0 takes every core")
      ->transform(whole_number(0, 1024));
  const CLI::Option* seed = lesson->add_option("--seed", flags->seed, "Of what a lesson learns")
                                ->transform(any_seed())
                                ->capture_default_str();
  const CLI::Option* svg = lesson->add_option(
      "--svg", flags->svg,
      "Also draw it: a file for the picture (attention, masks, leakage, forcing, sequential)");
  lesson->footer(
      "Examples:\n  tril lesson\n  tril lesson attention\n"
      "  tril lesson teacher-forcing --model demo-model\n\n"
      "Every figure is computed in the run. Exit code 0: the verdict is what the lesson says;\n"
      "1: it is not; 2: the lesson could not run.");
  lesson->callback([=] {
    if (given->count() == 0) {
      require(model->count() == 0 && seed->count() == 0 && svg->count() == 0,
              ErrorCode::invalid_argument, "lesson: which one? 'tril lesson' lists them");
      list_lessons();
      return;
    }
    const Lesson& chosen = find_lesson(*name);
    require(model->count() == 0 || chosen.needs == Needs::model, ErrorCode::invalid_argument,
            "lesson: '", chosen.name, "' uses no trained model: leave --model out");
    require(seed->count() == 0 || chosen.needs != Needs::nothing, ErrorCode::invalid_argument,
            "lesson: '", chosen.name, "' draws nothing: leave --seed out");
    require(svg->count() == 0 || chosen.draws == Draws::picture, ErrorCode::invalid_argument,
            "lesson: '", chosen.name, "' has no picture: leave --svg out");
    require(svg->count() == 0 || !flags->svg.empty(), ErrorCode::invalid_argument,
            "lesson: --svg needs the name of a file");
    check_output("--svg", flags->svg, {}, flags->model);
    if (!chosen.show(*flags)) throw Failed{};
  });
}

}  // namespace tril::app
