#include "tril/io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <tuple>
#include <utility>

#include "tril/base/error.h"
#include "tril/io/json.h"

namespace tril::safetensors {
namespace {

static_assert(std::endian::native == std::endian::little, "the data is copied as it stands");

using Kind = JsonValue::Kind;
// For text, an archive, a broken download: a summary before the detail.
constexpr std::string_view kForeign =
    ": not a safetensors file, or a damaged one, to be made or copied again: ";
constexpr std::string_view kMetadata = kSafetensorsMetadata;
constexpr std::string_view kChecksums = "tril_checksums";
constexpr std::string_view kSeal = "tril_seal";
// A tensor is at most 10 values: itself, dtype, shape and 4 extents, data_offsets and 2 ends.
constexpr JsonLimits kHeaderLimits = {.max_bytes = kSafetensorsMaxHeader,
                                      .max_depth = 3,
                                      .max_values = 11 * kSafetensorsMaxNames + 2};

// The names of the types that may occur, for errors.
constexpr std::string_view expected_types(SafetensorsTypes types) {
  return types == SafetensorsTypes::ours
             ? "one of F32, F64, BF16, I8, I32"
             : "one of F16, BF16, F32, F64, I8, I16, I32, I64, U8, BOOL";
}

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
  EntryReader(const JsonValue& object, SafetensorsTypes types, std::string where)
      : object_(object), types_(types), where_(std::move(where)) {}

  Entry read() const {
    require(object_.kind == Kind::object, ErrorCode::bad_format, where_,
            ": expected an object, got ", describe(object_));
    for (const std::string& field : object_.names) {
      require(field == "dtype" || field == "shape" || field == "data_offsets",
              ErrorCode::bad_format, where_, ": ", printable(field), ": unknown field");
    }
    Entry entry;
    entry.type = read_type();
    const int64_t bytes = read_shape(entry);
    read_offsets(entry);
    require(entry.end - entry.begin == bytes, ErrorCode::bad_format, where_,
            ": data_offsets: ", to_string(entry.type), " ", to_string(entry.shape), " needs ",
            bytes, " bytes, the offsets [", entry.begin, ", ", entry.end, "] give ",
            entry.end - entry.begin);
    return entry;
  }

 private:
  const JsonValue& field(std::string_view name, Kind kind, std::string_view expected) const {
    const JsonValue* value = object_.find(name);
    require(value != nullptr, ErrorCode::bad_format, where_, ": ", name, ": missing, expected ",
            expected);
    require(value->kind == kind, ErrorCode::bad_format, where_, ": ", name, ": expected ", expected,
            ", got ", describe(*value));
    return *value;
  }

  // An integer from 0 that fits in 64 bits.
  int64_t count(const JsonValue& value, std::string_view name) const {
    require(value.kind == Kind::integer && value.integer >= 0, ErrorCode::bad_format, where_, ": ",
            name, ": expected integers from 0 to ", INT64_MAX, ", got ", describe(value));
    return value.integer;
  }

  StoredType read_type() const {
    const std::string_view expected = expected_types(types_);
    const JsonValue& value = field("dtype", Kind::string, expected);
    const auto type = stored_type_named(value.text);
    if (type.has_value() && (types_ == SafetensorsTypes::all || dtype_of(*type).has_value()))
      return *type;
    fail(ErrorCode::bad_format, where_, ": dtype: expected ", expected, ", got ", describe(value));
  }

  // Returns the number of bytes.
  int64_t read_shape(Entry& entry) const {
    const JsonValue& value = field("shape", Kind::array, "an array of integers");
    require(value.items.size() <= Shape::kMaxRank, ErrorCode::bad_format, where_,
            ": shape: ", value.items.size(), " axes, at most ", Shape::kMaxRank, " are supported");
    std::vector<int64_t> extents;
    int64_t elements = 1;
    int64_t bytes = 0;
    bool fits = true;
    for (const JsonValue& item : value.items) {
      extents.push_back(count(item, "shape"));
      fits = fits && !__builtin_mul_overflow(elements, extents.back(), &elements);
    }
    fits = fits && !__builtin_mul_overflow(elements, size_of(entry.type), &bytes);
    require(fits, ErrorCode::bad_format, where_, ": shape: more bytes than 64 bits can count");
    entry.shape = make_shape(extents);
    return bytes;
  }

  void read_offsets(Entry& entry) const {
    const JsonValue& value = field("data_offsets", Kind::array, "an array of two integers");
    require(value.items.size() == 2, ErrorCode::bad_format, where_,
            ": data_offsets: expected two integers, got ", value.items.size());
    entry.begin = count(value.items[0], "data_offsets");
    entry.end = count(value.items[1], "data_offsets");
    require(entry.begin <= entry.end, ErrorCode::bad_format, where_, ": data_offsets: [",
            entry.begin, ", ", entry.end, "] go backwards");
  }

  const JsonValue& object_;
  SafetensorsTypes types_;
  std::string where_;
};

// Every byte of the data belongs to exactly one tensor.
void check_cover(std::span<const Entry> entries, int64_t data_bytes, const std::string& file) {
  const Entry* before = nullptr;
  int64_t covered = 0;
  for (const Entry& entry : entries) {
    require(entry.end <= data_bytes, ErrorCode::bad_format, where(file, entry.name),
            ": data_offsets: [", entry.begin, ", ", entry.end, "] go past the data, which has ",
            data_bytes, " bytes");
    require(entry.begin >= covered, ErrorCode::bad_format, where(file, entry.name),
            ": data_offsets: [", entry.begin, ", ", entry.end, "] overlap those of ",
            before == nullptr ? "" : printable(before->name), ", which end at ", covered);
    require(entry.begin == covered, ErrorCode::bad_format, where(file, entry.name),
            ": data_offsets: [", entry.begin, ", ", entry.end, "] leave a hole: bytes from ",
            covered, " to ", entry.begin, " belong to no tensor");
    covered = entry.end;
    before = &entry;
  }
  require(covered == data_bytes, ErrorCode::bad_format, file, ": the last ", data_bytes - covered,
          " of ", data_bytes, " bytes of data belong to no tensor");
}

SafetensorsMetadata read_metadata(const JsonValue& object, const std::string& file) {
  require(object.kind == Kind::object, ErrorCode::bad_format, file, ": ", kMetadata,
          ": expected an object of strings, got ", describe(object));
  require(std::ssize(object.items) <= kSafetensorsMaxNames, ErrorCode::bad_format, file, ": ",
          kMetadata, ": ", object.items.size(), " entries, at most ", kSafetensorsMaxNames,
          " are allowed");
  SafetensorsMetadata metadata;
  for (size_t i = 0; i < object.items.size(); ++i) {
    const JsonValue& value = object.items[i];
    require(value.kind == Kind::string, ErrorCode::bad_format, file, ": ", kMetadata, ": ",
            printable(object.names[i]), ": expected a string, got ", describe(value));
    metadata.emplace(object.names[i], value.text);
  }
  return metadata;
}

// The position of a metadata entry's digits in the header's text as HeaderText writes it; npos if
// they are not found in that form.
size_t place_of(std::string_view text, std::string_view key, std::string_view value) {
  const std::string before = concat('"', key, "\":\"");
  const size_t at = text.find(concat(before, value, '"'));
  return at == text.npos ? at : at + before.size();
}

// The checksum of the length and the header, with zeros in place of the seal itself.
std::string seal_of(std::string_view text, size_t place) {
  const auto length = std::bit_cast<std::array<char, kLengthBytes>>(uint64_t{text.size()});
  std::string bytes(length.data(), length.size());
  bytes += text;
  bytes.replace(kLengthBytes + place, kChecksumDigits, kChecksumDigits, '0');
  return to_string(checksum_of(bytes));
}

// Takes seal and checksums out of the metadata, and verifies the seal.
void take_seal(Header& header, std::string_view text, const std::string& file) {
  SafetensorsMetadata& metadata = header.info.metadata;
  const auto sums = metadata.extract(std::string(kChecksums));
  const auto seal = metadata.extract(std::string(kSeal));
  if (sums.empty() && seal.empty()) return;
  const bool both = !sums.empty() && !seal.empty();
  const size_t place = both ? place_of(text, kSeal, seal.mapped()) : text.npos;
  const bool sealed = place != text.npos && seal.mapped().size() == kChecksumDigits &&
                      seal_of(text, place) == seal.mapped() &&
                      sums.mapped().size() == kChecksumDigits * header.entries.size();
  require(sealed, ErrorCode::bad_format, file,
          ": damaged, or changed since it was sealed: its header does not match its checksum");
  header.info.seal = seal.mapped();
  std::vector<Entry*> by_name;
  for (Entry& entry : header.entries) by_name.push_back(&entry);
  std::sort(by_name.begin(), by_name.end(),
            [](const Entry* a, const Entry* b) { return a->name < b->name; });
  for (size_t i = 0; i < by_name.size(); ++i) {
    by_name[i]->checksum = sums.mapped().substr(i * kChecksumDigits, kChecksumDigits);
  }
}

}  // namespace

std::string where(const std::string& file, const std::string& tensor) {
  return concat(file, ": ", printable(tensor));
}

void fail_damaged(const std::string& file, const std::string& tensor) {
  fail(ErrorCode::bad_format, file, ": damaged, or changed since it was sealed: tensor '",
       printable(tensor), "' does not match its checksum");
}

Header read_header(std::string_view text, int64_t data_bytes, const std::string& file,
                   SafetensorsTypes types) {
  require(text.starts_with('{'), ErrorCode::bad_format, file, kForeign,
          "the header does not begin with '{'");
  const JsonValue object = parse_json(text, file, kHeaderLimits);
  const bool has_metadata = object.find(kMetadata) != nullptr;
  require(std::ssize(object.items) - (has_metadata ? 1 : 0) <= kSafetensorsMaxNames,
          ErrorCode::bad_format, file, ": ", object.items.size(), " tensors, at most ",
          kSafetensorsMaxNames, " are allowed");
  Header header;
  for (size_t i = 0; i < object.items.size(); ++i) {
    const std::string& name = object.names[i];
    if (name == kMetadata) {
      header.info.metadata = read_metadata(object.items[i], file);
    } else {
      header.entries.push_back(EntryReader(object.items[i], types, where(file, name)).read());
      header.entries.back().name = name;
    }
  }
  // Sorted by end too: a tensor without elements begins where the next one does.
  std::sort(header.entries.begin(), header.entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_cover(header.entries, data_bytes, file);
  take_seal(header, text, file);
  return header;
}

// The length of the header of a file of `file_bytes` bytes.
int64_t read_length(std::string_view first_bytes, int64_t file_bytes, const std::string& file) {
  require(std::ssize(first_bytes) == kLengthBytes && file_bytes >= kLengthBytes,
          ErrorCode::bad_format, file,
          ": truncated: ", std::min(std::ssize(first_bytes), file_bytes),
          " bytes, the header's length alone has ", kLengthBytes);
  uint64_t length = 0;
  std::memcpy(&length, first_bytes.data(), sizeof length);
  require(length <= static_cast<uint64_t>(kSafetensorsMaxHeader), ErrorCode::bad_format, file,
          kForeign, "its first 8 bytes give a header of ", length, " bytes, at most ",
          kSafetensorsMaxHeader, " are allowed");
  require(static_cast<int64_t>(length) <= file_bytes - kLengthBytes, ErrorCode::bad_format, file,
          ": truncated: a header of ", length, " bytes, but only ", file_bytes - kLengthBytes,
          " follow its length");
  return static_cast<int64_t>(length);
}

HeaderText::HeaderText(std::span<const Entry> sorted, const SafetensorsMetadata& metadata) {
  SafetensorsMetadata entries = metadata;
  entries[std::string(kChecksums)] = std::string(kChecksumDigits * sorted.size(), '0');
  entries[std::string(kSeal)] = std::string(kChecksumDigits, '0');
  std::string text = "{";
  text += json_quoted(kMetadata) + ":";
  char separator = '{';
  for (const auto& [key, value] : entries) {
    text += concat(separator, json_quoted(key), ":", json_quoted(value));
    separator = ',';
  }
  text += '}';
  for (const Entry& entry : sorted) {
    text += concat(",", json_quoted(entry.name), ":{\"dtype\":\"", to_string(entry.type),
                   "\",\"shape\":[");
    for (int axis = 0; axis < entry.shape.rank(); ++axis) {
      text += concat(axis == 0 ? "" : ",", entry.shape[axis]);
    }
    text += concat("],\"data_offsets\":[", entry.begin, ",", entry.end, "]}");
  }
  text += '}';
  const size_t before_data = (kLengthBytes + text.size() + kLine - 1) / kLine * kLine;
  text.resize(before_data - kLengthBytes, ' ');
  const auto length = std::bit_cast<std::array<char, kLengthBytes>>(uint64_t{text.size()});
  bytes_ = std::string(length.data(), length.size()) + text;
}

std::string HeaderText::fill(std::span<const Checksum> of_tensors) {
  std::string digits;
  for (const Checksum& one : of_tensors) digits += to_string(one);
  const std::string zeros(digits.size(), '0');
  bytes_.replace(place_of(bytes_, kChecksums, zeros), digits.size(), digits);
  const size_t place = place_of(bytes_, kSeal, std::string(kChecksumDigits, '0'));
  std::string seal = seal_of(std::string_view(bytes_).substr(kLengthBytes), place - kLengthBytes);
  bytes_.replace(place, kChecksumDigits, seal);
  return seal;
}

}  // namespace tril::safetensors
