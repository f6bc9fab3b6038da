// Chosen columns of packed panels: a small right operand copied from a large one.
//
// Panels are [p][rows][64] of units, a unit being what a column holds in one row: a float, a bf16
// number, a pair of these (kernels/gemm_bf16_dot.h), or the four bytes of kernels/gemm_int8.h,
// whose rows are int8_padded(k) / 4. Column j of the result is column columns[j] of the panels, bit
// for bit; columns past the last are zero. So each element of a product with the result is the same
// chain over the same numbers as in the product with all columns. Columns may come in any order and
// more than once; ascending ones are read fastest. Nothing may alias. Kernels neither allocate,
// throw nor log.
#pragma once

#include <cstdint>
#include <span>

#include "tril/base/parallel.h"

namespace tril::kernels {

// unit_bytes is 2 or 4; `out` has room for columns.size() rounded up to whole panels.
void gather_columns(const Parallel& parallel, const void* panels, int64_t unit_bytes, int64_t rows,
                    std::span<const int32_t> columns, void* out);

}  // namespace tril::kernels
