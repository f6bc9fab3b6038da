// Beam search between two steps of a model where the model is, so that a step need not wait for the
// host. Sentences are groups of `width` rows, their alive hypotheses in order.
#pragma once

#include "tril/ops/choice.h"

namespace tril::ops {

// What a device knows of its rows from step to step.
struct Beams {
  Tensor tokens;  // i32 [row]: what the model reads next; 0 for a row without a hypothesis
  Tensor scores;  // f64 [row]: of the tokens so far; -inf for none
  Tensor table;   // i32 [row, position]: where the keys of the row's sequence are
};

// A step as decode/hypotheses.h has it: continuations by score, then by row, then by place; of the
// first 2 * width those without END are alive, `width` at most. Each takes over its parent's row of
// the table, up to the row's position. The same in double, and the same ties, as on the host.
// `deliver_to`, where given, is memory of Queue::expect() for chosen.tokens and chosen.log_probs,
// one behind the other.
void advance_beams(Context& context, const ChosenTokens& chosen, const Mirrored<int32_t>& positions,
                   int64_t width, int32_t end, const Beams& beams, void* deliver_to = nullptr);

// The entry of each row's position becomes part of the table; -1: none. CUDA only.
void extend_table(Context& context, const Mirrored<int32_t>& positions,
                  const Mirrored<int32_t>& entries, const Tensor& table);

// Rows of sentences that begin.
void set_beams(Context& context, std::span<const int32_t> rows, std::span<const int32_t> tokens,
               std::span<const double> scores, const Beams& beams);
// entries [rows, columns]: the beginning of their rows of the table.
void set_table(Context& context, std::span<const int32_t> rows, std::span<const int32_t> entries,
               const Tensor& table);

}  // namespace tril::ops
