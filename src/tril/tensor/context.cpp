#include "tril/tensor/context.h"

#include "tril/base/cpu.h"

namespace tril {

Context::Context(int threads, Device device) : arena(device), parallel(threads) {
  current_target();  // chooses the instruction set, or says clearly that there is none
}

}  // namespace tril
