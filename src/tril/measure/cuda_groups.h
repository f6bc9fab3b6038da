// The groups of measure.h on a CUDA GPU, with work of a suitable size. For the sources of this
// folder. Each raises `device` without a usable GPU. If options.placement is the CPU they run there
// and count the same, for tests.
#pragma once

#include "tril/measure/measure.h"

namespace tril {

// The GPU's own peaks.
std::vector<Measurement> measure_cuda_machine(const MeasureOptions& options);
// Products of training base and big (thousands of rows) and of decoding (1, 32 and 256 rows).
std::vector<Measurement> measure_cuda_gemm(const MeasureOptions& options);
// 800 packed short sentences, and long ones of 16,384 tokens in all; forward and backward
// separately.
std::vector<Measurement> measure_cuda_attention(const MeasureOptions& options);
// Updates of tiny, base and big with batches of one size, and the cost of the promise for base and
// big.
std::vector<Measurement> measure_cuda_training(const MeasureOptions& options);
// 32 tokens in, 64 out: greedy and beam 4, and the cost of the promise for greedy with a batch of
// 32.
std::vector<Measurement> measure_cuda_translation(const MeasureOptions& options);

// Lengths of this many sentences with this many tokens in all: those of measure/work.h in turn, all
// made longer or shorter by the same number, except that some are one longer. Raises
// `invalid_argument` if a sentence would be left without a token.
std::vector<int32_t> packed_lengths(int64_t sentences, int64_t tokens);

}  // namespace tril
