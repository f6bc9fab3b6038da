#include "tril/tensor/context.h"

#include "tril/base/cpu.h"
#include "tril/base/error.h"

namespace tril {

Context::Context(int threads, Device device) : arena(device), parallel(threads) {
  current_target();  // chooses the instruction set, or says clearly that there is none
}

void Context::reset() {
  require(tape == nullptr, ErrorCode::invalid_argument,
          "reset: a tape is recording on this context; end it first");
  arena.reset();
  host.reset();
}

}  // namespace tril
