#include "tril/base/error.h"

#include <array>
#include <charconv>

namespace tril {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid argument";
    case ErrorCode::shape_mismatch: return "shape mismatch";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::io: return "input/output";
    case ErrorCode::bad_format: return "bad format";
    case ErrorCode::out_of_memory: return "out of memory";
    case ErrorCode::device: return "device";
    case ErrorCode::cancelled: return "cancelled";
    case ErrorCode::timed_out: return "timed out";
    case ErrorCode::internal: return "internal";
  }
  return "unknown";
}

namespace detail {
namespace {
template <class Number>
void append_number(std::string& text, Number part) {
  std::array<char, 64> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), part);
  text.append(buffer.data(), result.ptr);
}
}  // namespace

void append(std::string& text, std::string_view part) { text.append(part); }
void append(std::string& text, int64_t part) { append_number(text, part); }
void append(std::string& text, uint64_t part) { append_number(text, part); }
void append(std::string& text, double part) { append_number(text, part); }
}  // namespace detail

}  // namespace tril
