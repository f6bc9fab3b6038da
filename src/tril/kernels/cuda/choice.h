// The best tokens of rows of logits on CUDA: what best_choices() of decode/choice.h gives, without
// copying the rows to the host.
//
//   log p[t] = logits[t] - norm, rounded once, norm as in softmax_normalisers() of rows.h; tokens
//   by log p, largest first, the lower token first at equal ones. NaN and -inf are never chosen. If
//   fewer are left, the rest is token -1.
//
// The logits are read once: the sums for the norm and the best logits of a part of the row come
// from the same pass. Some are read again if the vocabulary has more than 65,536 tokens; all of
// them if the first pass cannot decide (equal log p at the last place), if many tokens are
// requested, and if rows have no room after them for whole packs of eight.
// A row depends on that row alone. Kernels neither allocate nor throw.
#pragma once

#include <cstdint>

#include "tril/base/stream.h"

namespace tril::kernels::cuda {

struct ChooseTokens {
  int64_t rows = 0;
  int64_t vocab = 0;
  int64_t count = 1;
  const float* logits = nullptr;  // [rows, stride], of which the first `vocab` per row count
  int64_t stride = 0;
  const uint32_t* allowed = nullptr;  // one set of `set_words` words or more: one bit per token
  int64_t set_words = 0;
  const int32_t* sets = nullptr;      // [rows]: the set of each row; null: the first for all
  const int32_t* wanted = nullptr;    // [rows]: a token whose log p is wanted; -1: none
  int32_t* tokens = nullptr;          // [rows, count]
  float* log_probs = nullptr;         // [rows, count]
  float* wanted_log_probs = nullptr;  // [rows]; 0 for none
  void* workspace = nullptr;          // choose_tokens_workspace() bytes
};
int64_t choose_tokens_workspace(int64_t rows, int64_t vocab, int64_t count);
void choose_tokens(Stream stream, const ChooseTokens& args);

}  // namespace tril::kernels::cuda
