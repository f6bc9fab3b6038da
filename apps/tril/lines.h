// Lines in, lines out: files and pipes, without ever holding more than a line and a buffer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tril::app {

enum class Wait { yes, no };

// The lines of a file, or of stdin for "-". A last line needs no end; what stands before a line's
// end is the line, byte for byte. Raises `io`, and `invalid_argument` for a line of more than 16
// MiB.
class LineReader {
 public:
  explicit LineReader(const std::string& path);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // The next line. Nothing: the end; or, when not to wait, that no whole line has come yet.
  std::optional<std::string> next(Wait wait = Wait::yes);

  const std::string& name() const { return name_; }
  int64_t lines() const { return lines_; }  // handed out so far
  bool is_terminal() const;

 private:
  bool fill(Wait wait);  // false: nothing came

  std::string name_;
  int descriptor_;
  bool ended_ = false;
  std::string buffer_;
  size_t begin_ = 0;    // of the next line
  size_t scanned_ = 0;  // no end of a line before it
  int64_t lines_ = 0;
};

// stdout, written at once so that a reader sees each line as it is ready.
class LineWriter {
 public:
  LineWriter();
  // False when nobody reads any more (a closed pipe): time to end, quietly. Raises `io` for
  // anything else.
  bool write(std::string_view text);
};

}  // namespace tril::app
