// Files, read and replaced whole. Every failure is an Error of code `io` that names the path and
// the system's reason.
//
// A file written here is either the old one or the whole new one, whatever happens in between: the
// contents go into a temporary file beside the target (`NAME.PID.N.tmp`), which takes the target's
// name only when it is complete and on the disk. An object belongs to one thread at a time; two
// threads or processes that write one path at once leave one of the two files whole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tril {

// An open file, read from the front.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  // What the system says it holds now; 0 for what has no size, such as a pipe.
  int64_t size() const;
  // Up to `bytes` bytes into `memory`; fewer only at the end of the file. Returns how many.
  int64_t read(void* memory, int64_t bytes);
  int descriptor() const { return descriptor_; }

 private:
  std::string path_;
  int descriptor_;
};

// The whole file, which may be a pipe. Raises when it holds more than `max_bytes`.
std::string read_file(const std::string& path, int64_t max_bytes);

// A new file in the place of `path`, or of what the symbolic link `path` points to. A replaced file
// hands its permissions on. Nothing but a regular file is ever replaced.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  // Without commit() nothing has happened: the temporary file is removed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // When a call raises (a full disk), the temporary file is gone and the old file is whole; write()
  // and commit() after that, or after commit(), are errors.
  void write(std::string_view bytes);
  // Flushes to the disk, renames over the target, flushes the folder.
  void commit();

 private:
  [[noreturn]] void give_up(std::string_view doing);
  void discard();

  std::string path_;    // as given, for errors
  std::string target_;  // links followed
  std::string temporary_;
  int descriptor_ = -1;
};

// Removes the temporary files that processes which are no more left in a folder.
void remove_abandoned(const std::string& folder);

void write_file_atomically(const std::string& path, std::string_view contents);

}  // namespace tril
