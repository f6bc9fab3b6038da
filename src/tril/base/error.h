// Errors: one exception type with a code, and the two calls that raise it.
//
// The text names the operation, what was expected and what came:
//   fail(ErrorCode::shape_mismatch, "attention: queries have ", 8, " heads, keys ", 6);
// Where the caller could have chosen differently, the error also carries the field of the options
// to change. The text does not name a program's flag for it: the program adds that.
//   fail(ErrorCode::device, Field{"device"}, "cuda: there is no GPU");
// Parts are joined only when the error is raised, so a check on a hot path costs its condition.
// Kernels never throw: whoever calls them (ops/) has checked everything before.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tril {

enum class ErrorCode {
  invalid_argument,
  shape_mismatch,
  unsupported,
  io,
  bad_format,
  out_of_memory,
  device,
  cancelled,
  timed_out,
  internal,
};

std::string_view to_string(ErrorCode code);

// The option an error or a notice is about, by its name in the library ("schedule.peak"), a string
// literal; empty where there is none.
struct Field {
  const char* name = "";
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& text, Field field = {})
      : std::runtime_error(text), code_(code), field_(field) {}
  ErrorCode code() const { return code_; }
  std::string_view field() const { return field_.name; }

 private:
  ErrorCode code_;
  Field field_;
};

// Something the user should know although nothing failed: a line, and the field of the options to
// change where there is one.
struct Notice {
  Notice(std::string line) : text(std::move(line)) {}  // NOLINT: a text is a notice
  Notice(const char* line) : text(line) {}             // NOLINT
  Notice(Field about, std::string line) : text(std::move(line)), field(about.name) {}

  std::string text;
  std::string_view field{};
};

namespace detail {
void append(std::string& text, std::string_view part);
void append(std::string& text, int64_t part);
void append(std::string& text, uint64_t part);
void append(std::string& text, double part);  // shortest form that reads back as the same number

template <class Part>
void append_any(std::string& text, const Part& part) {
  if constexpr (std::is_convertible_v<const Part&, std::string_view>) {
    append(text, std::string_view(part));
  } else if constexpr (std::is_same_v<Part, char>) {
    append(text, std::string_view(&part, 1));
  } else if constexpr (std::is_floating_point_v<Part>) {
    append(text, static_cast<double>(part));
  } else if constexpr (!std::is_arithmetic_v<Part>) {
    append(text, to_string(part));  // found by argument-dependent lookup: Shape, DType, ...
  } else if constexpr (std::is_signed_v<Part>) {
    append(text, static_cast<int64_t>(part));
  } else {
    append(text, static_cast<uint64_t>(part));
  }
}
}  // namespace detail

// Joins text and numbers into one string.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string text;
  (detail::append_any(text, parts), ...);
  return text;
}

template <class... Parts>
[[noreturn]] void fail(ErrorCode code, const Parts&... parts) {
  throw Error(code, concat(parts...));
}
template <class... Parts>
[[noreturn]] void fail(ErrorCode code, Field field, const Parts&... parts) {
  throw Error(code, concat(parts...), field);
}

// Raises an Error unless `holds`; the parts may begin with a Field.
template <class... Parts>
void require(bool holds, ErrorCode code, const Parts&... parts) {
  if (!holds) [[unlikely]]
    fail(code, parts...);
}

}  // namespace tril
