// Spool: bytes that are written once from front to back and then read anywhere: in memory while
// they are few, in an unnamed file when they are many.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tril {

class Spool {
 public:
  // Past `memory_bytes` everything moves to an unnamed file in `folder`, which disappears with the
  // process however it ends.
  Spool(std::string folder, int64_t memory_bytes);
  ~Spool();
  Spool(Spool&& other) noexcept;
  Spool& operator=(Spool&& other) noexcept;

  void append(std::string_view bytes);
  // Ends the writing: from now on view() may be called.
  void finish();
  std::string_view view(int64_t begin, int64_t end) const {
    return {data_ + begin, static_cast<size_t>(end - begin)};
  }
  int64_t size() const { return size_; }
  bool on_disk() const { return descriptor_ >= 0; }

 private:
  void flush();

  std::string folder_;
  int64_t memory_bytes_;
  std::string buffer_;  // everything, or the part not yet in the file
  int descriptor_ = -1;
  const char* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace tril
