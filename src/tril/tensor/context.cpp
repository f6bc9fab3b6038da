#include "tril/tensor/context.h"

#include "tril/base/cpu.h"
#include "tril/base/error.h"

namespace tril {

Context::Context(int threads, Device device) : Context(threads, device, activation_type(device)) {}

Context::Context(int threads, Device device, DType type)
    : arena(device), queue(device), activations(type), parallel(threads) {
  require(device == Device::cuda ? type == DType::f32 || type == DType::bf16 : type == DType::f32,
          ErrorCode::unsupported, "activations of ", type, " on ", device);
  current_target();  // chooses the instruction set, or says clearly that there is none
}

void Context::reset() {
  require(tape == nullptr, ErrorCode::invalid_argument,
          "reset: a tape is recording on this context; end it first");
  arena.reset();
  host.reset();
  queue.reset();
}

}  // namespace tril
