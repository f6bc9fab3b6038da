// How a model's weights are kept and multiplied.
#pragma once

#include <string_view>

#include "tril/base/words.h"

namespace tril {

// The forms of weights by the names that users know. fp32: what training computes in. bf16: weights
// are stored rounded, and products are computed as in fp32 (on CUDA activations are rounded too).
// int8: weights and activations as bytes (kernels/gemm_int8.h). bf16_dot: both in bf16, multiplied
// by an instruction that only some processors have, with bits of its own (kernels/gemm_bf16_dot.h).
enum class Compute { fp32, bf16, int8, bf16_dot };
template <>
struct Words<Compute> {
  static constexpr std::string_view kList[] = {"fp32", "bf16", "int8", "bf16-dot"};
};

}  // namespace tril
