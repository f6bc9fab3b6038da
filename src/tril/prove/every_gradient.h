// Training, for every input: what one position teaches is what its prefix alone would teach,
// whatever the weights, the tokens and the labels are.
//
// The model runs on expressions under a tape, forward and backward, through the same layers, loss
// and gradient rules as on numbers. For every position i of a sentence two losses are taken, the
// loss of position i alone and that of all positions up to i, and each is differentiated twice:
//   in the batch  the whole sentence packed between two neighbours and padding, all of whose other
//                 rows have no label;
//   alone         positions 0 to i and nothing else (in a prefix LM, to the end of the prefix).
// The loss, the gradient of every element of every parameter, and that of every activation the
// observer sees must be the same expression in both. Every gradient may be made only from positions
// that the rows of the loss may see, and must be made from all of these where one row has a label;
// an activation of a row that the loss may not see must have no gradient at all. Every parameter
// must have a gradient of every loss, and every observed site of a layer one of some loss.
//
// What this assumes beyond for_every_input.h: rows without a label contribute zeros to sums, and
// these are left out of the expressions (kernels/model/gradient.h has the rule). That is right if
// what the zeros are multiplied by is finite: all weights, all numbers of the forward pass in every
// row of the batch, and what is made from these alone, such as slopes of activations. So equal
// expressions are equal numbers, as `==` compares them, whatever weights, tokens and labels are, as
// long as these are finite; the sign of a zero is not covered. A NaN in another row would reach the
// gradient through 0 times NaN, although it cannot reach a logit.
//
// Where the order of a sum depends on the batch: sums over tokens are made in slices of
// kernels::kTokenSlice rows, counted from the batch's first row. Here a batch fits into one slice.
// If a sentence lies in two slices, its sums are split between its rows and are other expressions;
// they differ in rounding (a test shows it). So longer sentences are refused.
//
// A label is a variable of its own for every row, so no label is special. Every position has a
// token of its own. Where two positions stand for the same token, the gradient of its table entry
// is the sum over both rows, in the order of rows, which is the same in both passes; the rows' own
// gradients are compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tril/kernels/gemm.h"
#include "tril/prove/for_every_input.h"
#include "tril/prove/report.h"

namespace tril {

// A sentence of so many tokens fits into one slice together with the neighbours and the padding
// that the options have by default.
inline constexpr int64_t kMostGradientTokens = kernels::kTokenSlice - 16;

// Of the options, `every_length` decides whether every position is taken, or the last but one
// alone, which has a later row to hide; `compute` must be fp32, the form that is trained in. Raises
// what the model raises for this configuration.
EveryGradientResult prove_every_gradient(const TransformerConfig& config,
                                         const EveryInputOptions& options);

// The number of operations it will make, about.
double every_gradient_operations(const TransformerConfig& config, const EveryInputOptions& options);

}  // namespace tril
