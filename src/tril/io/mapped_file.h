// MappedFile: a whole file, mapped read-only. Its pages are read as they are accessed, and shared
// with every process that maps the file too. Replacing the file by its name does not affect it.
//
// If the file is cut short or its disk fails while it is mapped, that is not an Error: accessing
// the missing part raises SIGBUS. The library installs no signal handler; a program that wants to
// end with a message instead calls path_at() in a handler of its own, or loads without a map.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tril {

class InputFile;  // io/atomic_file.h

class MappedFile {
 public:
  // Raises `io`, naming the path and the system's reason.
  explicit MappedFile(const std::string& path);
  // Maps a file that is already open, whatever its name refers to by now.
  explicit MappedFile(const InputFile& file);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {static_cast<const char*>(memory_), size_}; }

  // Says that `part` of bytes() is not needed for now, so that it no longer counts as memory of
  // this process. It stays valid: accessing it again reads it again.
  void release(std::string_view part) const noexcept;

  // The path, as given, of the file that is mapped at `address`; nullptr where there is none. May
  // be called in a signal handler: it only reads atomic variables. The text lives as long as the
  // mapping. Of more than some hundred mappings at once, the later ones are not found.
  static const char* path_at(const void* address) noexcept;

 private:
  const std::string path_;
  const void* memory_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tril
