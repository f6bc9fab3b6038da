#include "tril/serve/api_error.h"

namespace tril::serve {

ApiError api_error_of(const Error& error) {
  const std::string field(error.field());
  switch (error.code()) {
    case ErrorCode::invalid_argument:
    case ErrorCode::unsupported: return {400, "invalid_request", error.what(), field};
    case ErrorCode::bad_format: return {422, "unprocessable", error.what(), field};
    case ErrorCode::timed_out:
      return {504, "deadline", "not done within the time that the server or the request allows",
              "timeout"};
    case ErrorCode::cancelled: return unavailable("cancelled", "the request was cancelled");
    case ErrorCode::out_of_memory:
      return unavailable("overloaded", "the server is out of memory: try again later",
                         std::chrono::seconds(5));
    default: return {500, "internal", error.what()};
  }
}

}  // namespace tril::serve
