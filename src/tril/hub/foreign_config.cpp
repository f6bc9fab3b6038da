#include "tril/hub/foreign_config.h"

#include <utility>

namespace tril::hub {

ForeignConfig::ForeignConfig(std::string_view text, std::string file)
    : file_(std::move(file)), object_(parse_json(text, file_, kForeignJson)) {
  require(object_.kind == JsonValue::Kind::object, ErrorCode::bad_format, file_,
          ": expected an object, got ", describe(object_));
}

const JsonValue* ForeignConfig::find(std::string_view field) {
  known_.emplace(field);
  const JsonValue* value = object_.find(field);
  return value == nullptr || value->kind == JsonValue::Kind::null ? nullptr : value;
}

void ForeignConfig::fail_field(std::string_view field, std::string_view expected,
                               const JsonValue* value) const {
  fail(ErrorCode::bad_format, file_, ": ", field, ": expected ", expected,
       value == nullptr ? ", but it is missing" : concat(", got ", describe(*value)));
}

int64_t ForeignConfig::integer(std::string_view field, int64_t min, int64_t max,
                               std::optional<int64_t> otherwise) {
  const JsonValue* value = find(field);
  if (value == nullptr && otherwise) return *otherwise;
  if (value == nullptr || value->kind != JsonValue::Kind::integer || value->integer < min ||
      value->integer > max) {
    fail_field(field, concat("an integer from ", min, " to ", max), value);
  }
  return value->integer;
}

double ForeignConfig::number(std::string_view field, double min, double max,
                             std::optional<double> otherwise) {
  const JsonValue* value = find(field);
  if (value == nullptr && otherwise) return *otherwise;
  const bool numeric = value != nullptr && (value->kind == JsonValue::Kind::integer ||
                                            value->kind == JsonValue::Kind::number);
  if (!numeric || value->number < min || value->number > max) {
    fail_field(field, concat("a number from ", min, " to ", max), value);
  }
  return value->number;
}

bool ForeignConfig::flag(std::string_view field, bool otherwise) {
  const JsonValue* value = find(field);
  if (value == nullptr) return otherwise;
  if (value->kind != JsonValue::Kind::boolean) fail_field(field, "true or false", value);
  return value->boolean;
}

std::string ForeignConfig::text(std::string_view field, std::optional<std::string> otherwise) {
  const JsonValue* value = find(field);
  if (value == nullptr && otherwise) return *otherwise;
  if (value == nullptr || value->kind != JsonValue::Kind::string) {
    fail_field(field, "a string", value);
  }
  return value->text;
}

std::optional<ForeignConfig> ForeignConfig::object(std::string_view field) {
  const JsonValue* value = find(field);
  if (value == nullptr) return std::nullopt;
  if (value->kind != JsonValue::Kind::object) fail_field(field, "an object", value);
  return ForeignConfig(*value, concat(file_, ": ", field));
}

std::vector<int64_t> ForeignConfig::integers(std::string_view field, int64_t min, int64_t max) {
  const JsonValue* value = find(field);
  if (value == nullptr) return {};
  if (value->kind != JsonValue::Kind::array) return {integer(field, min, max)};
  std::vector<int64_t> list;
  for (const JsonValue& item : value->items) {
    if (item.kind != JsonValue::Kind::integer || item.integer < min || item.integer > max) {
      fail_field(field, concat("integers from ", min, " to ", max), &item);
    }
    list.push_back(item.integer);
  }
  return list;
}

void ForeignConfig::require_flag(std::string_view field, bool value) {
  require(flag(field, value) == value, ErrorCode::unsupported, file_, ": ", field, " is ",
          value ? "false" : "true", ": tril computes such models with ", value ? "true" : "false",
          " only");
}

int64_t ForeignConfig::same_integer(std::string_view first, std::string_view second, int64_t min,
                                    int64_t max) {
  const int64_t value = integer(first, min, max);
  const int64_t other = integer(second, min, max);
  require(value == other, ErrorCode::unsupported, file_, ": ", first, " is ", value, " and ",
          second, " is ", other, ": tril has one number for both");
  return value;
}

bool ForeignConfig::differs(std::string_view field, double from) const {
  const JsonValue* value = object_.find(field);
  if (value == nullptr) return false;
  switch (value->kind) {
    case JsonValue::Kind::null: return false;
    case JsonValue::Kind::boolean: return (value->boolean ? 1.0 : 0.0) != from;
    case JsonValue::Kind::integer:
    case JsonValue::Kind::number: return value->number != from;
    default: return true;
  }
}

bool ForeignConfig::is_null(std::string_view field) {
  known_.emplace(field);
  const JsonValue* value = object_.find(field);
  return value != nullptr && value->kind == JsonValue::Kind::null;
}

bool ForeignConfig::is_set(std::string_view field) const {
  const JsonValue* value = object_.find(field);
  if (value == nullptr) return false;
  switch (value->kind) {
    case JsonValue::Kind::null: return false;
    case JsonValue::Kind::boolean: return value->boolean;
    case JsonValue::Kind::array:
    case JsonValue::Kind::object: return !value->items.empty();
    default: return true;
  }
}

void ForeignConfig::ignore(std::initializer_list<std::string_view> fields) {
  known_.insert(fields.begin(), fields.end());
}

std::vector<std::string> ForeignConfig::unknown() const {
  std::vector<std::string> names;
  for (const std::string& name : object_.names) {
    if (!known_.contains(name)) names.push_back(name);
  }
  return names;
}

}  // namespace tril::hub
