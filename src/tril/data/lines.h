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

  // Skips the lines that begin before this byte of the text, counting them: much faster than
  // reading them. To be called between two lines.
  void skip_to(int64_t byte);

  const std::string& path() const;
  int64_t number() const;  // of the last line read or skipped, from 1
  int64_t offset() const;  // bytes of text read so far: where the next line begins
  int64_t max_line_bytes() const;
  bool too_long() const;  // whether that line passed the limit; next() returned its beginning

 private:
  friend int64_t text_bytes(const std::string& path);
  struct State;
  explicit LineReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The bytes of a file's text: its size, or what a gzip file unpacks to, which is then read whole.
// Raises `io` for anything but a regular file.
int64_t text_bytes(const std::string& path);

}  // namespace tril
