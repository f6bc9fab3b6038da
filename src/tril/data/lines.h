// LineReader: the lines of a text file, plain or gzip, one at a time.
//
// A line ends with LF, or CR LF as other systems write it; the last line may lack its end. A byte
// order mark before the first line is not part of it. No line, however long, takes more memory than
// the limit: the rest of a longer one is read and counted, and it is marked as too long. Errors are
// `io` and name the file; a gzip file that is cut short is one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace tril {

class LineReader {
 public:
  explicit LineReader(const std::string& path, int64_t max_line_bytes = 1 << 20);
  ~LineReader();
  LineReader(LineReader&&) noexcept;
  LineReader& operator=(LineReader&&) noexcept;

  // The next line without its end; false when there is none.
  bool next(std::string& line);

  const std::string& path() const;
  int64_t number() const;  // of the line last read, from 1
  bool too_long() const;   // whether that line passed the limit; what next() gave is its beginning

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tril
