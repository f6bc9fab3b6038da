// Any text is either an object whose fields can be read and written back the same, or one
// tril::Error.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "tril/base/error.h"
#include "tril/io/json.h"

namespace {

template <class F>
void only_errors(const F& call) {
  try {
    call();
  } catch (const tril::Error& error) {
    if (std::strncmp(error.what(), "fuzz: ", 6) != 0) std::abort();
    if (error.code() != tril::ErrorCode::bad_format) std::abort();
  }
}

void check(bool holds) {
  if (!holds) std::abort();
}

void read_fields(std::string_view text) {
  tril::JsonReader reader(text, "fuzz");
  for (const std::string_view field : {"format", "rate", "tied", "norm", "a", ""}) {
    only_errors([&] { check(reader.get_int(field, -5, 1000) <= 1000); });
    only_errors([&] { check(std::isfinite(reader.get_double(field, -1e300, 1e300))); });
    only_errors([&] { reader.get_bool(field); });
    only_errors([&] { reader.get_string(field); });
    only_errors([&] { check(reader.get_choice(field, {"pre", "post"}) < 2); });
  }
  reader.finish();
}

void write_back(std::string_view text) {
  using Kind = tril::JsonValue::Kind;
  const tril::JsonValue object = tril::parse_json(text, "fuzz");
  if (object.kind != Kind::object) return;
  tril::JsonWriter writer;
  for (size_t i = 0; i < object.items.size(); ++i) {
    const tril::JsonValue& value = object.items[i];
    if (value.kind == Kind::string) writer.set(object.names[i], value.text);
    if (value.kind == Kind::boolean) writer.set(object.names[i], value.boolean);
    if (value.kind == Kind::integer) writer.set(object.names[i], value.integer);
    if (value.kind == Kind::number) writer.set(object.names[i], value.number);
  }
  const std::string written = writer.to_string();
  if (written.size() > 1 << 20) return;  // escapes may have made it longer than is read
  const tril::JsonValue again = tril::parse_json(written, "written");
  for (size_t i = 0; i < again.items.size(); ++i) {
    const tril::JsonValue* value = object.find(again.names[i]);
    check(value != nullptr && value->kind == again.items[i].kind &&
          value->boolean == again.items[i].boolean && value->integer == again.items[i].integer &&
          std::memcmp(&value->number, &again.items[i].number, sizeof(double)) == 0);
    check(value->kind != Kind::string || value->text == again.items[i].text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  only_errors([&] { read_fields(text); });
  only_errors([&] { write_back(text); });
  return 0;
}
