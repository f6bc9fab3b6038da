#include "tril/hub/kept.h"

#include <algorithm>
#include <set>
#include <utility>

#include "tril/base/error.h"
#include "tril/io/json.h"

namespace tril::hub {
namespace {

constexpr std::string_view kFirstLine = "tril hub 1\n";

// Items between commas.
class JsonList {
 public:
  void add(const std::string& item) {
    if (!text_.empty()) text_ += ", ";
    text_ += item;
  }
  std::string in(char open, char close) const { return concat(open, text_, close); }

 private:
  std::string text_;
};

std::string described(const KeptTensor& tensor) {
  JsonList shape;
  for (int axis = 0; axis < tensor.shape.rank(); ++axis) shape.add(concat(tensor.shape[axis]));
  JsonList fields;
  fields.add(json_quoted(tensor.name));
  fields.add(json_quoted(to_string(tensor.type)));
  fields.add(shape.in('[', ']'));
  fields.add(concat(tensor.file));
  if (tensor.data) fields.add(concat(*tensor.data));
  return fields.in('[', ']');
}

// The values of the description, each of which must be there and of its kind.
class Description {
 public:
  Description(std::string_view text, const std::string& file)
      : file_(file), root_(parse_json(text, file, kForeignJson)) {}

  const JsonValue& field(std::string_view name, JsonValue::Kind kind) const {
    const JsonValue* value = root_.kind == JsonValue::Kind::object ? root_.find(name) : nullptr;
    check(value != nullptr && value->kind == kind, name);
    return *value;
  }
  size_t index(const JsonValue& value, size_t size, std::string_view name) const {
    check(value.kind == JsonValue::Kind::integer && value.integer >= 0 &&
              static_cast<uint64_t>(value.integer) < size,
          name);
    return static_cast<size_t>(value.integer);
  }
  const std::string& text(const JsonValue& value, std::string_view name) const {
    check(value.kind == JsonValue::Kind::string, name);
    return value.text;
  }
  std::string file_name(const JsonValue& value, std::string_view name) const {
    check(is_file_name(text(value, name)), name);
    return value.text;
  }
  void check(bool holds, std::string_view name) const {
    require(holds, ErrorCode::bad_format, file_, ": damaged: ", name);
  }

  Shape shape(const JsonValue& value) const {
    check(value.kind == JsonValue::Kind::array && value.items.size() <= Shape::kMaxRank, "tensors");
    constexpr size_t kMost = size_t{1} << 40;
    std::vector<int64_t> extents;
    int64_t size = 1;
    for (const JsonValue& item : value.items) {
      extents.push_back(static_cast<int64_t>(index(item, kMost, "tensors")));
      check(extents.back() == 0 || size <= static_cast<int64_t>(kMost) / extents.back(), "tensors");
      size *= extents.back();
    }
    switch (extents.size()) {
      case 0: return {};
      case 1: return {extents[0]};
      case 2: return {extents[0], extents[1]};
      case 3: return {extents[0], extents[1], extents[2]};
      default: return {extents[0], extents[1], extents[2], extents[3]};
    }
  }

  KeptTensor tensor(const JsonValue& value, const Kept& kept) const {
    const std::vector<JsonValue>& fields = value.items;
    check(value.kind == JsonValue::Kind::array && (fields.size() == 4 || fields.size() == 5),
          "tensors");
    const auto type = stored_type_named(text(fields[1], "tensors"));
    check(type.has_value(), "tensors");
    KeptTensor tensor{text(fields[0], "tensors"), *type, shape(fields[2]),
                      index(fields[3], kept.weight_files.size(), "tensors")};
    if (fields.size() == 5) tensor.data = index(fields[4], kept.data.size(), "tensors");
    return tensor;
  }

 private:
  const std::string& file_;
  JsonValue root_;
};

}  // namespace

size_t Kept::add_data(std::string bytes) {
  const auto found = std::find(data.begin(), data.end(), bytes);
  if (found != data.end()) return static_cast<size_t>(found - data.begin());
  data.push_back(std::move(bytes));
  return data.size() - 1;
}

bool is_file_name(std::string_view name) {
  constexpr size_t kLongest = 255;
  return !name.empty() && name.size() <= kLongest && name != "." && name != ".." && is_utf8(name) &&
         std::none_of(name.begin(), name.end(), [](char c) {
           return c == '/' || c == '\\' || static_cast<unsigned char>(c) < ' ' || c == 0x7f;
         });
}

std::string to_bytes(const Kept& kept) {
  JsonList metadata, weight_files, tensors, data, files;
  for (const auto& [key, value] : kept.metadata) {
    metadata.add(concat(json_quoted(key), ": ", json_quoted(value)));
  }
  for (const std::string& name : kept.weight_files) weight_files.add(json_quoted(name));
  for (const KeptTensor& tensor : kept.tensors) tensors.add(described(tensor));
  for (const std::string& bytes : kept.data) data.add(concat(bytes.size()));
  for (const auto& [name, bytes] : kept.files) {
    files.add(concat(json_quoted(name), ": ", bytes.size()));
  }
  JsonList fields;
  fields.add(concat("\"family\": ", json_quoted(kept.family)));
  fields.add(concat("\"metadata\": ", metadata.in('{', '}')));
  fields.add(concat("\"weight_files\": ", weight_files.in('[', ']')));
  fields.add(concat("\"data\": ", data.in('[', ']')));
  fields.add(concat("\"files\": ", files.in('{', '}')));
  fields.add(concat("\"tensors\": ", tensors.in('[', ']')));
  std::string bytes = concat(kFirstLine, fields.in('{', '}'), '\n');
  for (const std::string& each : kept.data) bytes += each;
  for (const auto& [name, each] : kept.files) bytes += each;
  return bytes;
}

Kept read_kept(std::string_view bytes, const std::string& file) {
  require(bytes.starts_with(kFirstLine), ErrorCode::bad_format, file,
          ": written by another version of tril, or damaged");
  bytes.remove_prefix(kFirstLine.size());
  const size_t end = bytes.find('\n');
  require(end != bytes.npos, ErrorCode::bad_format, file, ": damaged: cut off");
  using Kind = JsonValue::Kind;
  const Description from(bytes.substr(0, end), file);
  bytes.remove_prefix(end + 1);
  const auto take = [&](const JsonValue& size, std::string_view name) {
    const std::string_view taken = bytes.substr(0, from.index(size, bytes.size() + 1, name));
    bytes.remove_prefix(taken.size());
    return std::string(taken);
  };
  Kept kept;
  kept.family = from.field("family", Kind::string).text;
  const JsonValue& metadata = from.field("metadata", Kind::object);
  for (size_t i = 0; i < metadata.items.size(); ++i) {
    kept.metadata.emplace(metadata.names[i], from.text(metadata.items[i], "metadata"));
  }
  for (const JsonValue& name : from.field("weight_files", Kind::array).items) {
    kept.weight_files.push_back(from.file_name(name, "weight_files"));
  }
  for (const JsonValue& size : from.field("data", Kind::array).items) {
    kept.data.push_back(take(size, "data"));
  }
  const JsonValue& files = from.field("files", Kind::object);
  for (size_t i = 0; i < files.items.size(); ++i) {
    from.check(is_file_name(files.names[i]), "files");
    kept.files.emplace(files.names[i], take(files.items[i], "files"));
  }
  std::set<std::string_view> names;
  for (const JsonValue& tensor : from.field("tensors", Kind::array).items) {
    kept.tensors.push_back(from.tensor(tensor, kept));
  }
  for (const KeptTensor& tensor : kept.tensors) {
    from.check(names.insert(tensor.name).second, "tensors");
  }
  from.check(bytes.empty(), "bytes after its last file");
  return kept;
}

}  // namespace tril::hub
