// MappedFile: a whole file as the system maps it, read-only. It is read as it is looked at, and
// shared with every process that maps it too. What replaces the file by its name does not touch it.
//
// A file that is cut short, or whose disk fails, while it is mapped is no Error: whoever looks at
// the missing part gets SIGBUS. The library installs no signal handler; a program that wants to
// end with a message instead asks path_at() in one of its own, or loads without a map.
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
  // Of a file that is open already: the very one, whatever its name stands for by now.
  explicit MappedFile(const InputFile& file);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {static_cast<const char*>(memory_), size_}; }

  // The path, as it was given, of a file that is mapped at `address`; nullptr where none is. May be
  // called in a signal handler: it reads atomic variables alone. The text lives as long as the
  // mapping. Of more than some hundred mappings at once, the later ones are not found.
  static const char* path_at(const void* address) noexcept;

 private:
  const std::string path_;
  const void* memory_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tril
