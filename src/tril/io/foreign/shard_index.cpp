#include "tril/io/foreign/shard_index.h"

#include <algorithm>

#include "tril/base/error.h"
#include "tril/io/json.h"
#include "tril/io/safetensors.h"

namespace tril::foreign {
namespace {

// One name, with neither a folder in it nor anything a terminal would act on.
bool is_shard_name(std::string_view name, std::string_view ending) {
  constexpr size_t kLongest = 255;  // of a file's name
  return name.size() > ending.size() && name.size() <= kLongest && name.ends_with(ending) &&
         !name.starts_with('.') && std::none_of(name.begin(), name.end(), [](char c) {
           return c == '/' || c == '\\' || static_cast<unsigned char>(c) < ' ' || c == 0x7f;
         });
}

}  // namespace

ShardIndex read_shard_index(std::string_view text, std::string_view ending,
                            const std::string& file) {
  using Kind = JsonValue::Kind;
  const JsonValue root = parse_json(text, file, kForeignJson);
  require(root.kind == Kind::object, ErrorCode::bad_format, file, ": expected a JSON object, got ",
          describe(root));
  const JsonValue* map = root.find("weight_map");
  require(map != nullptr, ErrorCode::bad_format, file,
          ": weight_map: missing, expected an object of file names");
  require(map->kind == Kind::object && !map->items.empty(), ErrorCode::bad_format, file,
          ": weight_map: expected an object of file names, got ",
          map->kind == Kind::object ? "an empty one" : describe(*map));
  require(std::ssize(map->items) <= kSafetensorsMaxNames, ErrorCode::bad_format, file,
          ": weight_map: ", map->items.size(), " tensors, at most ", kSafetensorsMaxNames,
          " are allowed");
  ShardIndex index;
  for (size_t i = 0; i < map->items.size(); ++i) {
    const JsonValue& shard = map->items[i];
    require(shard.kind == Kind::string && is_shard_name(shard.text, ending), ErrorCode::bad_format,
            file, ": weight_map: ", printable(map->names[i]),
            ": expected the name of a file in this folder that ends with ", ending, ", got ",
            describe(shard));
    index.emplace(map->names[i], shard.text);
  }
  return index;
}

}  // namespace tril::foreign
