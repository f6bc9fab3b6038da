// What was caught, as an Error that can be kept, copied and handed to another thread.
#pragma once

#include <exception>

#include "tril/base/error.h"

namespace tril {

// An Error as it is; std::bad_alloc as `out_of_memory`; anything else as `internal` with its text.
// Needs no memory where there is none.
Error error_of(const std::exception& failure) noexcept;

// error_of(Error(code, concat(parts...))), `out_of_memory` where there is no memory for the text.
template <class... Parts>
Error make_error(ErrorCode code, const Parts&... parts) noexcept {
  try {
    return Error(code, concat(parts...));
  } catch (const std::exception& failure) {
    return error_of(failure);
  }
}

}  // namespace tril
