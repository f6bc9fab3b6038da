#include "tril/io/foreign/tensor_place.h"

#include <algorithm>
#include <cstring>

namespace tril::foreign {

std::array<int64_t, Shape::kMaxRank> dense_strides(const Shape& shape) {
  std::array<int64_t, Shape::kMaxRank> strides{};
  // An extent of 0 counts as 1, as in PyTorch: then there are no elements, whatever the strides.
  int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0 && shape.size() > 0; --axis) {
    strides[static_cast<size_t>(axis)] = stride;
    stride *= shape[axis];
  }
  return strides;
}

bool is_dense(const TensorPlace& place) {
  const auto strides = dense_strides(place.shape);
  for (int axis = 0; axis < place.shape.rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    // The stride of an axis with one index is never used.
    if (place.shape[axis] > 1 && place.strides[i] != strides[i]) return false;
  }
  return true;
}

std::string_view extent_of(std::string_view file, const TensorPlace& place) {
  if (place.shape.size() == 0) return {};
  int64_t last = 0;
  for (int axis = 0; axis < place.shape.rank(); ++axis) {
    last += (place.shape[axis] - 1) * place.strides[static_cast<size_t>(axis)];
  }
  return file.substr(static_cast<size_t>(place.begin),
                     static_cast<size_t>((last + 1) * size_of(place.type)));
}

void copy_elements(std::string_view file, const TensorPlace& place, int64_t first,
                   std::span<char> memory) {
  if (memory.empty()) return;
  const char* base = file.data() + place.begin;
  const int64_t element = size_of(place.type);
  if (is_dense(place)) {
    std::memcpy(memory.data(), base + first * element, memory.size());
    return;
  }
  const int rank = place.shape.rank();
  std::array<int64_t, Shape::kMaxRank> index{};
  for (int axis = rank - 1; axis >= 0; --axis) {
    index[static_cast<size_t>(axis)] = first % place.shape[axis];
    first /= place.shape[axis];
  }
  const auto last = static_cast<size_t>(rank - 1);
  for (char* to = memory.data(); to < memory.data() + memory.size();) {
    int64_t at = 0;
    for (size_t axis = 0; axis <= last; ++axis) at += index[axis] * place.strides[axis];
    const int64_t left = (memory.data() + memory.size() - to) / element;
    const int64_t run = std::min(place.shape[rank - 1] - index[last], left);
    for (int64_t i = 0; i < run; ++i, to += element) {
      std::memcpy(to, base + (at + i * place.strides[last]) * element,
                  static_cast<size_t>(element));
    }
    index[last] += run;
    for (size_t axis = last; axis > 0 && index[axis] == place.shape[static_cast<int>(axis)];
         --axis) {
      index[axis] = 0;
      ++index[axis - 1];
    }
  }
}

}  // namespace tril::foreign
