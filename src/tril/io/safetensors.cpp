#include "tril/io/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <tuple>
#include <utility>

#include "tril/base/error.h"
#include "tril/io/atomic_file.h"
#include "tril/io/json.h"
#include "tril/io/mapped_file.h"

namespace tril {
namespace {

static_assert(std::endian::native == std::endian::little, "the data is copied as it stands");

using Kind = JsonValue::Kind;
constexpr auto kBad = ErrorCode::bad_format;
// Text, an archive, a download that went wrong: before the detail, what it comes to.
constexpr std::string_view kForeign =
    ": not a safetensors file, or a damaged one, to be made or copied again: ";
constexpr std::string_view kMetadata = "__metadata__";
constexpr int64_t kLengthBytes = 8;
constexpr int64_t kLine = 64;  // bytes of a cache line: what data is aligned to
// A tensor is at most 10 values: itself, dtype, shape and 4 extents, data_offsets and 2 ends.
constexpr JsonLimits kHeaderLimits = {.max_bytes = kSafetensorsMaxHeader,
                                      .max_depth = 3,
                                      .max_values = 11 * kSafetensorsMaxNames + 2};

struct TypeName {
  DType type;
  std::string_view name;
};
constexpr std::array kTypes = {TypeName{DType::f32, "F32"}, TypeName{DType::f64, "F64"},
                               TypeName{DType::bf16, "BF16"}, TypeName{DType::i8, "I8"},
                               TypeName{DType::i32, "I32"}};

std::string_view name_of(DType type) {
  const auto at = std::find_if(kTypes.begin(), kTypes.end(),
                               [type](const TypeName& entry) { return entry.type == type; });
  require(at != kTypes.end(), ErrorCode::internal, "safetensors: no name for ", to_string(type));
  return at->name;
}

// A tensor as the header describes it; its data is [begin, end) of the file's data.
struct Entry {
  std::string name;
  DType type = DType::f32;
  Shape shape;
  int64_t begin = 0;
  int64_t end = 0;
};

struct Header {
  std::vector<Entry> entries;  // in the order of their data
  SafetensorsMetadata metadata;
};

Shape make_shape(std::span<const int64_t> extents) {
  switch (extents.size()) {
    case 0: return Shape{};
    case 1: return Shape{extents[0]};
    case 2: return Shape{extents[0], extents[1]};
    case 3: return Shape{extents[0], extents[1], extents[2]};
    default: return Shape{extents[0], extents[1], extents[2], extents[3]};
  }
}

// Reads one tensor's object. `where` names the file and the tensor.
class EntryReader {
 public:
  EntryReader(const JsonValue& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  Entry read() const {
    require(object_.kind == Kind::object, kBad, where_, ": expected an object, got ",
            describe(object_));
    for (const std::string& field : object_.names) {
      require(field == "dtype" || field == "shape" || field == "data_offsets", kBad, where_, ": ",
              printable(field), ": unknown field");
    }
    Entry entry;
    entry.type = read_type();
    const int64_t bytes = read_shape(entry);
    read_offsets(entry);
    require(entry.end - entry.begin == bytes, kBad, where_, ": data_offsets: ", name_of(entry.type),
            " ", to_string(entry.shape), " needs ", bytes, " bytes, the offsets [", entry.begin,
            ", ", entry.end, "] give ", entry.end - entry.begin);
    return entry;
  }

 private:
  const JsonValue& field(std::string_view name, Kind kind, std::string_view expected) const {
    const JsonValue* value = object_.find(name);
    require(value != nullptr, kBad, where_, ": ", name, ": missing, expected ", expected);
    require(value->kind == kind, kBad, where_, ": ", name, ": expected ", expected, ", got ",
            describe(*value));
    return *value;
  }

  // An integer from 0 that 64 bits hold.
  int64_t count(const JsonValue& value, std::string_view name) const {
    require(value.kind == Kind::integer && value.integer >= 0, kBad, where_, ": ", name,
            ": expected integers from 0 to ", INT64_MAX, ", got ", describe(value));
    return value.integer;
  }

  DType read_type() const {
    constexpr std::string_view kExpected = "one of F32, F64, BF16, I8, I32";
    const JsonValue& value = field("dtype", Kind::string, kExpected);
    for (const TypeName& entry : kTypes) {
      if (entry.name == value.text) return entry.type;
    }
    fail(kBad, where_, ": dtype: expected ", kExpected, ", got ", describe(value));
  }

  // Returns the number of bytes.
  int64_t read_shape(Entry& entry) const {
    const JsonValue& value = field("shape", Kind::array, "an array of integers");
    require(value.items.size() <= Shape::kMaxRank, kBad, where_, ": shape: ", value.items.size(),
            " axes, at most ", Shape::kMaxRank, " are supported");
    std::vector<int64_t> extents;
    int64_t elements = 1;
    int64_t bytes = 0;
    bool fits = true;
    for (const JsonValue& item : value.items) {
      extents.push_back(count(item, "shape"));
      fits = fits && !__builtin_mul_overflow(elements, extents.back(), &elements);
    }
    fits = fits && !__builtin_mul_overflow(elements, size_of(entry.type), &bytes);
    require(fits, kBad, where_, ": shape: more bytes than 64 bits can count");
    entry.shape = make_shape(extents);
    return bytes;
  }

  void read_offsets(Entry& entry) const {
    const JsonValue& value = field("data_offsets", Kind::array, "an array of two integers");
    require(value.items.size() == 2, kBad, where_, ": data_offsets: expected two integers, got ",
            value.items.size());
    entry.begin = count(value.items[0], "data_offsets");
    entry.end = count(value.items[1], "data_offsets");
    require(entry.begin <= entry.end, kBad, where_, ": data_offsets: [", entry.begin, ", ",
            entry.end, "] go backwards");
  }

  const JsonValue& object_;
  std::string where_;
};

std::string where(const std::string& file, const std::string& tensor) {
  return concat(file, ": ", printable(tensor));
}

// Every byte of the data belongs to exactly one tensor.
void check_cover(std::span<const Entry> entries, int64_t data_bytes, const std::string& file) {
  const Entry* before = nullptr;
  int64_t covered = 0;
  for (const Entry& entry : entries) {
    require(entry.end <= data_bytes, kBad, where(file, entry.name), ": data_offsets: [",
            entry.begin, ", ", entry.end, "] go past the data, which has ", data_bytes, " bytes");
    require(entry.begin >= covered, kBad, where(file, entry.name), ": data_offsets: [", entry.begin,
            ", ", entry.end, "] overlap those of ",
            before == nullptr ? "" : printable(before->name), ", which end at ", covered);
    require(entry.begin == covered, kBad, where(file, entry.name), ": data_offsets: [", entry.begin,
            ", ", entry.end, "] leave a hole: bytes from ", covered, " to ", entry.begin,
            " belong to no tensor");
    covered = entry.end;
    before = &entry;
  }
  require(covered == data_bytes, kBad, file, ": the last ", data_bytes - covered, " of ",
          data_bytes, " bytes of data belong to no tensor");
}

SafetensorsMetadata read_metadata(const JsonValue& object, const std::string& file) {
  require(object.kind == Kind::object, kBad, file, ": ", kMetadata,
          ": expected an object of strings, got ", describe(object));
  require(std::ssize(object.items) <= kSafetensorsMaxNames, kBad, file, ": ", kMetadata, ": ",
          object.items.size(), " entries, at most ", kSafetensorsMaxNames, " are allowed");
  SafetensorsMetadata metadata;
  for (size_t i = 0; i < object.items.size(); ++i) {
    const JsonValue& value = object.items[i];
    require(value.kind == Kind::string, kBad, file, ": ", kMetadata, ": ",
            printable(object.names[i]), ": expected a string, got ", describe(value));
    metadata.emplace(object.names[i], value.text);
  }
  return metadata;
}

Header read_header(std::string_view text, int64_t data_bytes, const std::string& file) {
  require(text.starts_with('{'), kBad, file, kForeign, "the header does not begin with '{'");
  const JsonValue object = parse_json(text, file, kHeaderLimits);
  const bool has_metadata = object.find(kMetadata) != nullptr;
  require(std::ssize(object.items) - (has_metadata ? 1 : 0) <= kSafetensorsMaxNames, kBad, file,
          ": ", object.items.size(), " tensors, at most ", kSafetensorsMaxNames, " are allowed");
  Header header;
  for (size_t i = 0; i < object.items.size(); ++i) {
    const std::string& name = object.names[i];
    if (name == kMetadata) {
      header.metadata = read_metadata(object.items[i], file);
    } else {
      header.entries.push_back(EntryReader(object.items[i], where(file, name)).read());
      header.entries.back().name = name;
    }
  }
  // The ends too: a tensor without elements begins where the next one begins.
  std::sort(header.entries.begin(), header.entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_cover(header.entries, data_bytes, file);
  return header;
}

// The length of the header of a file of `file_bytes` bytes.
int64_t read_length(std::string_view first_bytes, int64_t file_bytes, const std::string& file) {
  require(std::ssize(first_bytes) == kLengthBytes && file_bytes >= kLengthBytes, kBad, file,
          ": truncated: ", std::min(std::ssize(first_bytes), file_bytes),
          " bytes, the header's length alone has ", kLengthBytes);
  uint64_t length = 0;
  std::memcpy(&length, first_bytes.data(), sizeof length);
  require(length <= static_cast<uint64_t>(kSafetensorsMaxHeader), kBad, file, kForeign,
          "its first 8 bytes give a header of ", length, " bytes, at most ", kSafetensorsMaxHeader,
          " are allowed");
  require(static_cast<int64_t>(length) <= file_bytes - kLengthBytes, kBad, file,
          ": truncated: a header of ", length, " bytes, but only ", file_bytes - kLengthBytes,
          " follow its length");
  return static_cast<int64_t>(length);
}

std::vector<NamedTensor> sorted_by_name(std::vector<NamedTensor> tensors,
                                        SafetensorsMetadata&& found,
                                        SafetensorsMetadata* metadata) {
  std::sort(tensors.begin(), tensors.end(),
            [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
  if (metadata != nullptr) *metadata = std::move(found);
  return tensors;
}

// Makes the tensors; `fill(memory, bytes)` is called for each in the order of the data.
template <class Fill>
std::vector<NamedTensor> make_tensors(Header header, Arena& arena, SafetensorsMetadata* metadata,
                                      const Fill& fill) {
  std::vector<NamedTensor> tensors;
  tensors.reserve(header.entries.size());
  for (Entry& entry : header.entries) {
    Tensor tensor(arena, entry.shape, entry.type);
    if (entry.end > entry.begin) fill(tensor.raw(), entry.end - entry.begin);
    tensors.push_back({std::move(entry.name), tensor});
  }
  return sorted_by_name(std::move(tensors), std::move(header.metadata), metadata);
}

int64_t bytes_of(const Tensor& tensor) { return tensor.size() * size_of(tensor.dtype()); }

std::string header_text(std::span<const NamedTensor* const> sorted, std::span<const int64_t> begins,
                        const SafetensorsMetadata& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    text += json_quoted(kMetadata) + ":";
    char separator = '{';
    for (const auto& [key, value] : metadata) {
      text += concat(separator, json_quoted(key), ":", json_quoted(value));
      separator = ',';
    }
    text += '}';
  }
  for (size_t i = 0; i < sorted.size(); ++i) {
    const Tensor& tensor = sorted[i]->tensor;
    text += concat(text.size() > 1 ? "," : "", json_quoted(sorted[i]->name), ":{\"dtype\":\"",
                   name_of(tensor.dtype()), "\",\"shape\":[");
    for (int axis = 0; axis < tensor.shape().rank(); ++axis) {
      text += concat(axis == 0 ? "" : ",", tensor.shape()[axis]);
    }
    text += concat("],\"data_offsets\":[", begins[i], ",", begins[i] + bytes_of(tensor), "]}");
  }
  text += '}';
  const size_t before_data = (kLengthBytes + text.size() + kLine - 1) / kLine * kLine;
  text.resize(before_data - kLengthBytes, ' ');
  return text;
}

}  // namespace

std::vector<NamedTensor> load_safetensors(const std::string& path, Arena& arena,
                                          SafetensorsMetadata* metadata) {
  InputFile file(path);
  const int64_t file_bytes = file.size();
  std::string text(kLengthBytes, '\0');
  text.resize(static_cast<size_t>(file.read(text.data(), kLengthBytes)));
  text.resize(static_cast<size_t>(read_length(text, file_bytes, path)));
  // The size was checked above: what is missing now went since.
  const auto read_all = [&](void* memory, int64_t bytes) {
    require(file.read(memory, bytes) == bytes, ErrorCode::io, path,
            ": became shorter while it was read");
  };
  read_all(text.data(), std::ssize(text));
  return make_tensors(read_header(text, file_bytes - kLengthBytes - std::ssize(text), path), arena,
                      metadata, read_all);
}

std::vector<NamedTensor> map_safetensors(const std::string& path, Arena& arena,
                                         SafetensorsMetadata* metadata) {
  const auto file = std::make_shared<const MappedFile>(path);
  const std::string_view bytes = file->bytes();
  const int64_t length = read_length(bytes.substr(0, kLengthBytes), std::ssize(bytes), path);
  const std::string_view text = bytes.substr(kLengthBytes, static_cast<size_t>(length));
  const std::string_view data = bytes.substr(static_cast<size_t>(kLengthBytes + length));
  Header header = read_header(text, std::ssize(data), path);
  std::vector<NamedTensor> tensors;
  for (Entry& entry : header.entries) {
    const char* at = data.data() + entry.begin;
    require(reinterpret_cast<uintptr_t>(at) % static_cast<uintptr_t>(size_of(entry.type)) == 0,
            kBad, where(path, entry.name), ": not aligned, so that it cannot be mapped");
    tensors.push_back({std::move(entry.name), Tensor::view(arena, at, entry.shape, entry.type)});
  }
  arena.keep(file);
  return sorted_by_name(std::move(tensors), std::move(header.metadata), metadata);
}

std::vector<NamedTensor> parse_safetensors(std::string_view bytes, const std::string& file,
                                           Arena& arena, SafetensorsMetadata* metadata) {
  const int64_t length = read_length(bytes.substr(0, kLengthBytes), std::ssize(bytes), file);
  bytes.remove_prefix(kLengthBytes);
  std::string_view data = bytes.substr(static_cast<size_t>(length));
  const std::string_view text = bytes.substr(0, static_cast<size_t>(length));
  return make_tensors(read_header(text, std::ssize(data), file), arena, metadata,
                      [&data](void* memory, int64_t count) {
                        std::memcpy(memory, data.data(), static_cast<size_t>(count));
                        data.remove_prefix(static_cast<size_t>(count));
                      });
}

void copy_named(std::span<const NamedTensor> from, const NamedTensor& to, const std::string& file) {
  const auto found =
      std::lower_bound(from.begin(), from.end(), to.name,
                       [](const NamedTensor& one, const std::string& n) { return one.name < n; });
  require(found != from.end() && found->name == to.name, ErrorCode::bad_format, file,
          ": no tensor ", to.name);
  require(found->tensor.shape() == to.tensor.shape() && found->tensor.dtype() == to.tensor.dtype(),
          ErrorCode::bad_format, file, ": tensor ", to.name, " is ", found->tensor.dtype(), " ",
          found->tensor.shape(), ", expected ", to.tensor.dtype(), " ", to.tensor.shape());
  if (to.tensor.size() == 0) return;
  copy_into(found->tensor, to.tensor);
}

void save_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                      const SafetensorsMetadata& metadata) {
  constexpr auto kArgument = ErrorCode::invalid_argument;
  require(
      std::ssize(tensors) <= kSafetensorsMaxNames && std::ssize(metadata) <= kSafetensorsMaxNames,
      kArgument, path, ": ", tensors.size(), " tensors and ", metadata.size(),
      " entries of metadata, at most ", kSafetensorsMaxNames, " of each are allowed");
  std::vector<const NamedTensor*> sorted;
  for (const NamedTensor& entry : tensors) {
    require(entry.name != kMetadata, kArgument, path, ": a tensor may not be called ", kMetadata);
    require(entry.tensor.defined(), kArgument, path, ": ", printable(entry.name),
            ": the tensor is undefined");
    entry.tensor.raw();  // raises when it is stale, before anything is written
    sorted.push_back(&entry);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const NamedTensor* a, const NamedTensor* b) { return a->name < b->name; });
  const auto twice =
      std::adjacent_find(sorted.begin(), sorted.end(),
                         [](const auto* a, const auto* b) { return a->name == b->name; });
  require(twice == sorted.end(), kArgument, path, ": ",
          twice == sorted.end() ? "" : printable((*twice)->name), ": two tensors of this name");

  std::vector<size_t> layout(sorted.size());  // indices into `sorted` in the order of the data
  for (size_t i = 0; i < layout.size(); ++i) layout[i] = i;
  std::stable_sort(layout.begin(), layout.end(), [&sorted](size_t a, size_t b) {
    const auto key = [](const Tensor& tensor) {
      return std::pair(bytes_of(tensor) % kLine == 0, size_of(tensor.dtype()));
    };
    return key(sorted[a]->tensor) > key(sorted[b]->tensor);
  });
  std::vector<int64_t> begins(sorted.size());
  int64_t end = 0;
  for (const size_t i : layout) {
    begins[i] = end;
    end += bytes_of(sorted[i]->tensor);
  }

  const std::string header = header_text(sorted, begins, metadata);
  require(std::ssize(header) <= kSafetensorsMaxHeader, kArgument, path, ": a header of ",
          header.size(), " bytes, at most ", kSafetensorsMaxHeader, " are allowed");
  const auto length = std::bit_cast<std::array<char, kLengthBytes>>(uint64_t{header.size()});
  AtomicFile file(path);
  file.write({length.data(), length.size()});
  file.write(header);
  for (const size_t i : layout) {
    const Tensor& tensor = sorted[i]->tensor;
    const auto bytes = static_cast<size_t>(bytes_of(tensor));
    if (tensor.device() == Device::cpu) {
      file.write({static_cast<const char*>(tensor.raw()), bytes});
    } else {
      std::string copied(bytes, '\0');
      copy(Device::cpu, copied.data(), tensor.device(), tensor.raw(), bytes_of(tensor));
      file.write(copied);
    }
  }
  file.commit();
}

}  // namespace tril
