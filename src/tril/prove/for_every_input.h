// The statement, for every input: the parallel pass of training and token-by-token decoding are the
// same function, whatever the weights and the tokens are.
//
// The model runs on expressions (base/expression.h), through the same layers, caches and masks as
// on numbers. Its weights are leaves with their names; every position has a token of its own, which
// is a variable. Two may stand for the same token: nothing is assumed about them. These passes are
// made, without dropout:
//   stepwise      one token per call with a growing cache, in every second call beside a neighbour.
//                 From four tokens on the first two come in one call, as a prompt does. Half-way
//                 the sentence continues in a fork of its cache, while something else is written
//                 into the original;
//   unobserved    the same again without an observer, as decoding runs: its logits are compared;
//   parallel      under a tape, as in training: the whole sentence in one call, packed between two
//                 neighbours and padding; once for every length.
// Everything the observer sees and every logit is compared. Where two hashes agree the two numbers
// are the same expression, so they have the same bits for all weights and tokens (a NaN counts as
// one value: which of its patterns comes out depends on the order of operands in registers). And no
// number of a row may be made from a position that the row may not see, while a logit must be made
// from all that it may.
//
// What is assumed: the operations of the processor are functions of their operands; hashes of 128
// bits do not collide; the kernels do what their order-exact models do (kernels/model), which is
// tested (tests/kernels/model_test.cpp and, on a GPU, cuda_model_test.cpp), not proved. A fault
// inside a kernel cannot be seen here.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tril/models/config.h"
#include "tril/models/session.h"
#include "tril/ops/weight_form.h"
#include "tril/prove/report.h"

namespace tril {

struct EveryInputOptions {
  int64_t length = 16;        // the parallel pass is made for all lengths up to this
  int64_t source_length = 7;  // of the encoder's input
  int64_t neighbour = 3;      // tokens of the other sentence
  int64_t prefix = 0;         // prefix LM: this many first positions see each other
  bool every_length = true;   // otherwise the parallel pass is made for `length` alone
  Compute compute = Compute::fp32;
  // Whose kernels the model runs on. CUDA's have no other compute than fp32, which stands for bf16
  // too: a weight is one number. Their activations are numbers of fp32 or bf16 (OperationOrder).
  OperationOrder order = OperationOrder::cpu;
  int threads = 0;
  TestHooks hooks{};
  Masking masking = Masking::causal;
  std::function<void(double share)> progress{};  // may be empty
};

// Raises what the model raises for this configuration.
EveryInputResult prove_for_every_input(const TransformerConfig& config,
                                       const EveryInputOptions& options);

// Raises `invalid_argument` for lengths that cannot be.
void check_lengths(const EveryInputOptions& options);

// Operations of a forward pass for a row of the target and of the source, about.
struct ExpressionWork {
  double target = 0.0, source = 0.0;
};
ExpressionWork work_per_row(const TransformerConfig& config);
// The number of operations it will make, about: to choose a length before starting.
double every_input_operations(const TransformerConfig& config, const EveryInputOptions& options);

}  // namespace tril
