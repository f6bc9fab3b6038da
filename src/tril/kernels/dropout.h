// Dropout whose mask is a function of what is dropped, not of when or where it is computed.
//
//   y[row][f] = x[row][f] s  if u >= p, else 0, where s = 1 / (1 - p), rounded once
//   u = a 16-bit fraction of Philox(key: seed; counter: step, sentence, position, 65536 site + c)
//
// A counter serves eight features: with w = f mod 128, the counter c is 16 (f / 128) + w mod 16,
// the word w / 16 mod 4, and its lower half serves w < 64, its upper half the others. So
// neighbouring features come from neighbouring counters, which a vector computes together. A
// sentence gets the same mask in any batch, on any number of threads and after a resume. The
// backward pass is this same function on dy; since the random numbers cost far more than the bits
// they decide, these bits are kept for it. y may be x. Kernels neither allocate, throw nor log.
#pragma once

#include <cstdint>

#include "tril/base/parallel.h"

namespace tril::kernels {

// A site has 65,536 counters of eight features each.
constexpr int64_t kDropoutMaxColumns = 8 * 65536;

struct Dropout {
  int64_t rows = 0;
  int64_t columns = 0;       // at most kDropoutMaxColumns
  float probability = 0.0f;  // in [0, 1)
  uint64_t seed = 0;
  uint32_t step = 0;
  uint32_t site = 0;                   // < 65536: which dropout of the model this is
  const int32_t* sentences = nullptr;  // [rows]
  const int32_t* positions = nullptr;  // [rows]
};
// Bytes for the bits of `columns` features: bit f % 8 of byte f / 8 is set if feature f is kept.
constexpr int64_t dropout_row_bytes(int64_t columns) { return (columns + 7) / 8; }
// Writes the bits [rows, dropout_row_bytes] too.
void dropout(const Parallel& parallel, const Dropout& args, const float* x, float* y,
             uint8_t* kept);
// The same y, from the stored bits.
void dropout_by_bits(const Parallel& parallel, int64_t rows, int64_t columns, float probability,
                     const uint8_t* kept, const float* x, float* y);

}  // namespace tril::kernels
