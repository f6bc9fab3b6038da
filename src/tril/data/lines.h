// LineReader: the lines of a text file or of stdin, plain or gzip, one at a time.
//
// A line, for all of tril, ends with LF, or CR LF as other systems write it; the last line may lack
// its end. A byte order mark before the first line is not part of it. Text that begins as gzip does
// is unpacked, whatever its name.
// No line, however long, takes more memory than the limit: the rest of a longer one is skipped, and
// the line is marked as too long.
// Errors are `io` and name the file; a gzip file that is damaged or cut short is one. They are
// raised when a line is requested that cannot be read: all complete lines before it have been
// returned.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace tril {

class LineReader {
 public:
  static constexpr int64_t kMaxLineBytes = 1 << 20;
  enum class Wait { yes, no };

  explicit LineReader(const std::string& path, int64_t max_line_bytes = kMaxLineBytes);
  // Called "stdin" in errors. Only one at a time, because it reads ahead.
  static LineReader standard_input(int64_t max_line_bytes = kMaxLineBytes);
  ~LineReader();
  LineReader(LineReader&&) noexcept;
  LineReader& operator=(LineReader&&) noexcept;

  // The next line without its end. False: there is none; or, when not waiting, no complete one has
  // arrived yet from a pipe or a terminal.
  bool next(std::string& line, Wait wait = Wait::yes);

  const std::string& path() const;
  int64_t number() const;  // of the last line read, from 1
  int64_t max_line_bytes() const;
  bool too_long() const;  // whether that line passed the limit; next() returned its beginning

 private:
  struct State;
  explicit LineReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tril
