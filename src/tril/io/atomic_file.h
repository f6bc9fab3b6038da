// Files, read and replaced whole. Every failure is an Error of code `io` that names the path and
// the system's reason.
//
// A file written here is either the old one or the whole new one, whatever happens in between: the
// contents go into a temporary file beside the target (`NAME.PID.N.tmp`), which takes the target's
// name only when it is complete and on the disk. The writer holds a lock on it meanwhile, so that
// what a killed process left behind is known, and the next writer of that file removes it.
// An object belongs to one thread at a time; two threads or processes that write one path at once
// leave one of the two files whole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tril {

// FOLDER/NAME.
std::string path_in(const std::string& folder, std::string_view name);
// Whether anything is there, a dangling link included. Raises where the system does not say: a disk
// that cannot be read is no reason to go on without the file.
bool file_exists(const std::string& path);
// Of what the path leads to. Raises where there is nothing.
int64_t file_bytes(const std::string& path);

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
  // The same from `offset` on, of a file that is no pipe; any number of threads may call it at
  // once.
  int64_t read_at(int64_t offset, void* memory, int64_t bytes) const;
  int descriptor() const { return descriptor_; }

 private:
  std::string path_;
  int descriptor_;
};

// Raises `io` unless `path` is a regular file, links followed: opening a pipe would wait for
// whoever writes to it.
void require_regular(const std::string& path);

// The whole file, which may be a pipe. Raises when it holds more than `max_bytes`.
std::string read_file(const std::string& path, int64_t max_bytes);

// What becomes of a symbolic link in the target's place: the file it leads to is replaced, as when
// writing to it; or the link itself, so that nothing outside the target's folder is touched.
enum class Links { follow, replace };

// A new file in the place of `path`. A replaced file hands its permissions on. Nothing but a
// regular file (or a link, as above) is ever replaced.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path, Links links = Links::follow);
  // Without commit() nothing has happened: the temporary file is removed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  const std::string& path() const { return path_; }

  // When a call raises (a full disk), the temporary file is gone and the old file is whole (the new
  // one where only the folder could not be flushed); any call after that, or after commit(), is an
  // error.
  void write(std::string_view bytes);
  // Bytes in the place of as many that were written before, from `offset` on.
  void rewrite(int64_t offset, std::string_view bytes);
  // Flushes to the disk, renames over the target, flushes the folder.
  void commit();

  // commit() in its parts, for files that change together (io/folder_update.h).
  void flush();
  void take_name();

 private:
  void check_open(std::string_view doing) const;
  [[noreturn]] void give_up(std::string_view doing);
  void discard();

  std::string path_;    // as given, for errors
  std::string target_;  // links followed, where they are
  std::string temporary_;
  int descriptor_ = -1;
};

// Makes what was created, renamed or removed in a folder last.
void flush_folder(const std::string& folder);
// Creates a folder and those above it that are missing, and flushes where each was made.
void make_folders(const std::string& folder);

// Removes the temporary files that processes which are no more left in a folder; with `name` those
// of this file alone.
void remove_abandoned(const std::string& folder, std::string_view name = {});

void write_file_atomically(const std::string& path, std::string_view contents,
                           Links links = Links::follow);

}  // namespace tril
