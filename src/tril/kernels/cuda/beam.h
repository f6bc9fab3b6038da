// Beam search between two steps of a model on CUDA: the step of decode/hypotheses.h, for many
// sentences at once, without the host.
//
// A sentence is a group of consecutive rows, its alive hypotheses in order. Each group has its own
// width. Row i of a group has a score, -inf if there is no hypothesis, and offers its first 2 *
// width choices, best first; their order is by score in double, then by row, then by place. The
// first 2 * width are considered: END is skipped, and the first `width` others are the alive
// hypotheses of the next step. Each takes over its parent's row of the table, which says where the
// keys of its sequence are.
//
// A group depends on that group alone. Kernels neither allocate nor throw.
#pragma once

#include <cstdint>

#include "tril/base/stream.h"

namespace tril::kernels::cuda {

constexpr int64_t kMostBeams = 1024;  // in a group

struct BeamGroup {
  int32_t first_row = 0;
  int32_t width = 0;  // 0: no group; lists of few different lengths are kept as CUDA graphs
  int32_t end = -1;   // the token END
};

struct AdvanceBeams {
  int64_t rows = 0;
  int64_t groups = 0;
  const BeamGroup* list = nullptr;     // [groups]
  int64_t most_width = 1;              // over all groups
  int64_t count = 1;                   // columns of choices and log_probs
  const int32_t* choices = nullptr;    // [row, count]; -1: no more
  const float* log_probs = nullptr;    // [row, count]
  const int32_t* positions = nullptr;  // [row]: of the row's token; the same within a group
  int32_t* tokens = nullptr;           // [row]: what the model reads next; 0 for none
  double* scores = nullptr;            // [row]
  int32_t* table = nullptr;            // [row, table_stride], filled up to the row's position
  int64_t table_stride = 0;
  // Where the host expects choices and log_probs, one after the other: the address of host memory
  // that the device may write. Null: nowhere.
  void* const* deliver_to = nullptr;
};
// May overlap with the preceding kernels of the chain, but because it writes tables it must be the
// last.
void advance_beams(Stream stream, const AdvanceBeams& args);

// table[r, positions[r]] = entries[r], except for entries of -1.
struct ExtendTable {
  int64_t rows = 0;
  const int32_t* positions = nullptr;
  const int32_t* entries = nullptr;
  int32_t* table = nullptr;
  int64_t table_stride = 0;
};
void extend_table(Stream stream, const ExtendTable& args);

// A row of a sentence that begins. Its score is the sum of prefix_log_probs[first], ... in double,
// ascending: `length` of them, 0 for no prefix; -1 for a row without a hypothesis yet, whose score
// is -inf, as is a sum that is NaN.
struct BeginningRow {
  int32_t row = 0;
  int32_t token = 0;
  int32_t first = 0;
  int32_t length = 0;
};
struct SetRows {
  int64_t count = 0;
  const BeginningRow* list = nullptr;  // [count]
  const float* prefix_log_probs = nullptr;
  int32_t* tokens = nullptr;
  double* scores = nullptr;
};
void set_rows(Stream stream, const SetRows& args);
// The i-th row of `entries` becomes the beginning of row rows[i] of the table.
struct SetTable {
  int64_t count = 0;
  const int32_t* rows = nullptr;
  const int32_t* entries = nullptr;  // [count, columns]
  int64_t columns = 0;
  int32_t* table = nullptr;
  int64_t table_stride = 0;
};
void set_table(Stream stream, const SetTable& args);

}  // namespace tril::kernels::cuda
