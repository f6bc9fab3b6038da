#include "tril/lesson/lesson_scale.h"

#include <fmt/core.h>

#include "lesson.h"
#include "tril/lesson/pictures.h"
#include "units.h"

namespace tril::app {

bool show_scale(const LessonFlags& flags) {
  const ScaleLesson l = teach_scale();
  write_picture(flags, draw_scale(l));
  fmt::print("Why scores are divided by √d_k.\n");
  print_heading("1",
                fmt::format("{} rows of {} scores each: dot products of random queries and keys "
                            "whose entries have mean 0 and variance 1.",
                            grouped(l.rows), l.keys));
  Table table = {{"", "spread of", "", "largest", "", "slope of", ""},
                 {"", "scores", "", "weight", "", "softmax", ""},
                 {"d_k", "raw", "÷ √d_k", "raw", "÷ √d_k", "raw", "÷ √d_k"}};
  for (const ScaleRow& row : l.dims) {
    table.push_back({std::to_string(row.head_dim), number(row.undivided.spread),
                     number(row.divided.spread), number(row.undivided.largest),
                     number(row.divided.largest), number(row.undivided.slope, 3),
                     number(row.divided.slope, 3)});
  }
  print_table(table, Align::right);
  print_text(
      "The spread is the standard deviation of the scores: it grows with √d_k, and the division "
      "brings it back to 1. The slope is the sum of weight · (1 − weight) over a row, what a "
      "gradient has left after the softmax. Undivided, the softmax puts nearly all weight on one "
      "key and its slope goes to 0: little is learnt through it.");
  print_heading("2", "Is it about numerical stability?");
  print_text(fmt::format(
      "No. Softmax subtracts the largest score first, so nothing overflows: {}.",
      l.not_finite == 0
          ? "all weights are finite in 32-bit floats, undivided ones included"
          : fmt::format("and yet {} weights are NOT finite in 32-bit floats", l.not_finite)));
  const ScaleRow& last = l.dims.back();
  return print_verdict(
      l.holds,
      fmt::format("Dividing by √d_k keeps the slope of the softmax the same for every d_k. "
                  "Undivided, at d_k = {} only {:.0f}% of the slope is left.",
                  last.head_dim, 100.0 * last.undivided.slope / last.divided.slope),
      "the spread does not grow with √d_k, or the softmax keeps its slope without the division.");
}

}  // namespace tril::app
