// The normaliser of a softmax over the vocabulary, log-probabilities, and the loss.
//
//   norm = log of the sum of e^x[j];  log p[j] = x[j] - norm
//   loss = norm - (1 - s) x[y] - s mean(x)      for label y and label smoothing s
//   dx[j] = (e^(x[j] - norm) - (1 - s) [j = y] - s / vocab) g
//
// Training, scoring and search use this one normaliser, so a score is the same number everywhere.
// Order: the largest x, then the sum of e^(x - largest) over 16 virtual lanes, folded by halving;
// norm = largest + log(sum), the logarithm in double (base/math.h). mean(x) likewise by lanes.
// A row with label -1 (padding) has loss and gradient exactly zero.
// Szegedy et al., arXiv 1512.00567, for label smoothing. Kernels neither allocate, throw nor log.
#pragma once

#include <cstdint>

#include "tril/base/parallel.h"

namespace tril::kernels {

// norms [rows].
void softmax_normalisers(const Parallel& parallel, const float* logits, int64_t rows, int64_t vocab,
                         float* norms);

// out[row][j] = logits[row][j] - norms[row]; out may be logits.
void subtract_rows(const Parallel& parallel, const float* logits, const float* norms, int64_t rows,
                   int64_t vocab, float* out);

struct CrossEntropy {
  int64_t rows = 0;
  int64_t vocab = 0;
  float smoothing = 0.0f;
  float factor = 1.0f;
  const int32_t* labels = nullptr;  // [rows], -1 for padding
  const float* logits = nullptr;    // [rows, vocab]
};
// Per row: norms and losses [rows].
void cross_entropy_forward(const Parallel& parallel, const CrossEntropy& args, float* norms,
                           float* losses);
// factor times the sum of the losses, added in double in ascending order.
float total_loss(const float* losses, int64_t rows, float factor);
// g is factor times *dtotal, for all rows. dlogits may be logits.
void cross_entropy_backward(const Parallel& parallel, const CrossEntropy& args, const float* norms,
                            const float* dtotal, float* dlogits);

}  // namespace tril::kernels
