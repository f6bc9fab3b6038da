// Numbers on which different orders of summation give different results, and their comparison: an
// algorithm of cuBLASLt must pass this before it is used instead of our own kernel.
//
// Lines (rows of a, columns of c's b) take turns: ordinary numbers; exponents up to 100 in both
// directions that cancel against the other operand's, term by term; a range of 24 binary orders;
// numbers down to the subnormals; zeros of both signs between ordinary ones; numbers up to the
// largest; neighbours whose products cancel; and the whole range at once, with infinite sums.
// Kernels neither allocate nor throw.
#pragma once

#include <cstdint>

#include "tril/kernels/cuda/gemm.h"

namespace tril::kernels::cuda {

enum class TrialSide { a, b };
// A dense matrix [rows][columns] whose rows (or columns) are lines of terms.
void fill_trial(Stream stream, TrialSide side, TermsAre terms, int64_t rows, int64_t columns,
                BFloat16* to);

// Adds to *count how many elements of two matrices [rows][columns], with rows `stride` apart,
// differ in bits. Two that are not numbers are equal.
void count_differing(Stream stream, DType type, const void* a, const void* b, int64_t rows,
                     int64_t columns, int64_t stride, uint32_t* count);

}  // namespace tril::kernels::cuda
