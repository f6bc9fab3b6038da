// Sampling where the logits are: one token per row, drawn on the GPU. CUDA only: on the CPU
// decode/choice.h draws from log-probabilities.
#pragma once

#include <span>

#include "tril/ops/choice.h"

namespace tril::ops {

// One draw for a row (kernels/cuda/draw.h says how).
struct TokenDraw {
  int32_t row = -1;   // -1: nothing; lists of few different lengths are kept as CUDA graphs
  int32_t top_k = 0;  // 0: all
  double temperature = 1.0;
  double top_p = 1.0;
  uint64_t seed = 0;
  uint64_t stream = 0;  // of the seed's random numbers
  uint32_t sample = 0;
  uint32_t position = 0;
};

// Each draw becomes the only choice of its row: chosen.tokens[row, 0] and chosen.log_probs[row, 0];
// a row in which no token may be drawn has none.
void draw_tokens(Context& context, const Tensor& logits, const AllowedByRow& allowed,
                 std::span<const TokenDraw> draws, const ChosenTokens& chosen);

}  // namespace tril::ops
