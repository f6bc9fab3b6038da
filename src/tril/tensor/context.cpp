#include "tril/tensor/context.h"

#include "tril/base/cpu.h"
#include "tril/base/error.h"

namespace tril {

Context::Context(int threads, const Placement& placement)
    : arena(placement.device),
      queue(placement.device),
      activations(placement.activations),
      parallel(threads) {
  const bool remembers = activations == DType::expression && !on_gpu(placement.device);
  if (remembers) expressions = std::make_shared<ExpressionInputs>();
  require(remembers || activations == DType::f32 ||
              (on_gpu(placement.device) && activations == DType::bf16),
          ErrorCode::unsupported, "activations of ", activations, " on ", placement.device);
  current_target();  // chooses the instruction set, or raises a clear error if there is none
}

void Context::reset() {
  require(tape == nullptr, ErrorCode::invalid_argument,
          "reset: a tape is recording on this context; end it first");
  arena.reset();
  host.reset();
  queue.reset();
  end_chain();
}

}  // namespace tril
