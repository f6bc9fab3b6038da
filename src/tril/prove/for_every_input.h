// The statement, for every input: the parallel pass of training and token-by-token decoding are the
// same function, whatever the weights and the tokens are.
//
// The model runs on expressions (base/expression.h), through the same layers, caches and masks as
// on numbers. Its weights are leaves with their names; every position has a token of its own, which
// is a variable. Two passes are made:
//   stepwise  one token per call with a growing cache, beside a neighbour; its first tokens come in
//             one call, half-way it continues in a fork of its cache;
//   parallel  under a tape, as in training: the whole sentence in one call, packed behind the
//             neighbour and padding; once for every length.
// Everything the observer sees and every logit is compared. Where two hashes agree the two numbers
// are the same expression, so they have the same bits for all weights and tokens. And no number of
// a row may be made from a position that the row may not see.
//
// What is assumed: the operations of the processor are functions of their operands; hashes of 128
// bits do not collide; the kernels do what their order-exact models do (kernels/model), which is
// tested on millions of outputs (tests/kernels/model_test.cpp), not proved.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tril/models/config.h"
#include "tril/models/session.h"
#include "tril/ops/weight_form.h"

namespace tril {

struct EveryInputOptions {
  int64_t length = 16;        // the parallel pass is made for all lengths up to this
  int64_t source_length = 7;  // of the encoder's input
  int64_t neighbour = 3;      // tokens of the other sentence
  int64_t prefix = 0;         // prefix LM: this many first positions see each other
  bool every_length = true;   // otherwise the parallel pass is made for `length` alone
  Compute compute = Compute::fp32;
  int threads = 0;
  TestHooks hooks{};
  Masking masking = Masking::causal;
  std::function<void(double share)> progress{};  // may be empty
};

// A place in a model where the two passes differ, or a forbidden position was reached.
struct EveryInputPlace {
  Stack stack = Stack::decoder;
  int64_t layer = -1;
  std::string site{};
  int64_t head = -1;  // -1: not of one head
  int64_t position = 0;
  int64_t length = 0;     // of the parallel pass; 0: step by step
  int64_t reached = -1;   // a forbidden position of the target
  bool in_other = false;  // or: a position of the other sentence
  bool operator==(const EveryInputPlace&) const = default;
};
std::string to_string(const EveryInputPlace& place);

struct EveryInputResult {
  int64_t operations = 0;         // made in all passes
  int64_t passes = 0;             // parallel ones
  int64_t numbers = 0;            // compared, logits included
  int64_t logits = 0;             // compared
  int64_t distinct = 0;           // different expressions among the logits of one pass
  int64_t expected_distinct = 0;  // one per position and token of the vocabulary
  int64_t differing = 0;
  int64_t forbidden = 0;    // numbers made from a position that their row may not see
  int64_t wrong_masks = 0;  // rows whose interval is not the rule's
  std::optional<EveryInputPlace> first_difference{}, first_leak{}, first_wrong_mask{};
  double seconds = 0.0;

  // Equal everywhere, nothing reached, and the comparison was worth something.
  bool holds() const {
    return logits > 0 && differing == 0 && forbidden == 0 && wrong_masks == 0 &&
           distinct == expected_distinct;
  }
};

// Raises what the model raises for this configuration.
EveryInputResult prove_for_every_input(const TransformerConfig& config,
                                       const EveryInputOptions& options);

// The number of operations it will make, about: to choose a length before starting.
double every_input_operations(const TransformerConfig& config, const EveryInputOptions& options);

}  // namespace tril
