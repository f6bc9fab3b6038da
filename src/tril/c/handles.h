// The handles that C holds, and what they stand for. Internal to c/.
//
// A handle is a number that was never given before, with its kind in the lowest bits, in the form
// of a pointer. So one that was freed, or is of another kind, is told from a good one without
// reading memory, whatever threads do at the same time; and a call holds what it works on, even if
// the handle is freed meanwhile. All functions may be called from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "tril/c.h"

namespace tril::c {

enum class Kind : uint8_t { options = 1, translator, result, pending };

// What a handle of each type stands for.
template <class Handle>
struct Behind;  // Object; kKind

// Has all objects destroyed when the process ends, before what they rely on: to be called when a
// model was loaded, which made that.
void clear_at_exit();

// The number of handles that are not freed.
int64_t open_handles();

// Raises Misuse; `what` it should be is for the message.
[[noreturn]] void fail_handle(const void* handle, Kind wanted);

void* add_handle(Kind kind, std::shared_ptr<void> object);
// Null where there is none of this kind.
std::shared_ptr<void> find_handle(const void* handle, Kind kind);
std::shared_ptr<void> remove_handle(const void* handle, Kind kind);

// A new handle for an object.
template <class Handle>
Handle* give(std::shared_ptr<typename Behind<Handle>::Object> object) {
  return static_cast<Handle*>(add_handle(Behind<Handle>::kKind, std::move(object)));
}

// The object of a handle. Raises Misuse where it has none.
template <class Handle>
std::shared_ptr<typename Behind<Handle>::Object> get(const Handle* handle) {
  auto found = find_handle(handle, Behind<Handle>::kKind);
  if (found == nullptr) fail_handle(handle, Behind<Handle>::kKind);
  return std::static_pointer_cast<typename Behind<Handle>::Object>(std::move(found));
}

// The handle is freed; the object lasts until its last holder lets it go. Nothing for null.
template <class Handle>
std::shared_ptr<typename Behind<Handle>::Object> take(Handle* handle) {
  if (handle == nullptr) return nullptr;
  auto found = remove_handle(handle, Behind<Handle>::kKind);
  if (found == nullptr) fail_handle(handle, Behind<Handle>::kKind);
  return std::static_pointer_cast<typename Behind<Handle>::Object>(std::move(found));
}

}  // namespace tril::c
