// Lesson `sequential`: why training prefix by prefix is slow, measured (prove/sequential.h) on a
// tiny model with random weights: a target of 3 words, of 300, a batch of 16 rows with 300 words.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tril/prove/sequential.h"

namespace tril {

struct SequentialRow {
  int64_t rows = 1;     // targets
  int64_t words = 0;    // of each; START goes in before them and END comes out after them
  int64_t repeats = 1;  // of the measurement; times are the smallest of these
  SequentialComparison figures{};
  // Relative to the time of both ways together.
  double parallel_share() const {
    return figures.parallel.seconds / (figures.parallel.seconds + figures.sequential.seconds);
  }
};

// A parallel step alone, for targets too long to be trained prefix by prefix here.
struct LongTarget {
  int64_t words = 0;
  int64_t peak_bytes = 0;  // measured, as SequentialComparison::Cost has it
  // Heads × layers × n² × 4, n being words + 1: what the score matrices of the decoder's
  // self-attention would take. A formula: no such matrix exists.
  int64_t score_matrix_bytes = 0;
};

struct SequentialLesson {
  TransformerConfig config{};
  std::vector<SequentialRow> rows{};
  std::vector<LongTarget> long_targets{};
  // From the first of these to the last: the ratios of length and of memory, both measured; and the
  // ratio that the formula of the matrices gives.
  double length_growth = 0.0, memory_growth = 0.0, matrix_growth = 0.0;

  // What the score matrices of the last row would take in a base model: 6 layers of 8 heads.
  int64_t base_matrix_bytes = 0;

  // Loss and gradients agree within their bounds, and for single targets the gradients' bound is
  // strict enough that a lost position would break it; one call against one for each word and END;
  // from 100 words on the sequential way takes more time; memory grows no faster than the length,
  // and for the longest target the matrices alone would be larger than everything the step takes.
  bool holds = false;
};

struct SequentialLessonOptions {
  std::vector<SequentialRow> rows = {{1, 3, 9}, {1, 30, 9}, {1, 100, 5}, {1, 300, 2}, {16, 300, 1}};
  std::vector<int64_t> long_words = {1000, 3000};  // at least two, ascending
  int threads = 0;
  TestHooks hooks{};  // for tests that must be able to fail
  // Called before each sequential step of a row; may be empty.
  std::function<void(const SequentialRow& row, int64_t done, int64_t all)> progress{};
};
SequentialLesson teach_sequential(const SequentialLessonOptions& options = {});

}  // namespace tril
