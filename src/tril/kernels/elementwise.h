// Sums of arrays, and the sum of squares of one.
// Kernels neither allocate, throw nor log.
#pragma once

#include <cstdint>

#include "tril/base/parallel.h"

namespace tril::kernels {

// out = a + b; out may be a or b.
void add(const Parallel& parallel, int64_t size, const float* a, const float* b, float* out);

// x *= *factor; does nothing for 1.
void scale(const Parallel& parallel, int64_t size, const float* factor, float* x);

// out = factor x.
void scaled(const Parallel& parallel, int64_t size, float factor, const float* x, float* out);

void fill(const Parallel& parallel, int64_t size, float value, float* out);

// The sum of x[i]^2 in double: chunks of kSquareChunk elements over 16 virtual lanes in fp32, each
// folded by halving, the chunks added in ascending order. `partial` has room for one float per
// chunk.
constexpr int64_t kSquareChunk = 4096;
double sum_of_squares(const Parallel& parallel, int64_t size, const float* x, float* partial);

}  // namespace tril::kernels
