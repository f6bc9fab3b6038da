// prove() with deliberate faults, for tests that must be able to fail.
#pragma once

#include "tril/prove/proof.h"
#include "tril/tensor/context.h"

namespace tril {

ProofReport prove_hooked(const Transformer& model, std::span<const TokenPair> pairs,
                         const ProofOptions& options, const TestHooks& hooks);

}  // namespace tril
