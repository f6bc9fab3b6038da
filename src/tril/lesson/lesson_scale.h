// Lesson `scale`: why scores are divided by √d_k.
//
// Queries and keys of d_k independent numbers with mean 0 and variance 1. Their dot product has
// variance d_k, so its spread is √d_k. A softmax over scores that far apart gives nearly all weight
// to one key, and then its derivative is nearly 0: nothing is learnt through it.
//
// This is often called a matter of numerical stability. It is not: softmax subtracts the largest
// score first, so no score overflows, and the lesson counts results that are not finite.
#pragma once

#include <cstdint>
#include <vector>

namespace tril {

// The effect on a row of scores.
struct SoftmaxFigures {
  double spread = 0.0;   // standard deviation of the scores
  double largest = 0.0;  // the largest weight of a row, mean over rows
  // The sum over keys of ∂weight/∂its own score = weight · (1 − weight), mean over rows: what is
  // left of a gradient after the softmax.
  double slope = 0.0;
};

struct ScaleRow {
  int64_t head_dim = 0;
  SoftmaxFigures undivided{}, divided{};
};

struct ScaleLesson {
  int64_t rows = 0;  // of scores, for each d_k
  int64_t keys = 0;  // in a row
  std::vector<ScaleRow> dims{};
  // Weights in fp32, as the library computes them, that are not finite, including those of
  // undivided scores.
  int64_t not_finite = 0;

  // The spread is √d_k within a twentieth (more than five times its standard error) and 1 after the
  // division; divided, the slope is the same for every d_k within a twentieth; undivided, it falls
  // with every d_k, to less than a fifth for the largest; and every weight is finite.
  bool holds = false;
};

struct ScaleOptions {
  std::vector<int64_t> dims = {4, 16, 64, 256, 1024};  // ascending
  int64_t rows = 4096;
  int64_t keys = 16;
  uint64_t seed = 1;
  // For tests that must be able to fail: scores are divided by √d_k to this power.
  double power = 1.0;
};
ScaleLesson teach_scale(const ScaleOptions& options = {});

}  // namespace tril
