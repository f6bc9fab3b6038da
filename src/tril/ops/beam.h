// Beam search between two steps of a model on the GPU, so that a step need not wait for the host.
// CUDA only: the host's rule, which this follows, is decode/hypotheses.h.
#pragma once

#include "tril/ops/choice.h"

namespace tril::ops {

// The state of its rows that the GPU keeps from step to step.
struct Beams {
  Tensor tokens;  // i32 [row]: what the model reads next; 0 for a row without a hypothesis
  Tensor scores;  // f64 [row]: of the tokens so far; -inf for none
  Tensor table;   // i32 [row, position]: where the keys of the row's sequence are
};

// The consecutive rows of one sentence: its alive hypotheses in order.
struct BeamGroup {
  int32_t first_row = 0;
  int32_t width = 0;  // 0: no group; lists of few different lengths are kept as CUDA graphs
  int32_t end = -1;   // the token END
};

// A step of decode/hypotheses.h: continuations by score, then by row, then by place; of the first 2
// * width those without END stay alive, at most `width`. Each takes over its parent's row of the
// table, up to the row's position. Scores in double and ties are as on the host. `deliver_to` is
// memory of Queue::expect() for chosen.tokens followed by chosen.log_probs; rows of no group are
// not delivered.
void advance_beams(Context& context, const ChosenTokens& chosen, const Mirrored<int32_t>& positions,
                   std::span<const BeamGroup> groups, const Beams& beams, void* deliver_to);

// Adds the entry of each row's position to the table; -1: none.
void extend_table(Context& context, const Mirrored<int32_t>& positions,
                  const Mirrored<int32_t>& entries, const Tensor& table);

// A row of a sentence that begins: the token it reads first, and its prefix, whose
// log-probabilities `first`, ... `first + length - 1` add up to its score. A length of -1 is a row
// that has no hypothesis yet.
struct BeginningRow {
  int32_t row = 0;
  int32_t token = 0;
  int32_t first = 0;
  int32_t length = 0;
};
// prefix_log_probs f32 [n]; undefined where no row has a prefix.
void begin_beams(Context& context, std::span<const BeginningRow> rows,
                 const Tensor& prefix_log_probs, const Beams& beams);
// entries [rows, columns]: the beginning of their rows of the table.
void set_table(Context& context, std::span<const int32_t> rows, std::span<const int32_t> entries,
               const Tensor& table);

}  // namespace tril::ops
