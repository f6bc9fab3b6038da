// Where the elements of a tensor lie in the bytes of a file. Internal to io/: what the readers of
// the file formats return, after they have checked it against the file.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tril/io/stored_type.h"
#include "tril/tensor/shape.h"

namespace tril::foreign {

struct TensorPlace {
  std::string name;
  StoredType type = StoredType::f32;
  Shape shape{};
  int64_t begin = 0;  // offset of the first element in the file
  // From one index of an axis to the next, in elements, from 0 on; for a transposed view they are
  // not those of a row-major tensor.
  std::array<int64_t, Shape::kMaxRank> strides{};

  int64_t bytes() const { return shape.size() * size_of(type); }
};

// The strides of a row-major tensor.
std::array<int64_t, Shape::kMaxRank> dense_strides(const Shape& shape);
// Whether the elements lie one after the other in row-major order.
bool is_dense(const TensorPlace& place);
// The bytes from the first element to the last of the tensor; empty if it has none.
std::string_view extent_of(std::string_view file, const TensorPlace& place);

// Fills `memory` with elements in row-major order, from element `first` on. It has a multiple of
// the type's size, and not more than is left.
void copy_elements(std::string_view file, const TensorPlace& place, int64_t first,
                   std::span<char> memory);

}  // namespace tril::foreign
