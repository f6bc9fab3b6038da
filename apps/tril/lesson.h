// Shared by the lessons of `tril lesson`: flags, tables, the verdict.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "terminal.h"
#include "tril/lesson/matrix.h"
#include "tril/lesson/phrasebook.h"
#include "tril/tril.h"

namespace tril::app {

struct LessonFlags {
  std::string model;  // a folder; empty: ./demo-model, or one learnt in memory
  int threads = 0;
  uint64_t seed = 1;
  std::string svg;                 // a file for the lesson's picture; empty: none is drawn
  std::string check;               // a file with a mask to look at; "-" is stdin
  std::string page;                // a file for the quiz as a page
  bool hindi = false;              // the summary in Hindi
  std::vector<std::string> words;  // what follows the lesson's name: numbers of claims
};

// Each prints its figures and its verdict, and returns whether the lesson's claim holds.
bool show_attention(const LessonFlags& flags);
bool show_masks(const LessonFlags& flags);
bool show_context(const LessonFlags& flags);
bool show_series(const LessonFlags& flags);
bool show_teacher_forcing(const LessonFlags& flags);
bool show_heads(const LessonFlags& flags);
bool show_leakage(const LessonFlags& flags);
bool show_decoding(const LessonFlags& flags);
bool show_forcing(const LessonFlags& flags);
bool show_sequential(const LessonFlags& flags);
bool show_scale(const LessonFlags& flags);
bool show_work(const LessonFlags& flags);
bool show_claims(const LessonFlags& flags);
bool show_quiz(const LessonFlags& flags);
bool show_summary(const LessonFlags& flags);
bool show_tasks(const LessonFlags& flags);

// The translator of a lesson, and whether it may have been trained on the phrasebook's held-out
// sentences.
enum class Seen { never, unknown };
struct Subject {
  Translator translator;
  Seen seen = Seen::unknown;
};
// The named folder; else the demo's model if it exists and translates; else a model trained now.
Subject find_translator(const LessonFlags& flags, const Phrasebook& phrasebook);
// The first two of these; nothing where neither exists.
std::optional<Subject> translator_on_disk(const LessonFlags& flags);

// Begins a part of a lesson: print_heading("1", "Scores"), or without a number. Long headings wrap.
void print_heading(std::string_view number, std::string_view text);
// Prints the lesson's outcome. Where it does not hold, `otherwise` says what may be wrong.
bool print_verdict(bool holds, std::string_view says, std::string_view otherwise);
// The same with one text for both outcomes.
bool print_outcome(bool holds, std::string_view text);

// A matrix as a table with words for its rows and columns.
Table table_of(const Matrix& matrix, const std::vector<std::string>& rows,
               const std::vector<std::string>& columns, int decimals = 2);
// "(1.00, 0.00)".
std::string vector_text(std::span<const double> values, int decimals = 2);
std::string number(double value, int decimals = 2);
std::string percent(int64_t part, int64_t all);

// Writes the picture if --svg was given.
void write_picture(const LessonFlags& flags, const std::string& svg);

// Progress of a model that is trained in memory, on stderr.
std::function<void(int64_t update, double loss)> learning_progress(int64_t updates,
                                                                   const std::string& what);

}  // namespace tril::app
