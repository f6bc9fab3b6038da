// Embedding lookup and its gradient.
//
//   out[row] = scale table[ids[row]] + positions[row]
//
// Order: fma(table, scale, position). The gradient of a table row is one chain over the rows that
// looked it up, ascending, times scale: rows are sorted stably by id, so it does not depend on
// threads. Kernels neither allocate, throw nor log; ids were checked by ops/.
#pragma once

#include <cstdint>

#include "tril/base/parallel.h"

namespace tril::kernels {

struct Embedding {
  int64_t rows = 0;
  int64_t columns = 0;
  float scale = 1.0f;
  const int32_t* ids = nullptr;           // [rows]
  const float* table = nullptr;           // [entries, columns]
  const int32_t* position_ids = nullptr;  // [rows], or null for no positions
  const float* position_table = nullptr;  // [positions, columns]
};
void embedding_forward(const Parallel& parallel, const Embedding& args, float* out);

// order [rows] and starts [entries + 1]: the rows with id e are order[starts[e]] ... in ascending
// order.
void sort_by_id(const int32_t* ids, int64_t rows, int64_t entries, int32_t* order, int32_t* starts);
// Writes all of dtable [entries, columns]; rows never looked up become zero.
void embedding_backward(const Parallel& parallel, const int32_t* order, const int32_t* starts,
                        const float* dout, float scale, int64_t entries, int64_t columns,
                        float* dtable);

}  // namespace tril::kernels
