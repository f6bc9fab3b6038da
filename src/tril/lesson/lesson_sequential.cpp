#include "tril/lesson/lesson_sequential.h"

#include <algorithm>

namespace tril {
namespace {

constexpr int64_t kLong = 100;  // words

void add_growth(SequentialLesson& lesson) {
  const SequentialRow* shortest = nullptr;
  const SequentialRow* longest = nullptr;
  for (const SequentialRow& row : lesson.rows) {
    if (row.rows != 1 || row.words < kLong) continue;
    if (shortest == nullptr || row.words < shortest->words) shortest = &row;
    if (longest == nullptr || row.words > longest->words) longest = &row;
  }
  if (shortest == longest) return;
  const auto ratio = [](int64_t a, int64_t b) {
    return static_cast<double>(a) / static_cast<double>(b);
  };
  lesson.length_growth = ratio(longest->figures.longest, shortest->figures.longest);
  lesson.memory_growth =
      ratio(longest->figures.parallel.peak_bytes, shortest->figures.parallel.peak_bytes);
  lesson.matrix_growth =
      ratio(longest->figures.score_matrix_bytes, shortest->figures.score_matrix_bytes);
}

bool row_holds(const SequentialRow& row) {
  const SequentialComparison& f = row.figures;
  return f.holds() && (row.rows > 1 || f.weakest_position > 1.0) && f.parallel.calls == 1 &&
         f.sequential.calls == row.rows * (row.words + 1) &&
         (row.words < kLong || f.sequential.seconds > f.parallel.seconds);
}

}  // namespace

SequentialLesson teach_sequential(const SequentialLessonOptions& options) {
  require(!options.rows.empty(), ErrorCode::invalid_argument,
          "lesson sequential: there is nothing to measure");
  SequentialLesson lesson;
  lesson.config = tiny_config_like(TransformerConfig{}).completed();
  const Transformer model(lesson.config, 1);
  for (SequentialRow row : options.rows) {
    require(
        row.rows >= 1 && row.words >= 1 && row.repeats >= 1 && row.words < lesson.config.max_length,
        ErrorCode::invalid_argument, "lesson sequential: ", row.rows, " rows of ", row.words,
        " words; there must be some, and fewer words than ", lesson.config.max_length);
    SequentialOptions compare{.threads = options.threads, .hooks = options.hooks};
    if (options.progress) {
      compare.progress = [&](int64_t done, int64_t all) { options.progress(row, done, all); };
    }
    const auto pairs = random_pairs(lesson.config, row.rows, row.words + 1, 1);
    for (int64_t i = 0; i < row.repeats; ++i) {
      const SequentialComparison before = row.figures;
      row.figures = compare_sequential_with_parallel(model, pairs, compare);
      if (i == 0) continue;
      SequentialComparison& f = row.figures;
      f.parallel.seconds = std::min(f.parallel.seconds, before.parallel.seconds);
      f.sequential.seconds = std::min(f.sequential.seconds, before.sequential.seconds);
    }
    lesson.rows.push_back(row);
  }
  add_growth(lesson);
  const TransformerConfig base;  // the defaults are the base model's
  lesson.base_matrix_bytes = lesson.rows.back().figures.score_matrix_bytes /
                             (lesson.config.heads * lesson.config.decoder_layers) *
                             (base.heads * base.decoder_layers);
  // Beyond what grows with the length there are tails of blocks: a twentieth is allowed for them.
  lesson.holds = std::ranges::all_of(lesson.rows, row_holds) &&
                 lesson.memory_growth <= 1.05 * lesson.length_growth &&
                 lesson.matrix_growth == lesson.length_growth * lesson.length_growth;
  return lesson;
}

}  // namespace tril
