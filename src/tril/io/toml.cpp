#include "tril/io/toml.h"

#include <algorithm>

#include "tril/io/json.h"

namespace tril {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// The line without a comment at its end. A # inside quotes is no comment; a backslash escapes a
// quote.
std::string_view without_comment(std::string_view line) {
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (quoted && line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == '#' && !quoted) {
      return line.substr(0, i);
    }
  }
  return line;
}

bool is_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
}

// Strings, numbers, booleans and one-line arrays are written as in JSON.
std::vector<std::string> values_of(const JsonValue& value, const std::string& where) {
  if (value.kind == JsonValue::Kind::array) {
    std::vector<std::string> values;
    for (const JsonValue& item : value.items) {
      require(item.kind == JsonValue::Kind::string, ErrorCode::bad_format, where,
              ": expected an array of strings, got ", describe(item), " in it");
      values.push_back(item.text);
    }
    return values;
  }
  require(value.kind == JsonValue::Kind::string || value.kind == JsonValue::Kind::integer ||
              value.kind == JsonValue::Kind::number || value.kind == JsonValue::Kind::boolean,
          ErrorCode::bad_format, where, ": expected a value, got ", describe(value));
  if (value.kind == JsonValue::Kind::boolean) return {value.boolean ? "true" : "false"};
  return {value.text};
}

JsonValue value_from(std::string_view text, const std::string& where) {
  try {
    return parse_json(trimmed(text), where);
  } catch (const Error&) {
    fail(ErrorCode::bad_format, where,
         ": expected text in double quotes, a number, true, false, or an array of texts, got ",
         printable(trimmed(text)));
  }
}

}  // namespace

std::vector<TomlOption> parse_toml(std::string_view text, const std::string& file) {
  std::vector<TomlOption> options;
  int64_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(without_comment(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string where = concat(file, ":", ++number);
    if (line.empty()) continue;
    const size_t equals = line.find('=');
    const std::string_view name = trimmed(line.substr(0, std::min(equals, line.size())));
    require(equals != line.npos && is_name(name), ErrorCode::bad_format, where,
            ": expected name = value, got ", printable(line));
    TomlOption option{std::string(name),
                      values_of(value_from(line.substr(equals + 1), where), where), number};
    require(std::none_of(options.begin(), options.end(),
                         [&](const TomlOption& other) { return other.name == option.name; }),
            ErrorCode::bad_format, where, ": ", option.name, " comes twice");
    options.push_back(std::move(option));
  }
  return options;
}

}  // namespace tril
