// Shared by fuzz targets: a check that ends the run, and, for what is read from a path, a folder in
// memory, made once per process and removed at its end. One thread.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace tril::fuzz {

inline void check(bool holds) {
  if (!holds) std::abort();
}

// In /dev/shm, where nothing waits for a disk; where there is none, in TMPDIR.
class Scratch {
 public:
  Scratch() {
    for (const std::string& place :
         {std::string("/dev/shm"), std::filesystem::temp_directory_path().string()}) {
      path_ = place + "/tril_fuzz_XXXXXX";
      if (::mkdtemp(path_.data()) != nullptr) return;
    }
    std::abort();
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline const std::string& scratch() {
  static const Scratch folder;
  return folder.path();
}

// Makes the file `name` hold these bytes, and returns its path.
inline std::string put(std::string_view name, std::string_view bytes) {
  std::string path = scratch() + "/";
  path += name;
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  check(file >= 0);
  for (; !bytes.empty();) {
    const ssize_t wrote = ::write(file, bytes.data(), bytes.size());
    check(wrote > 0);
    bytes.remove_prefix(static_cast<size_t>(wrote));
  }
  ::close(file);
  return path;
}

inline std::string_view view(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace tril::fuzz
