#include "tril/c/calls.h"

#include <array>
#include <cstring>

#include "tril/base/caught.h"
#include "tril/c/handles.h"

namespace tril::c {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 30;  // of a text

int code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return TRIL_INVALID_ARGUMENT;
    case ErrorCode::unsupported: return TRIL_UNSUPPORTED;
    case ErrorCode::io: return TRIL_IO;
    case ErrorCode::bad_format: return TRIL_BAD_FORMAT;
    case ErrorCode::out_of_memory: return TRIL_OUT_OF_MEMORY;
    case ErrorCode::device: return TRIL_DEVICE;
    case ErrorCode::cancelled: return TRIL_CANCELLED;
    case ErrorCode::timed_out: return TRIL_TIMED_OUT;
    case ErrorCode::shape_mismatch:
    case ErrorCode::internal: return TRIL_INTERNAL;
  }
  return TRIL_INTERNAL;
}

// The messages of a thread's failures, by handle.
class Messages {
 public:
  void keep(const void* handle, std::string text) noexcept {
    Entry* entry = find(handle);
    if (entry == nullptr) {
      entry = &entries_[oldest_];
      oldest_ = (oldest_ + 1) % entries_.size();
    }
    entry->handle = handle;
    entry->text = std::move(text);
    last_ = std::move(entry->text);
    entry->text.clear();
    is_lost_ = false;
    try {
      entry->text = last_;
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): tril_errmsg(NULL) has it
    }
  }
  // There was no memory for it.
  void lose() noexcept { is_lost_ = true; }
  const char* about(const void* handle) noexcept {
    if (is_lost_) return "out of memory";
    if (handle == nullptr) return last_.c_str();
    const Entry* entry = find(handle);
    return entry == nullptr ? "" : entry->text.c_str();
  }

 private:
  struct Entry {
    const void* handle = nullptr;
    std::string text;
  };
  Entry* find(const void* handle) noexcept {
    for (Entry& entry : entries_) {
      if (handle != nullptr && entry.handle == handle) return &entry;
    }
    return nullptr;
  }

  std::array<Entry, 8> entries_;
  size_t oldest_ = 0;
  std::string last_;
  bool is_lost_ = false;
};

thread_local Messages messages;
thread_local int callbacks = 0;  // that run on this thread, one within another

int keep(int code, const char* operation, const void* handle, const char* text) noexcept {
  try {
    messages.keep(handle, concat(operation, ": ", text));
  } catch (const std::exception&) {
    messages.lose();
  }
  return code;
}

}  // namespace

int failed(const char* operation, const void* handle, const std::exception& failure) noexcept {
  if (dynamic_cast<const Misuse*>(&failure) != nullptr) {
    return keep(TRIL_MISUSE, operation, handle, failure.what());
  }
  const Error error = error_of(failure);
  return keep(code_of(error.code()), operation, handle, error.what());
}

int failed_unknown(const char* operation, const void* handle) noexcept {
  return keep(TRIL_INTERNAL, operation, handle, "an exception of an unknown type");
}

const char* message_about(const void* handle) noexcept { return messages.about(handle); }

InCallback::InCallback() { ++callbacks; }
InCallback::~InCallback() { --callbacks; }

void require_may_wait() {
  require_use(callbacks == 0, "a callback may not wait: make this call on a thread of your own");
}

std::string_view text_of(std::string_view what, const char* text, int64_t length) {
  require_use(length >= -1, "the length of ", what, " is ", length);
  require_use(length <= kMostBytes, "the length of ", what, " is ", length, ", and ", kMostBytes,
              " is the most");
  require_use(text != nullptr || length == 0, what, " is NULL");
  if (text == nullptr) return {};
  return length < 0 ? std::string_view(text) : std::string_view(text, static_cast<size_t>(length));
}

std::string_view name_of(std::string_view what, const char* text) {
  return text_of(what, text, -1);
}

}  // namespace tril::c

// tril_errmsg() and tril_errstr() cannot fail.
const char* tril_errmsg(const void* handle) { return tril::c::message_about(handle); }

const char* tril_errstr(int code) {
  switch (code) {
    case TRIL_OK: return "no error";
    case TRIL_MISUSE: return "misuse";
    case TRIL_INVALID_ARGUMENT: return "invalid argument";
    case TRIL_UNSUPPORTED: return "unsupported";
    case TRIL_IO: return "input/output";
    case TRIL_BAD_FORMAT: return "bad format";
    case TRIL_OUT_OF_MEMORY: return "out of memory";
    case TRIL_DEVICE: return "device";
    case TRIL_CANCELLED: return "cancelled";
    case TRIL_TIMED_OUT: return "timed out";
    case TRIL_INTERNAL: return "internal";
    default: return "unknown";
  }
}

int64_t tril_open_handles(void) {
  int64_t handles = 0;
  tril::c::call("tril_open_handles", nullptr, [&] { handles = tril::c::open_handles(); });
  return handles;
}
