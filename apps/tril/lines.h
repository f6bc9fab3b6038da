// Lines in, lines out: shared by the commands that use LineReader.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "tril/data/lines.h"
#include "tril/tril.h"

namespace tril::app {

// A file, or stdin for "-".
LineReader open_lines(const std::string& path);

// Why the last line read cannot be used, for a request's `fault`; empty: it can. `what` says what
// the line is: "the line".
std::string fault_of(const LineReader& lines, std::string_view what);

// Postpones read errors until the lines before them are answered.
class LateError {
 public:
  // The result of `read`; nothing when it raises, and from then on.
  template <class F>
  auto hold(const F& read) -> decltype(read()) {
    if (error_) return std::nullopt;
    try {
      return read();
    } catch (...) {
      error_ = std::current_exception();
      return std::nullopt;
    }
  }
  void raise() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::exception_ptr error_;
};

// stdout, flushed after each line so that a reader sees it as soon as it is ready.
class LineWriter {
 public:
  // False when nobody reads any more (a closed pipe): time to end, quietly. Raises `io` for
  // anything else.
  bool write(std::string_view text);
};

}  // namespace tril::app
