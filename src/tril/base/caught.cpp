#include "tril/base/caught.h"

#include <new>

namespace tril {
namespace {

// Made while there is memory; copying it needs none.
const Error kNoMemory(ErrorCode::out_of_memory, "out of memory: the system gave no more");

}  // namespace

Error error_of(const std::exception& failure) noexcept {
  if (const auto* error = dynamic_cast<const Error*>(&failure)) return *error;
  if (dynamic_cast<const std::bad_alloc*>(&failure) != nullptr) return kNoMemory;
  try {
    return Error(ErrorCode::internal, failure.what());
  } catch (const std::bad_alloc&) {
    return kNoMemory;
  }
}

}  // namespace tril
