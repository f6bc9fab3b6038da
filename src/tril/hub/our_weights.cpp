#include "tril/hub/our_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "tril/base/error.h"

namespace tril::hub {
namespace {

// Whether their elements are ours in the same order.
bool is_plain(const TheirTensor& tensor) {
  if (tensor.maps.size() != 1 || !tensor.data.empty()) return false;
  const TensorMap& map = *tensor.maps.front();
  return map.transform != Transform::transposed && map.first == 0 && map.total == 0 &&
         map.factor == 1.0f;
}

}  // namespace

OurWeights::OurWeights(const std::string& folder, std::vector<int64_t> features)
    : tensors_(folder), features_(std::move(features)) {
  tensors_.verify();
}

const Shape* OurWeights::shape_of(std::string_view parameter) const {
  const ForeignTensor* found = tensors_.find(parameter);
  return found == nullptr ? nullptr : &found->shape();
}

bool OurWeights::is_zero(const std::string& parameter) const {
  const ForeignTensor* found = tensors_.find(parameter);
  if (found == nullptr) return true;
  std::vector<float> values(static_cast<size_t>(found->size()));
  found->read(values);
  return std::all_of(values.begin(), values.end(), [](float x) { return x == 0.0f; });
}

std::vector<float> OurWeights::values_of(const TensorMap& map) const {
  const ForeignTensor& from = tensors_.get(map.ours);
  std::vector<float> values(static_cast<size_t>(from.size()));
  from.read(values);
  if (map.factor != 1.0f) {
    for (float& value : values) value *= map.factor;
  }
  const int axis = features_.empty() ? -1 : feature_axis(map.ours);
  if (axis < 0) return values;
  const int64_t features = std::ssize(features_);
  const int64_t columns = from.shape().rank() > 1 ? from.shape()[1] : 1;
  require(from.shape()[axis] == features, ErrorCode::internal, "hub: ", map.ours, " is ",
          from.shape(), " for ", features, " features");
  std::vector<float> moved(values.size());
  for (int64_t i = 0; i < from.size(); ++i) {
    const int64_t row = i / columns, column = i % columns;
    const int64_t at = axis == 0 ? features_[static_cast<size_t>(row)] * columns + column
                                 : row * columns + features_[static_cast<size_t>(column)];
    moved[static_cast<size_t>(i)] = values[static_cast<size_t>(at)];
  }
  return moved;
}

void OurWeights::convert(const TheirTensor& tensor, std::span<const float> values, char* bytes,
                         bool& rounded) const {
  write_elements(tensor.type, values, bytes);
  if (tensor.type == StoredType::f32 || tensor.type == StoredType::f64) return;
  std::vector<float> back(values.size());
  read_elements(tensor.type, bytes, back);
  for (size_t i = 0; i < values.size(); ++i) {
    require(std::isfinite(back[i]) || !std::isfinite(values[i]), ErrorCode::invalid_argument,
            Field{"type"}, "tensor '", tensor.name, "': ", values[i], " does not fit ",
            to_string(tensor.type));
    rounded = rounded || (back[i] != values[i] && !std::isnan(values[i]));
  }
}

std::string OurWeights::composed(const TheirTensor& tensor) const {
  const int64_t columns = tensor.shape.rank() > 1 ? tensor.shape[1] : 1;
  std::vector<float> all(static_cast<size_t>(tensor.shape.size()), 0.0f);
  for (const TensorMap* map : tensor.maps) {
    const Shape* shape = shape_of(map->ours);
    if (shape == nullptr) continue;
    require(shape_there(*map, *shape) == tensor.shape, ErrorCode::bad_format, tensors_.folder(),
            ": parameter '", map->ours, "' is ", *shape, ", but tensor '", tensor.name, "' ",
            tensor.shape);
    const std::vector<float> values = values_of(*map);
    if (map->transform == Transform::transposed) {
      const int64_t in = (*shape)[1];
      for (int64_t i = 0; i < std::ssize(values); ++i) {
        all[static_cast<size_t>((i % in) * columns + map->first + i / in)] =
            values[static_cast<size_t>(i)];
      }
    } else {
      std::copy(values.begin(), values.end(), all.begin() + map->first * columns);
    }
  }
  std::string bytes(all.size() * static_cast<size_t>(size_of(tensor.type)), '\0');
  bool rounded = false;
  convert(tensor, all, bytes.data(), rounded);
  if (rounded) ++rounded_;
  std::copy(tensor.data.begin(), tensor.data.end(), bytes.begin());
  return bytes;
}

StoredTensor OurWeights::stored(const TheirTensor& tensor) const {
  if (tensor.maps.empty()) {
    return {tensor.name, tensor.type, tensor.shape,
            [data = tensor.data](int64_t begin, std::span<char> memory) {
              std::memcpy(memory.data(), data.data() + begin, memory.size());
            }};
  }
  const ForeignTensor* from = tensors_.find(tensor.maps.front()->ours);
  if (is_plain(tensor) && from != nullptr && features_.empty()) {
    require(shape_there(*tensor.maps.front(), from->shape()) == tensor.shape, ErrorCode::bad_format,
            from->file(), ": parameter '", from->name(), "' is ", from->shape(), ", but tensor '",
            tensor.name, "' ", tensor.shape);
    return {tensor.name, tensor.type, tensor.shape,
            [this, tensor, from, rounded = false](int64_t begin, std::span<char> memory) mutable {
              const auto element = static_cast<size_t>(size_of(tensor.type));
              std::vector<float> values(memory.size() / element);
              from->read(values, begin / static_cast<int64_t>(element));
              const bool before = rounded;
              convert(tensor, values, memory.data(), rounded);
              if (rounded && !before) ++rounded_;
            }};
  }
  // The whole tensor, from its first block to its last.
  return {tensor.name, tensor.type, tensor.shape,
          [this, tensor, bytes = std::string()](int64_t begin, std::span<char> memory) mutable {
            if (begin == 0) bytes = composed(tensor);
            std::memcpy(memory.data(), bytes.data() + begin, memory.size());
            if (begin + std::ssize(memory) == std::ssize(bytes)) bytes = {};
          }};
}

int feature_axis(std::string_view parameter) {
  const bool bias = parameter.ends_with(".bias");
  const auto is_part = [&](std::string_view part) {
    return parameter.find(part) != parameter.npos;
  };
  if (is_part("_norm.") || parameter.starts_with("encoder.norm.") ||
      parameter.starts_with("decoder.norm.")) {
    return 0;
  }
  if (is_part("attention.output.") || is_part("feed_forward.out.")) return 0;
  return bias ? -1 : 1;
}

}  // namespace tril::hub
