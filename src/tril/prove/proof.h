// prove() with all its figures, as `tril prove` shows them.
//
//   1. table       training against inference, with evidence (table.h)
//   2. agreement   the parallel pass against step by step, bit for bit (agreement.h)
//   3. leaks       what a row may not see does not reach it (leak.h)
//   4. sequential  training prefix by prefix against all at once (sequential.h)
//   5. every input the configuration on expressions, whatever weights and tokens are
//                  (for_every_input.h), gradients included (every_gradient.h)
#pragma once

#include <span>

#include "tril/prove/report.h"
#include "tril/tensor/context.h"

namespace tril {

// As prove(). `hooks`: deliberate faults, for tests that must be able to fail.
ProofReport prove_in_full(const Transformer& model, std::span<const TokenPair> pairs,
                          const ProofOptions& options, const TestHooks& hooks = {});

}  // namespace tril
