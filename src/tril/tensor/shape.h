// The extents of a tensor, outermost first; at most four, held inline. Product checked on creation.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace tril {

class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  // Raises `invalid_argument` for a negative extent, a rank above four or a product past int64.
  Shape(std::initializer_list<int64_t> extents);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return extents_[static_cast<size_t>(axis)]; }
  int64_t size() const { return size_; }
  // The last extent, and the product of all before it: how kernels see a tensor.
  int64_t columns() const { return rank_ == 0 ? 1 : (*this)[rank_ - 1]; }
  int64_t rows() const;

  bool operator==(const Shape&) const = default;

 private:
  std::array<int64_t, kMaxRank> extents_{};
  int rank_ = 0;
  int64_t size_ = 1;
};

std::string to_string(const Shape& shape);  // "[3, 512]"

}  // namespace tril
