// JSON from untrusted files: configuration files, and the header of a safetensors file.
//
// Every error is `bad_format` and names the file, the field, what was expected and what came:
//   model/config.json: heads: expected an integer from 1 to 4096, got "8"
// Text quoted from a file is cut to a readable length and is always valid UTF-8.
// Objects of this header own everything they hold and belong to one thread at a time.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/error.h"

namespace tril {

struct JsonValue {
  enum class Kind : uint8_t { null, boolean, integer, number, string, array, object };

  Kind kind = Kind::null;
  bool boolean = false;
  int64_t integer = 0;  // kind integer: written without fraction or exponent, fits in 64 bits
  double number = 0;    // kinds integer and number; always finite
  std::string text;     // kind string: the string; integer and number: as written
  std::vector<JsonValue> items;    // kinds array and object
  std::vector<std::string> names;  // kind object: the name of each item, all different

  // The item of that name of an object; null where there is none. Goes through all names: of a
  // large object, use the items in their order instead.
  const JsonValue* find(std::string_view name) const;
};

struct JsonLimits {
  int64_t max_bytes = 1 << 20;
  int64_t max_depth = 8;         // nesting of objects and arrays
  int64_t max_values = 1 << 20;  // values of all kinds: bounds the memory
};
// Files that tril writes, and small ones in general.
inline constexpr JsonLimits kOurJson{};
// Files of other programs' models: the largest tokenizer.json has 34 MB and two million values. A
// value takes about 100 bytes, so that a file can take 0.5 GiB at most.
inline constexpr JsonLimits kForeignJson{
    .max_bytes = 64 << 20, .max_depth = 32, .max_values = 1 << 22};

// One JSON text with nothing after it. Beyond the grammar (RFC 8259) it raises for a name that
// occurs twice in an object, for a number no double can hold, and past a limit. `file` is for
// errors.
JsonValue parse_json(std::string_view text, const std::string& file,
                     const JsonLimits& limits = kOurJson);

// For errors. A value in a few words: `"8"`, `1.5`, `an array`.
std::string describe(const JsonValue& value);
// Text from a file: at most its first `max_bytes`, with control characters and invalid UTF-8
// replaced; empty text as `""`.
std::string printable(std::string_view text, size_t max_bytes = 80);

bool is_utf8(std::string_view text);
// Text as a JSON string with its quotes. Raises `invalid_argument` when it is not UTF-8.
std::string json_quoted(std::string_view text);

// Reads an object of plain fields. Each getter raises when the field is missing or of the wrong
// kind.
class JsonReader {
 public:
  JsonReader(std::string_view text, const std::string& file, const JsonLimits& limits = kOurJson);

  bool has(std::string_view field) const;
  int64_t get_int(std::string_view field, int64_t min, int64_t max);
  double get_double(std::string_view field, double min, double max);
  bool get_bool(std::string_view field);
  std::string get_string(std::string_view field);
  // The index of the field's string in `choices`.
  size_t get_choice(std::string_view field, std::span<const std::string_view> choices);
  size_t get_choice(std::string_view field, std::initializer_list<std::string_view> choices);

  // Raises when the object has a field that no getter asked for.
  void finish() const;

 private:
  const JsonValue& get(std::string_view field, std::string_view expected);
  [[noreturn]] void fail_field(std::string_view field, std::string_view expected,
                               const JsonValue& value) const;

  std::string file_;
  JsonValue object_;
  std::vector<bool> read_;  // by item
};

// Writes what JsonReader reads: fields in the order they were set, one per line; the same calls
// give the same bytes. A double is written in the shortest form that reads back as the same bits,
// and always looks like one (`1.0`).
class JsonWriter {
 public:
  // Each raises `invalid_argument` for a field already set, text that is not UTF-8, NaN and
  // infinity.
  template <std::integral Value>  // a template, so that a pointer does not become a bool
  void set(std::string_view field, Value value) {
    static_assert(std::numeric_limits<Value>::digits <= 63, "int64_t must hold it");
    if constexpr (std::same_as<Value, bool>) {
      set_raw(field, value ? "true" : "false");
    } else {
      set_raw(field, concat(value));
    }
  }
  void set(std::string_view field, double value);
  void set(std::string_view field, std::string_view value);
  // A value that is JSON already: a list, an object. It is written as it is.
  void set_raw(std::string_view field, std::string json);

  std::string to_string() const;

 private:
  struct Field {
    std::string name;  // quoted
    std::string json;
  };
  std::vector<Field> fields_;
};

}  // namespace tril
