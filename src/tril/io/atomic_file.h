// Files, read and replaced whole. Every failure is an Error of code `io` that names the path and
// the system's reason.
//
// Whatever happens in between, a file written here is either the old one or the complete new one:
// the contents go into a temporary file beside the target (`NAME.PID.N.tmp`), which takes the
// target's name only when it is complete and on disk. The writer holds a lock on it meanwhile, so
// that a file left behind by a killed process can be recognised; the next writer of that file
// removes it.
// An object belongs to one thread at a time; if two threads or processes write one path at once,
// one of the two files results, complete.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tril {

// FOLDER/NAME.
std::string path_in(const std::string& folder, std::string_view name);
// Whether anything is there, including a dangling link. Raises where the system cannot tell: a disk
// that cannot be read is no reason to go on without the file.
bool file_exists(const std::string& path);
// The size of the file that the path leads to. Raises where there is none.
int64_t file_bytes(const std::string& path);

// An open file, read from the front.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  // The current size according to the system; 0 for what has no size, such as a pipe.
  int64_t size() const;
  // Up to `bytes` bytes into `memory`; fewer only at the end of the file. Returns how many.
  int64_t read(void* memory, int64_t bytes);
  // The same from `offset` on, for a file that is not a pipe; any number of threads may call it at
  // once.
  int64_t read_at(int64_t offset, void* memory, int64_t bytes) const;
  int descriptor() const { return descriptor_; }

 private:
  std::string path_;
  int descriptor_;
};

// Raises `io` unless `path`, links followed, is a regular file: opening a pipe would wait for its
// writer.
void require_regular(const std::string& path);

// The whole file, which may be a pipe. Raises when it holds more than `max_bytes`.
std::string read_file(const std::string& path, int64_t max_bytes);

// If the target is a symbolic link: replace the file it leads to, as writing to it would; or
// replace the link itself, so that nothing outside the target's folder is touched.
enum class Links { follow, replace };

// A new file in place of `path`. It takes over the permissions of the file it replaces. Only a
// regular file (or a link, as above) is ever replaced.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path, Links links = Links::follow);
  // Without commit() nothing changes: the temporary file is removed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  const std::string& path() const { return path_; }

  // When a call raises (a full disk), the temporary file is gone and the old file is intact (or the
  // new one, if only the folder could not be flushed); any call after that, or after commit(), is
  // an error.
  void write(std::string_view bytes);
  // Overwrites bytes that were written before, from `offset` on.
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
  std::string target_;  // with links resolved, if they are followed
  std::string temporary_;
  int descriptor_ = -1;
};

// Makes what was created, renamed or removed in a folder durable.
void flush_folder(const std::string& folder);
// Creates a folder and its missing parents, and flushes the folder each was made in.
void make_folders(const std::string& folder);

// Removes temporary files left in a folder by processes that no longer exist; with `name`, only
// those of this file.
void remove_abandoned(const std::string& folder, std::string_view name = {});

void write_file_atomically(const std::string& path, std::string_view contents,
                           Links links = Links::follow);

}  // namespace tril
