#include "tril/io/foreign/foreign_tensors.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "tril/base/error.h"
#include "tril/io/atomic_file.h"
#include "tril/io/foreign/safetensors_places.h"
#include "tril/io/foreign/shard_index.h"
#include "tril/io/foreign/tensor_place.h"
#include "tril/io/foreign/torch_file.h"
#include "tril/io/json.h"
#include "tril/io/mapped_file.h"

namespace tril {

using foreign::TensorPlace;

// A mapped file with the places of its tensors, sorted by name.
struct ForeignTensor::File {
  explicit File(const std::string& file_path) : path(file_path), mapped(open(file_path)) {}

  static InputFile open(const std::string& path) {
    require_regular(path);
    return InputFile(path);
  }

  std::string path;
  MappedFile mapped;
  std::vector<TensorPlace> places{};
};

namespace {

constexpr std::string_view kSafetensors = ".safetensors";
constexpr std::string_view kBin = ".bin";
constexpr std::string_view kIndex = ".index.json";
// In the order of preference.
constexpr std::array<std::string_view, 4> kLookedFor = {
    "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
    "pytorch_model.bin.index.json"};

// So much is converted at a time.
constexpr int64_t kPiece = int64_t{1} << 20;

}  // namespace

const TensorPlace& ForeignTensor::place() const { return file_->places[place_]; }
const std::string& ForeignTensor::name() const { return place().name; }
StoredType ForeignTensor::type() const { return place().type; }
const Shape& ForeignTensor::shape() const { return place().shape; }
const std::string& ForeignTensor::file() const { return file_->path; }

void ForeignTensor::check_range(int64_t first, int64_t count) const {
  require(first >= 0 && count <= size() && first <= size() - count, ErrorCode::invalid_argument,
          file(), ": ", name(), ": elements from ", first, " to ", first + count, " of ", size());
}

void ForeignTensor::read(std::span<float> values, int64_t first) const {
  check_range(first, std::ssize(values));
  const int64_t element = size_of(type());
  const auto most = static_cast<size_t>(kPiece / element);
  std::vector<char> memory(std::min(values.size(), most) * static_cast<size_t>(element));
  while (!values.empty()) {
    const std::span<float> now = values.first(std::min(values.size(), most));
    const std::span<char> bytes =
        std::span(memory).first(now.size() * static_cast<size_t>(element));
    read_bytes(bytes, first * element);
    read_elements(type(), bytes.data(), now);
    values = values.subspan(now.size());
    first += std::ssize(now);
  }
}

void ForeignTensor::read_bytes(std::span<char> memory, int64_t first) const {
  const int64_t element = size_of(type());
  const int64_t count = std::ssize(memory) / element;
  require(first % element == 0 && count * element == std::ssize(memory),
          ErrorCode::invalid_argument, file(), ": ", name(), ": not whole elements of ", element,
          " bytes");
  check_range(first / element, count);
  if (count == 0) return;
  const std::string_view bytes = file_->mapped.bytes();
  foreign::copy_elements(bytes, place(), first / element, memory);
  if (foreign::is_dense(place())) {
    file_->mapped.release(bytes.substr(static_cast<size_t>(place().begin + first), memory.size()));
  } else if (first / element + count == size()) {
    file_->mapped.release(foreign::extent_of(bytes, place()));
  }
}

StoredTensor ForeignTensor::to_store(std::string name) const {
  return {std::move(name), type(), shape(),
          [tensor = *this](int64_t begin, std::span<char> memory) {
            tensor.read_bytes(memory, begin);
          }};
}

bool ForeignTensor::same_elements(const ForeignTensor& other) const {
  const TensorPlace& a = place();
  const TensorPlace& b = other.place();
  return file_ == other.file_ && a.begin == b.begin && a.type == b.type && a.shape == b.shape &&
         (a.strides == b.strides || (foreign::is_dense(a) && foreign::is_dense(b)));
}

bool ForeignTensors::are_in(const std::string& folder) {
  return std::any_of(kLookedFor.begin(), kLookedFor.end(),
                     [&](std::string_view name) { return file_exists(path_in(folder, name)); });
}

ForeignTensors::ForeignTensors(const std::string& folder) : folder_(folder) {
  const auto found = std::find_if(kLookedFor.begin(), kLookedFor.end(), [&](std::string_view name) {
    return file_exists(path_in(folder, name));
  });
  if (found == kLookedFor.end()) {
    std::string names;
    for (const std::string_view name : kLookedFor) {
      names += concat(names.empty() ? "" : ", ", name);
    }
    fail(ErrorCode::bad_format, folder, ": no weights: none of ", names);
  }
  const std::string name(*found);
  if (name.ends_with(kIndex)) {
    open_shards(name, name.ends_with(".bin.index.json") ? kBin : kSafetensors);
  } else {
    open_file(name);
  }
  std::sort(tensors_.begin(), tensors_.end(),
            [](const ForeignTensor& a, const ForeignTensor& b) { return a.name() < b.name(); });
}

void ForeignTensors::open_file(const std::string& name) {
  const auto file = std::make_shared<File>(path_in(folder_, name));
  const std::string_view bytes = file->mapped.bytes();
  if (name.ends_with(kBin)) {
    file->places = foreign::read_torch_file(bytes, file->path);
  } else {
    SafetensorsMetadata metadata;
    file->places = foreign::read_safetensors_places(bytes, file->path, metadata);
    metadata_.merge(metadata);
  }
  file->mapped.release(bytes);
  for (size_t i = 0; i < file->places.size(); ++i) tensors_.push_back(ForeignTensor(file, i));
  files_.push_back(name);
}

void ForeignTensors::open_shards(const std::string& index_name, std::string_view ending) {
  const std::string index_path = path_in(folder_, index_name);
  require_regular(index_path);
  const foreign::ShardIndex index =
      foreign::read_shard_index(read_file(index_path, kForeignJson.max_bytes), ending, index_path);
  files_.push_back(index_name);
  std::set<std::string_view> shards;
  std::string missing;
  for (const auto& [tensor, shard] : index) {
    if (!shards.insert(shard).second || file_exists(path_in(folder_, shard))) continue;
    missing += concat(missing.empty() ? "" : ", ", printable(shard));
  }
  require(missing.empty(), ErrorCode::bad_format, index_path,
          ": weight_map names files that are missing: ", missing);
  std::set<std::string_view> found;
  for (const std::string_view shard : shards) {
    const size_t before = tensors_.size();
    open_file(std::string(shard));
    for (size_t i = before; i < tensors_.size(); ++i) {
      const std::string& tensor = tensors_[i].name();
      const auto listed = index.find(tensor);
      require(listed != index.end(), ErrorCode::bad_format, tensors_[i].file(), ": ",
              printable(tensor), ": not in ", index_name);
      require(listed->second == shard, ErrorCode::bad_format, tensors_[i].file(), ": ",
              printable(tensor), ": ", index_name, " says that it is in ",
              printable(listed->second));
      found.insert(tensor);
    }
  }
  for (const auto& [tensor, shard] : index) {
    require(found.contains(tensor), ErrorCode::bad_format, index_path,
            ": weight_map: ", printable(tensor), ": not in ", printable(shard));
  }
}

const ForeignTensor* ForeignTensors::find(std::string_view name) const {
  const auto found = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const ForeignTensor& tensor, std::string_view wanted) { return tensor.name() < wanted; });
  return found != tensors_.end() && found->name() == name ? &*found : nullptr;
}

const ForeignTensor& ForeignTensors::get(std::string_view name) const {
  const ForeignTensor* found = find(name);
  require(found != nullptr, ErrorCode::bad_format, folder_, ": no tensor ", printable(name), " in ",
          files_.front());
  return *found;
}

void ForeignTensors::verify() const {
  for (const std::string& name : files_) {
    const std::string path = path_in(folder_, name);
    if (name.ends_with(kBin)) foreign::verify_torch_file(path);
    if (name.ends_with(kSafetensors)) verify_safetensors(path, SafetensorsTypes::all);
  }
}

}  // namespace tril
