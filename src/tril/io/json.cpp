#include "tril/io/json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace tril {
namespace {

using Kind = JsonValue::Kind;
constexpr size_t kMaxQuoted = 80;  // bytes of a value that an error shows

// At most the first `max_bytes` as a JSON string; invalid UTF-8 is replaced.
std::string quoted_start(std::string_view text, size_t max_bytes) {
  using nlohmann::json;
  size_t end = std::min(text.size(), max_bytes);
  // Not in the middle of a character, which has up to three bytes after its first.
  for (int i = 0; i < 3 && end > 0 && end < text.size() && (text[end] & 0xc0) == 0x80; ++i) --end;
  return json(text.substr(0, end)).dump(-1, ' ', false, json::error_handler_t::replace) +
         (end < text.size() ? "..." : "");
}

// A word like NaN or Infinity, if the parser stopped inside one; else empty.
std::string_view non_number_before(std::string_view text, size_t position) {
  size_t start = std::min(position, text.size());
  const auto in_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
  };
  while (start > 0 && in_word(text[start - 1])) --start;
  for (const std::string_view word : {"NaN", "nan", "-NaN", "-nan", "Infinity", "-Infinity",
                                      "infinity", "-infinity", "inf", "-inf", "Inf", "-Inf"}) {
    if (text.substr(start).starts_with(word)) return word;
  }
  return {};
}

// Builds the tree from nlohmann's events. Not from nlohmann's own tree, which silently keeps the
// last of two equal names and has no limits.
class Builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(std::string_view text, const std::string& file, const JsonLimits& limits)
      : text_(text), file_(file), limits_(limits) {}

  JsonValue take() { return std::move(root_); }

  bool null() override {
    add(Kind::null);
    return true;
  }
  bool boolean(bool value) override {
    add(Kind::boolean).boolean = value;
    return true;
  }
  bool number_integer(int64_t value) override {
    JsonValue& added = add(Kind::integer);
    added.integer = value;
    added.number = static_cast<double>(value);
    added.text = concat(value);
    return true;
  }
  bool number_unsigned(uint64_t value) override {
    if (std::in_range<int64_t>(value)) return number_integer(static_cast<int64_t>(value));
    return number_float(static_cast<double>(value), concat(value));
  }
  bool number_float(double value, const std::string& written) override {
    JsonValue& added = add(Kind::number);
    added.number = value;
    added.text = written;
    return true;
  }
  bool string(std::string& value) override {
    add(Kind::string).text = std::move(value);
    return true;
  }
  bool binary(nlohmann::json::binary_t&) override { return false; }  // does not occur in text

  bool start_object(size_t) override { return open(Kind::object); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Kind::array); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    // The place is determined only for a fault: a header may have a hundred thousand names.
    if (!open_.back().seen.insert(name).second) {
      fail(ErrorCode::bad_format, where(), printable(name), ": this field stands twice");
    }
    open_.back().value->names.push_back(std::move(name));
    return true;
  }

  bool parse_error(size_t position, const std::string& token,
                   const nlohmann::json::exception& error) override {
    constexpr int kNumberOverflow = 406;
    require(error.id != kNumberOverflow, ErrorCode::bad_format, where(), "the number ",
            printable(token), " is too large");
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    std::string_view what = error.what();
    what.remove_prefix(std::min(what.find("] ") + 2, what.size()));
    if (what.find("invalid literal") != what.npos || what.find("invalid number") != what.npos) {
      const std::string_view word = non_number_before(text_, position);
      require(word.empty(), ErrorCode::bad_format, where(), word, " is no number in JSON");
    }
    fail(ErrorCode::bad_format, where(), "not JSON: ", printable(what, 240));
  }

 private:
  struct Open {
    JsonValue* value;  // its address is stable: its container grows only after it is closed
    std::set<std::string> seen;
  };

  // The file and the names leading to the current position, each followed by ": ".
  std::string where() const {
    std::string text = file_ + ": ";
    for (size_t i = 0; i < open_.size(); ++i) {
      const JsonValue& value = *open_[i].value;
      const bool inside = i + 1 < open_.size() || value.names.size() > value.items.size();
      if (value.kind == Kind::object && inside) text += printable(value.names.back()) + ": ";
    }
    return text;
  }

  JsonValue& add(Kind kind) {
    require(++count_ <= limits_.max_values, ErrorCode::bad_format, file_, ": more than the ",
            limits_.max_values, " values allowed");
    JsonValue& added = open_.empty() ? root_ : open_.back().value->items.emplace_back();
    added.kind = kind;
    return added;
  }

  bool open(Kind kind) {
    if (std::ssize(open_) >= limits_.max_depth) {
      fail(ErrorCode::bad_format, where(),
           "objects and arrays lie inside each other deeper than the ", limits_.max_depth,
           " levels allowed");
    }
    JsonValue& added = add(kind);
    open_.push_back({&added, {}});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  const std::string& file_;
  const JsonLimits& limits_;
  JsonValue root_;
  std::vector<Open> open_;
  int64_t count_ = 0;
};

}  // namespace

const JsonValue* JsonValue::find(std::string_view name) const {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? nullptr : &items[static_cast<size_t>(found - names.begin())];
}

JsonValue parse_json(std::string_view text, const std::string& file, const JsonLimits& limits) {
  require(std::ssize(text) <= limits.max_bytes, ErrorCode::bad_format, file, ": ", text.size(),
          " bytes of JSON, more than the ", limits.max_bytes, " allowed");
  // nlohmann takes a NUL for the end and would ignore the rest.
  const size_t nul = text.find('\0');
  require(nul == std::string_view::npos, ErrorCode::bad_format, file,
          ": not JSON: a NUL byte at offset ", nul);
  Builder builder(text, file, limits);
  const bool parsed = nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  require(parsed, ErrorCode::internal, file, ": the JSON parser stopped without a reason");
  return builder.take();
}

std::string printable(std::string_view text, size_t max_bytes) {
  if (text.empty()) return "\"\"";
  const std::string quoted = quoted_start(text, max_bytes);
  const size_t end = quoted.rfind('"');
  std::string plain;
  for (size_t i = 1; i < end; ++i) {
    // Quotes and backslashes unescaped.
    if (quoted[i] == '\\' && (quoted[i + 1] == '"' || quoted[i + 1] == '\\')) ++i;
    plain += quoted[i];
  }
  return plain + quoted.substr(end + 1);
}

std::string describe(const JsonValue& value) {
  switch (value.kind) {
    case Kind::null: return "null";
    case Kind::boolean: return value.boolean ? "true" : "false";
    case Kind::integer:
    case Kind::number: return printable(value.text);
    case Kind::string: return quoted_start(value.text, kMaxQuoted);
    case Kind::array: return "an array";
    case Kind::object: return "an object";
  }
  return "nothing";
}

bool is_utf8(std::string_view text) {
  try {
    nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

std::string json_quoted(std::string_view text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    fail(ErrorCode::invalid_argument, "JSON: the text \"", printable(text), "\" is not UTF-8");
  }
}

JsonReader::JsonReader(std::string_view text, const std::string& file, const JsonLimits& limits)
    : file_(file), object_(parse_json(text, file, limits)) {
  require(object_.kind == Kind::object, ErrorCode::bad_format, file_,
          ": expected a JSON object, got ", describe(object_));
  read_.resize(object_.items.size());
}

bool JsonReader::has(std::string_view field) const { return object_.find(field) != nullptr; }

const JsonValue& JsonReader::get(std::string_view field, std::string_view expected) {
  const JsonValue* value = object_.find(field);
  require(value != nullptr, ErrorCode::bad_format, file_, ": ", field, ": missing, expected ",
          expected);
  read_[static_cast<size_t>(value - object_.items.data())] = true;
  return *value;
}

void JsonReader::fail_field(std::string_view field, std::string_view expected,
                            const JsonValue& value) const {
  fail(ErrorCode::bad_format, file_, ": ", field, ": expected ", expected, ", got ",
       describe(value));
}

int64_t JsonReader::get_int(std::string_view field, int64_t min, int64_t max) {
  const std::string expected = concat("an integer from ", min, " to ", max);
  const JsonValue& value = get(field, expected);
  const bool good = value.kind == Kind::integer && min <= value.integer && value.integer <= max;
  if (!good) fail_field(field, expected, value);
  return value.integer;
}

double JsonReader::get_double(std::string_view field, double min, double max) {
  const std::string expected = concat("a number from ", min, " to ", max);
  const JsonValue& value = get(field, expected);
  const bool is_number = value.kind == Kind::integer || value.kind == Kind::number;
  const bool good = is_number && min <= value.number && value.number <= max;
  if (!good) fail_field(field, expected, value);
  return value.number;
}

bool JsonReader::get_bool(std::string_view field) {
  const std::string_view expected = "true or false";
  const JsonValue& value = get(field, expected);
  if (value.kind != Kind::boolean) fail_field(field, expected, value);
  return value.boolean;
}

std::string JsonReader::get_string(std::string_view field) {
  const std::string_view expected = "a string";
  const JsonValue& value = get(field, expected);
  if (value.kind != Kind::string) fail_field(field, expected, value);
  return value.text;
}

size_t JsonReader::get_choice(std::string_view field, std::span<const std::string_view> choices) {
  std::string expected = choices.size() > 1 ? "one of " : "";
  for (size_t i = 0; i < choices.size(); ++i) {
    expected += concat(i == 0 ? "\"" : ", \"", choices[i], "\"");
  }
  const JsonValue& value = get(field, expected);
  const auto chosen = std::find(choices.begin(), choices.end(), value.text);
  if (value.kind != Kind::string || chosen == choices.end()) fail_field(field, expected, value);
  return static_cast<size_t>(chosen - choices.begin());
}

size_t JsonReader::get_choice(std::string_view field,
                              std::initializer_list<std::string_view> choices) {
  return get_choice(field, std::span<const std::string_view>(choices.begin(), choices.size()));
}

void JsonReader::finish() const {
  const auto unread = std::find(read_.begin(), read_.end(), false);
  if (unread == read_.end()) return;
  const auto more = std::count(unread, read_.end(), false) - 1;
  const std::string& name = object_.names[static_cast<size_t>(unread - read_.begin())];
  fail(ErrorCode::bad_format, file_, ": ", printable(name), ": unknown field",
       more == 0 ? "" : concat(", and ", more, " more"));
}

void JsonWriter::set_raw(std::string_view field, std::string json) {
  const std::string name = json_quoted(field);
  for (const Field& other : fields_) {
    require(other.name != name, ErrorCode::invalid_argument, "JSON: the field ", printable(field),
            " is set twice");
  }
  fields_.push_back({name, std::move(json)});
}

void JsonWriter::set(std::string_view field, double value) {
  require(std::isfinite(value), ErrorCode::invalid_argument, "JSON: the field ", printable(field),
          " is ", value, ", which JSON cannot hold");
  std::string text = concat(value);  // the shortest form
  // Otherwise -0 would read back as the integer 0.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  set_raw(field, std::move(text));
}

void JsonWriter::set(std::string_view field, std::string_view value) {
  set_raw(field, json_quoted(value));
}

std::string JsonWriter::to_string() const {
  std::string text = "{";
  for (const Field& field : fields_) {
    text += concat(&field == fields_.data() ? "\n  " : ",\n  ", field.name, ": ", field.json);
  }
  return text + (fields_.empty() ? "}\n" : "\n}\n");
}

}  // namespace tril
