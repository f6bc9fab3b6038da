#include "tril/lesson/lesson_sequential.h"

#include <algorithm>

#include "tril/autograd/tape.h"
#include "tril/models/session_state.h"

namespace tril {
namespace {

constexpr int64_t kLong = 100;  // words

// One parallel step on a target of this many words and END.
LongTarget measure_long(const TransformerConfig& config, int64_t words, int threads) {
  TransformerConfig longer = config;
  longer.max_length = words + 1;
  const Transformer model(longer, 1);
  const auto pairs = random_pairs(longer, 1, words + 1, 1);
  std::vector<int32_t> labels(pairs[0].target.begin() + 1, pairs[0].target.end());
  labels.push_back(pairs[0].next);
  Session session(model, threads);
  {
    Tape tape(session);
    const Memory memory = encode_pairs(model, pairs, session);
    Rows rows;
    rows.add_sequence(pairs[0].target, {.slot = 0, .segment = 0});
    tape.backward(model.loss(model.forward(rows, memory, session), labels, {}, session));
  }
  const int64_t n = words + 1;
  return {
      .words = words,
      .peak_bytes = session->arena.peak_bytes() + session->host.peak_bytes(),
      .score_matrix_bytes = config.heads * config.decoder_layers * n * n * int64_t{sizeof(float)}};
}

void add_growth(SequentialLesson& lesson) {
  const LongTarget& first = lesson.long_targets.front();
  const LongTarget& last = lesson.long_targets.back();
  const auto ratio = [](int64_t a, int64_t b) {
    return static_cast<double>(a) / static_cast<double>(b);
  };
  lesson.length_growth = ratio(last.words + 1, first.words + 1);
  lesson.memory_growth = ratio(last.peak_bytes, first.peak_bytes);
  lesson.matrix_growth = ratio(last.score_matrix_bytes, first.score_matrix_bytes);
}

bool row_holds(const SequentialRow& row) {
  const SequentialComparison& f = row.figures;
  return f.holds() && f.parallel.calls == 1 && f.sequential.calls == row.rows * (row.words + 1) &&
         (row.words < kLong || f.sequential.seconds > f.parallel.seconds);
}

}  // namespace

SequentialLesson teach_sequential(const SequentialLessonOptions& options) {
  require(!options.rows.empty(), ErrorCode::invalid_argument,
          "lesson sequential: there is nothing to measure");
  require(options.long_words.size() >= 2 && options.long_words.front() >= 1 &&
              std::ranges::is_sorted(options.long_words, std::ranges::less_equal{}),
          ErrorCode::invalid_argument,
          "lesson sequential: how memory grows needs two lengths or more, ascending");
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
  for (const int64_t words : options.long_words) {
    lesson.long_targets.push_back(measure_long(lesson.config, words, options.threads));
  }
  add_growth(lesson);
  const TransformerConfig base;  // the defaults are the base model's
  lesson.base_matrix_bytes = lesson.rows.back().figures.score_matrix_bytes /
                             (lesson.config.heads * lesson.config.decoder_layers) *
                             (base.heads * base.decoder_layers);
  // Apart from what grows with the length there are partial blocks: a twentieth is allowed for
  // them.
  const LongTarget& longest = lesson.long_targets.back();
  lesson.holds = std::ranges::all_of(lesson.rows, row_holds) &&
                 lesson.memory_growth <= 1.05 * lesson.length_growth &&
                 longest.peak_bytes < longest.score_matrix_bytes;
  return lesson;
}

}  // namespace tril
