// Kinds of norms and activations, by the names that configurations give them. What they compute is
// in kernels/norm.h and kernels/activation.h.
#pragma once

#include <string_view>

#include "tril/base/words.h"

namespace tril {

enum class NormType { layer, rms };
template <>
struct Words<NormType> {
  static constexpr std::string_view kList[] = {"layer", "rms"};
};

enum class ActivationType { relu, gelu, silu, gelu_tanh };
template <>
struct Words<ActivationType> {
  static constexpr std::string_view kList[] = {"relu", "gelu", "silu", "gelu-tanh"};
};

}  // namespace tril
