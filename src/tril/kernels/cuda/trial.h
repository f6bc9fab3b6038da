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
struct FillTrial {
  TrialSide side = TrialSide::a;
  TermsAre terms = TermsAre::columns;
  int64_t rows = 0;
  int64_t columns = 0;
  BFloat16* to = nullptr;
};
void fill_trial(Stream stream, const FillTrial& args);

// Adds to *count the number of elements of two matrices [rows][columns], with rows `stride` apart,
// that differ in bits. Two NaNs are equal.
struct CountDiffering {
  DType type = DType::bf16;
  const void *a = nullptr, *b = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;
  uint32_t* count = nullptr;
};
void count_differing(Stream stream, const CountDiffering& args);

}  // namespace tril::kernels::cuda
