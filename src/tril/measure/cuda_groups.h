// The groups of measure.h on a CUDA card, with work of its size. For the sources of this folder.
// Each raises `device` without a usable card. Where options.placement says so they run on the CPU,
// and count the same: for tests.
#pragma once

#include "tril/measure/measure.h"

namespace tril {

// The card's own peaks.
std::vector<Measurement> measure_cuda_machine(const MeasureOptions& options);
// Products of training base and big (thousands of rows) and of decoding (1, 32 and 256 rows).
std::vector<Measurement> measure_cuda_gemm(const MeasureOptions& options);
// 800 short sentences packed, and long ones of 16,384 tokens in all; forward and backward apart.
std::vector<Measurement> measure_cuda_attention(const MeasureOptions& options);
// Updates of tiny, base and big with batches of one size, and what the promise costs base and big.
std::vector<Measurement> measure_cuda_training(const MeasureOptions& options);
// 32 tokens in, 64 out: greedy and beam 4, and what the promise costs greedy with a batch of 32.
std::vector<Measurement> measure_cuda_translation(const MeasureOptions& options);

// Lengths of so many sentences with so many tokens in all: those of measure/work.h in turn, longer
// or shorter by the same number, but for some that are one longer. Raises `invalid_argument` where
// a sentence would be left without a token.
std::vector<int32_t> packed_lengths(int64_t sentences, int64_t tokens);

}  // namespace tril
