// The argument structs of everything that is launched on CUDA. Queue::launch() accepts only structs
// listed here, and tests/device/identity_test.cpp checks for each that none of its values is left
// out of the identity of a launch (device/identity.h).
#pragma once

#include "tril/base/type_list.h"
#include "tril/kernels/cuda/attention.h"
#include "tril/kernels/cuda/beam.h"
#include "tril/kernels/cuda/choice.h"
#include "tril/kernels/cuda/draw.h"
#include "tril/kernels/cuda/gemm.h"
#include "tril/kernels/cuda/rows.h"
#include "tril/kernels/cuda/traffic.h"
#include "tril/kernels/cuda/trial.h"
#include "tril/kernels/cuda/weights.h"

namespace tril::kernels::cuda {

// clang-format off
using Launches = TypeList<
    // attention.h
    AttentionForward, AttentionBackward, StoreKeyValues,
    // beam.h, choice.h, draw.h
    AdvanceBeams, ExtendTable, SetRows, SetTable, ChooseTokens, DrawTokens,
    // gemm.h, trial.h
    Product, Gemm, ColumnSums, FillTrial, CountDiffering,
    // rows.h
    Add<float>, Add<BFloat16>, Scale<float>, Scale<BFloat16>,
    Scaled<float>, Scaled<BFloat16>, RelativeBias, Fill<float>, Fill<BFloat16>,
    Convert<float, float>, Convert<float, BFloat16>, Convert<BFloat16, float>,
    Convert<BFloat16, BFloat16>, RoundPadded,
    NormForward<float>, NormForward<BFloat16>,
    Embedding<float, float>, Embedding<BFloat16, float>, Embedding<BFloat16, BFloat16>, SortById,
    EmbeddingBackward<float>, EmbeddingBackward<BFloat16>,
    ActivationForward<float>, ActivationForward<BFloat16>,
    ActivationBackward<float>, ActivationBackward<BFloat16>,
    GatedForward<float>, GatedForward<BFloat16>, GatedBackward<float>, GatedBackward<BFloat16>,
    DropoutForward<float>, DropoutForward<BFloat16>, DropoutByBits<float>, DropoutByBits<BFloat16>,
    ResidualNormForward<float>, ResidualNormForward<BFloat16>,
    ResidualNormBackward<float>, ResidualNormBackward<BFloat16>, MergeNormGradients,
    Rotary<float>, Rotary<BFloat16>,
    SoftmaxNormalisers, SubtractRows, CrossEntropy<float>, CrossEntropy<BFloat16>, TotalLoss,
    SumOfSquares, AdamWBegin, AdamWUpdate,
    // traffic.h, weights.h
    Traffic, MoveTowards>;
// clang-format on

template <class Args>
consteval bool is_listed_launch(const Args*) {
  return Launches::kContains<Args>;
}

}  // namespace tril::kernels::cuda
