// ApiError: why a request is refused, before each API puts it into its own words.
#pragma once

#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tril/base/error.h"

namespace tril::serve {

struct ApiError : std::exception {
  ApiError(int with_status, std::string with_code, std::string text, std::string about = {})
      : status(with_status),
        code(std::move(with_code)),
        message(std::move(text)),
        field(std::move(about)) {}
  const char* what() const noexcept override { return message.c_str(); }

  int status;           // of HTTP
  std::string code;     // one word for programs: "invalid_request"
  std::string message;  // one line for people
  std::string field;    // of the request that is to blame; empty: none
  std::optional<std::chrono::seconds> retry_after{};
};

[[noreturn]] inline void refuse(std::string field, std::string message) {
  throw ApiError(400, "invalid_request", std::move(message), std::move(field));
}

// 503: the same request may be answered later.
inline ApiError unavailable(std::string code, std::string message,
                            std::chrono::seconds retry_after = std::chrono::seconds(1)) {
  ApiError error(503, std::move(code), std::move(message));
  error.retry_after = retry_after;
  return error;
}

// What the library raised, as an error of the API.
ApiError api_error_of(const Error& error);

}  // namespace tril::serve
