#include "tril/tensor/shape.h"

#include "tril/base/error.h"

namespace tril {

Shape::Shape(std::initializer_list<int64_t> extents) {
  require(extents.size() <= kMaxRank, ErrorCode::invalid_argument, "shape: rank ", extents.size(),
          " is above ", kMaxRank);
  for (const int64_t extent : extents) {
    require(extent >= 0, ErrorCode::invalid_argument, "shape: negative extent ", extent);
    extents_[static_cast<size_t>(rank_++)] = extent;
    require(!__builtin_mul_overflow(size_, extent, &size_), ErrorCode::invalid_argument,
            "shape: more elements than 64 bits can count");
  }
}

int64_t Shape::rows() const {
  int64_t product = 1;
  for (int axis = 0; axis + 1 < rank_; ++axis) product *= (*this)[axis];
  return product;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int axis = 0; axis < shape.rank(); ++axis) {
    text += concat(axis == 0 ? "" : ", ", shape[axis]);
  }
  return text + "]";
}

}  // namespace tril
