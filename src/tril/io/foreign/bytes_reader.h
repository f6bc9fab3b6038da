// BytesReader: numbers from the front of untrusted bytes, little-endian, each checked against what
// is left. Internal to io/.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "tril/base/error.h"

namespace tril::foreign {

class BytesReader {
 public:
  // `where` is the beginning of every error.
  BytesReader(std::string_view bytes, std::string where) : all_(bytes), where_(std::move(where)) {}

  int64_t position() const { return position_; }
  int64_t left() const { return std::ssize(all_) - position_; }
  const std::string& where() const { return where_; }

  template <class T>
  T number() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view take(uint64_t bytes) {
    require(bytes <= static_cast<uint64_t>(left()), ErrorCode::bad_format, where_,
            ": truncated: ", bytes, " bytes expected at offset ", position_, ", ", left(),
            " are left");
    const std::string_view taken =
        all_.substr(static_cast<size_t>(position_), static_cast<size_t>(bytes));
    position_ += std::ssize(taken);
    return taken;
  }
  // Up to the next `end`, which is taken too.
  std::string_view take_until(char end) {
    const std::string_view rest = all_.substr(static_cast<size_t>(position_));
    const size_t length = rest.find(end);
    require(length != rest.npos, ErrorCode::bad_format, where_,
            ": truncated: a text that begins at offset ", position_, " does not end");
    position_ += static_cast<int64_t>(length) + 1;
    return rest.substr(0, length);
  }

 private:
  std::string_view all_;
  std::string where_;
  int64_t position_ = 0;
};

}  // namespace tril::foreign
