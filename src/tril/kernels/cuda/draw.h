// Sampling on CUDA: one token per row, drawn from a row of logits.
//
//   log p[t] = logits[t] - norm, rounded once, norm as in softmax_normalisers() of rows.h. m is the
//   largest log p of an allowed token. The weight of a token is an integer,
//     w[t] = floor(2^40 * e^((log p[t] - m) / temperature)),
//   so sums of weights are exact, and no order of summation needs to be promised. A token whose
//   weight is less than 2^-40 of the largest is never drawn.
//   top_k keeps the k tokens of largest log p (the lower token at equal ones); top_p keeps the
//   fewest of those whose weights add up to top_p times the sum over what top_k kept. r is 64
//   random bits, Philox(seed; stream, sample, position); the token drawn is the first, in ascending
//   order of tokens, at which the sum of the kept weights exceeds floor(r * sum / 2^64).
//
// A row depends on that row alone. Kernels neither allocate nor throw.
#pragma once

#include <cstdint>

#include "tril/base/stream.h"

namespace tril::kernels::cuda {

struct TokenDraw {
  int32_t row = -1;   // -1: nothing is drawn
  int32_t top_k = 0;  // 0: all
  double temperature = 1.0;
  double top_p = 1.0;
  uint64_t seed = 0;
  uint64_t stream = 0;
  uint32_t sample = 0;
  uint32_t position = 0;
};

struct DrawTokens {
  int64_t rows = 0;
  int64_t vocab = 0;
  const float* logits = nullptr;  // [rows, stride], of which the first `vocab` per row count
  int64_t stride = 0;
  const uint32_t* allowed = nullptr;  // as in ChooseTokens
  int64_t set_words = 0;
  const int32_t* sets = nullptr;
  const TokenDraw* draws = nullptr;  // [count]
  int64_t count = 0;
  int64_t choices = 1;         // columns of the two below; those after the first say "none"
  int32_t* tokens = nullptr;   // [rows, choices]
  float* log_probs = nullptr;  // [rows, choices]
  float* norms = nullptr;      // [rows]: workspace
};
void draw_tokens(Stream stream, const DrawTokens& args);

}  // namespace tril::kernels::cuda
