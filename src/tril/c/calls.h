// How every function of tril/c.h is called: exceptions become codes and messages, and what C passes
// is checked. Internal to c/.
#pragma once

#include <cxxabi.h>

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

#include "tril/base/error.h"
#include "tril/c.h"

namespace tril::c {

// A call that should not have been made: TRIL_MISUSE.
class Misuse : public std::exception {
 public:
  explicit Misuse(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

template <class... Parts>
[[noreturn]] void fail_use(const Parts&... parts) {
  throw Misuse(concat(parts...));
}
template <class... Parts>
void require_use(bool holds, const Parts&... parts) {
  if (!holds) [[unlikely]]
    fail_use(parts...);
}

// Keeps what went wrong for tril_errmsg(), and returns its code.
int failed(const char* operation, const void* handle, const std::exception& failure) noexcept;
int failed_unknown(const char* operation, const void* handle) noexcept;
const char* message_about(const void* handle) noexcept;

// Runs the body of a function; `handle` is what its failure is about.
template <class Body>
int call(const char* operation, const void* handle, const Body& body) {
  try {
    body();
    return TRIL_OK;
  } catch (const std::exception& failure) {
    return failed(operation, handle, failure);
  } catch (const abi::__forced_unwind&) {
    throw;  // a thread that is cancelled: it goes on to its end
  } catch (...) {
    return failed_unknown(operation, handle);
  }
}

// Inside a callback of the caller's, on the engine's thread.
class InCallback {
 public:
  InCallback();
  ~InCallback();
  InCallback(const InCallback&) = delete;
  InCallback& operator=(const InCallback&) = delete;
};
// Raises Misuse in a callback: what it is waited for would never come.
void require_may_wait();

// A text that C passes. Raises Misuse for a null pointer and for a length that cannot be.
std::string_view text_of(std::string_view what, const char* text, int64_t length);
// One that ends with a zero byte.
std::string_view name_of(std::string_view what, const char* text);

// Where a handle is to be written: set to null, so that a call that fails leaves no other there.
// Raises Misuse for a null pointer.
template <class Handle>
void clear(Handle** place) {
  require_use(place != nullptr, "the place for the handle is NULL");
  *place = nullptr;
}

// For results that may be unwanted.
template <class Value, class From>
void put(Value* place, const From& value) {
  if (place != nullptr) *place = static_cast<Value>(value);
}

}  // namespace tril::c
