// Caught exceptions as an Error that can be kept, copied and passed to another thread.
#pragma once

#include <exception>

#include "tril/base/error.h"

namespace tril {

// An Error unchanged; std::bad_alloc as `out_of_memory`; anything else as `internal` with its text.
// Works even if no memory is left.
Error error_of(const std::exception& failure) noexcept;

// error_of(Error(code, concat(parts...))), or `out_of_memory` if there is no memory for the text.
template <class... Parts>
Error make_error(ErrorCode code, const Parts&... parts) noexcept {
  try {
    return Error(code, concat(parts...));
  } catch (const std::exception& failure) {
    return error_of(failure);
  }
}

}  // namespace tril
