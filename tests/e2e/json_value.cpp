// Prints one value of a JSON file, for scripts: a string, a number or a boolean as written, the
// number of items for an array or an object. A path is names and numbers separated by dots.
//   json_value FILE PATH
#include <cstdio>
#include <string>

#include "tril/io/atomic_file.h"
#include "tril/io/json.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const std::string file = argv[1];
    const tril::JsonValue root =
        tril::parse_json(tril::read_file(file, 1 << 24), file, tril::kForeignJson);
    const tril::JsonValue* value = &root;
    for (std::string path = argv[2]; !path.empty();) {
      const size_t dot = path.find('.');
      const std::string name = path.substr(0, dot);
      path = dot == std::string::npos ? "" : path.substr(dot + 1);
      if (value->kind == tril::JsonValue::Kind::array) {
        value = &value->items.at(std::stoul(name));
      } else {
        value = value->find(name);
      }
      tril::require(value != nullptr, tril::ErrorCode::invalid_argument, file, ": no ", name);
    }
    switch (value->kind) {
      case tril::JsonValue::Kind::null: std::puts("null"); break;
      case tril::JsonValue::Kind::boolean: std::puts(value->boolean ? "true" : "false"); break;
      case tril::JsonValue::Kind::array:
      case tril::JsonValue::Kind::object: std::printf("%zu\n", value->items.size()); break;
      default: std::puts(value->text.c_str());
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "json_value: %s\n", error.what());
    return 1;
  }
}
