#include "tril/hub/their_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "tril/base/error.h"
#include "tril/models/transformer.h"

namespace tril::hub {
namespace {

void require_finite(std::span<const float> values, const ForeignTensor& from) {
  require(std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); }),
          ErrorCode::bad_format, from.file(), ": tensor '", from.name(),
          "' holds numbers that are not finite");
}

// What a transposed parameter is gathered from: all of their tensor, while it is being read.
struct Gathered {
  std::vector<float> values;
};

}  // namespace

bool same_values(const ForeignTensor& a, const ForeignTensor& b) {
  if (a.same_elements(b)) return true;
  if (a.type() != b.type() || !(a.shape() == b.shape())) return false;
  constexpr int64_t kBlock = 1 << 20;
  const int64_t bytes = a.size() * size_of(a.type());
  std::vector<char> one, other;
  for (int64_t first = 0; first < bytes; first += kBlock) {
    const auto count = static_cast<size_t>(std::min(kBlock, bytes - first));
    one.resize(count);
    other.resize(count);
    a.read_bytes(one, first);
    b.read_bytes(other, first);
    if (one != other) return false;
  }
  return true;
}

TheirWeights::TheirWeights(const std::string& folder, const Family& family,
                           const TransformerConfig& ours)
    : tensors_(folder), family_(family), config_(ours) {
  family.settle(tensors_, config_);
  std::map<std::string, TensorMap> maps;
  for (TensorMap& map : family.tensors(config_)) {
    std::string name = map.ours;
    maps.emplace(std::move(name), std::move(map));
  }
  for (const auto& [name, shape] : Transformer::parameter_shapes(config_)) {
    const auto found = maps.find(name);
    require(found != maps.end(), ErrorCode::internal, "hub: ", family.name(),
            " has no tensor for '", name, "'");
    parameters_.push_back({name, shape, found->second, find(found->second, shape)});
  }
  check_surplus();
}

const ForeignTensor* TheirWeights::find(const TensorMap& map, const Shape& ours) const {
  const ForeignTensor* from = nullptr;
  for (const std::string& name : map.theirs) {
    const ForeignTensor* tensor = tensors_.find(name);
    if (tensor == nullptr) continue;
    if (from == nullptr) {
      from = tensor;
      continue;
    }
    require(same_values(*from, *tensor), ErrorCode::unsupported, tensor->file(), ": tensor '", name,
            "' differs from '", from->name(), "': tril has one matrix for both");
  }
  if (from == nullptr) {
    require(map.optional, ErrorCode::bad_format, tensors_.folder(), ": tensor '",
            map.theirs.front(), "' is missing");
    return nullptr;
  }
  const Shape expected = shape_there(map, ours);
  require(from->shape() == expected, ErrorCode::bad_format, from->file(), ": tensor '",
          from->name(), "' is ", from->shape(), ", config.json asks for ", expected);
  return from;
}

void TheirWeights::check_surplus() const {
  std::set<std::string_view> used;
  for (const Parameter& parameter : parameters_) {
    used.insert(parameter.map.theirs.begin(), parameter.map.theirs.end());
  }
  for (const ForeignTensor& tensor : tensors_.all()) {
    require(used.contains(tensor.name()) || family_.is_computed(tensor.name()),
            ErrorCode::unsupported, tensor.file(), ": tensor '", printable(tensor.name()),
            "' is not part of a model of family ", family_.name());
    check_computed(tensor);
  }
}

// A table that is computed instead of read must be the one that is stored, as its type rounds it.
void TheirWeights::check_computed(const ForeignTensor& tensor) const {
  const std::vector<float> right = family_.computed(tensor, config_);
  if (right.empty()) return;
  std::vector<float> stored(right.size());
  tensor.read(stored);
  const float unit = tensor.type() == StoredType::bf16  ? 0x1p-8f
                     : tensor.type() == StoredType::f16 ? 0x1p-11f
                                                        : 0x1p-22f;
  // Sines and cosines: a rounding, and the error of another library's in fp32.
  constexpr float kOfSines = 0x1p-21f;
  for (size_t i = 0; i < right.size(); ++i) {
    require(std::fabs(stored[i] - right[i]) <= unit * std::fabs(right[i]) + kOfSines,
            ErrorCode::unsupported, tensor.file(), ": tensor '", tensor.name(),
            "' is not the table of sines and cosines that tril computes");
  }
}

StoredTensor TheirWeights::stored(const Parameter& parameter) {
  const TensorMap& map = parameter.map;
  const ForeignTensor* from = parameter.from;
  const int64_t size = parameter.shape.size();
  const int64_t columns = parameter.shape.rank() > 1 ? parameter.shape[1] : 1;
  const auto gathered = std::make_shared<Gathered>();
  const auto fill = [=](int64_t begin, std::span<float> values) {
    if (from == nullptr) {
      std::fill(values.begin(), values.end(), 0.0f);
    } else if (map.transform != Transform::transposed) {
      from->read(values, map.first * columns + begin);
    } else {
      if (gathered->values.empty()) {
        gathered->values.resize(static_cast<size_t>(from->size()));
        from->read(gathered->values);
      }
      const int64_t total = from->shape()[1];
      for (int64_t i = 0; i < std::ssize(values); ++i) {
        const int64_t row = (begin + i) / columns, column = (begin + i) % columns;
        values[static_cast<size_t>(i)] =
            gathered->values[static_cast<size_t>(column * total + map.first + row)];
      }
      if (begin + std::ssize(values) == size) *gathered = {};
    }
    if (from != nullptr) require_finite(values, *from);
  };
  return {parameter.name, StoredType::f32, parameter.shape,
          [fill](int64_t begin, std::span<char> memory) {
            constexpr int64_t kFloat = sizeof(float);
            std::vector<float> values(memory.size() / kFloat);
            fill(begin / kFloat, values);
            std::memcpy(memory.data(), values.data(), memory.size());
          }};
}

std::vector<StoredTensor> TheirWeights::parameters() const {
  std::vector<StoredTensor> list;
  for (const Parameter& parameter : parameters_) list.push_back(stored(parameter));
  return list;
}

std::vector<std::string> TheirWeights::keep(Kept& kept) const {
  constexpr int64_t kMostKept = 64 << 20;
  std::map<std::string_view, int64_t> first_rows;  // by their names: rows that are not ours
  std::set<std::string_view> used;
  for (const Parameter& parameter : parameters_) {
    const bool from_later = parameter.map.transform == Transform::rows && parameter.map.total == 0;
    for (const std::string& name : parameter.map.theirs) {
      used.insert(name);
      if (from_later) first_rows[name] = parameter.map.first;
    }
  }
  kept.metadata = tensors_.metadata();
  std::map<std::string, size_t> files;
  std::vector<std::string> left_out;
  int64_t bytes_kept = 0;
  for (const ForeignTensor& tensor : tensors_.all()) {
    const std::string file = tensor.file().substr(tensor.file().rfind('/') + 1);
    const auto [at, is_new] = files.emplace(file, kept.weight_files.size());
    if (is_new) kept.weight_files.push_back(file);
    KeptTensor one{tensor.name(), tensor.type(), tensor.shape(), at->second};
    int64_t elements = used.contains(tensor.name()) ? 0 : tensor.size();
    if (const auto rows = first_rows.find(tensor.name()); rows != first_rows.end()) {
      elements = rows->second * (tensor.shape().rank() > 1 ? tensor.shape()[1] : 1);
    }
    const int64_t bytes = elements * size_of(tensor.type());
    if (bytes_kept + bytes > kMostKept || (!used.contains(tensor.name()) && elements == 0)) {
      left_out.push_back(tensor.name());
      continue;
    }
    if (bytes > 0) {
      std::string data(static_cast<size_t>(bytes), '\0');
      tensor.read_bytes(data);
      const size_t before = kept.data.size();
      one.data = kept.add_data(std::move(data));
      if (kept.data.size() > before) bytes_kept += bytes;
    }
    kept.tensors.push_back(std::move(one));
  }
  return left_out;
}

}  // namespace tril::hub
