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

namespace tril {

// A gradient that differs, or is made from what its loss may not see.
struct EveryGradientPlace {
  static constexpr std::string_view kLoss = "loss";
  std::string parameter{};  // kLoss: the loss itself; empty: an activation's
  int64_t element = -1;     // of the parameter
  EveryInputPlace at{};     // the activation's row
  int64_t loss = 0;         // the loss of this position
  bool up_to = false;       // and of all before it
  int64_t reached = -1;     // a position that the loss may not see
  bool in_source = false;   // of the source
  bool in_other = false;    // of the other sentence
  bool operator==(const EveryGradientPlace&) const = default;
};
std::string to_string(const EveryGradientPlace& place);

struct EveryGradientResult {
  int64_t operations = 0;     // made in all passes
  int64_t losses = 0;         // that were differentiated in both ways
  int64_t parameters = 0;     // elements of parameters, in each
  int64_t numbers = 0;        // compared: gradients of parameters and activations, and losses
  int64_t with_gradient = 0;  // of these, in which some row's gradient takes part
  int64_t differing = 0;
  int64_t missing = 0;      // rows of one pass that the other does not have
  int64_t forbidden = 0;    // made from a position, or of a row, that the loss may not see
  int64_t short_reach = 0;  // of one row's loss, not made from everything that the row may see
  int64_t silent = 0;       // parameters, and observed sites of a layer, without any gradient
  std::optional<EveryGradientPlace> first_difference{}, first_leak{}, first_short_reach{};
  std::string first_silent{};
  double seconds = 0.0;

  bool holds() const {
    return with_gradient > 0 && differing == 0 && missing == 0 && forbidden == 0 &&
           short_reach == 0 && silent == 0;
  }
};

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
