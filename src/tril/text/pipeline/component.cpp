#include "tril/text/pipeline/component.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tril::pipeline {

using Kind = JsonValue::Kind;

Component::Component(const JsonValue& value, std::string where)
    : value_(&value), where_(std::move(where)), read_(value.names.size(), false) {
  require(value.kind == Kind::object, ErrorCode::bad_format, where_, ": expected an object, got ",
          describe(value));
}

std::string Component::type() { return text_or("type", ""); }

const JsonValue* Component::find(std::string_view field) {
  for (size_t i = 0; i < value_->names.size(); ++i) {
    if (value_->names[i] != field) continue;
    read_[i] = true;
    const JsonValue& item = value_->items[i];
    return item.kind == Kind::null ? nullptr : &item;
  }
  return nullptr;
}

const JsonValue& Component::get(std::string_view field) {
  const JsonValue* item = find(field);
  require(item != nullptr, ErrorCode::bad_format, where_, ": the field ", field, " is missing");
  return *item;
}

std::string Component::text(std::string_view field) {
  const JsonValue& item = get(field);
  if (item.kind != Kind::string) fail_field(field, "a string");
  return item.text;
}

std::string Component::text_or(std::string_view field, std::string_view otherwise) {
  return find(field) == nullptr ? std::string(otherwise) : text(field);
}

bool Component::flag(std::string_view field) {
  const JsonValue& item = get(field);
  if (item.kind != Kind::boolean) fail_field(field, "true or false");
  return item.boolean;
}

bool Component::flag_or(std::string_view field, bool otherwise) {
  return find(field) == nullptr ? otherwise : flag(field);
}

int64_t Component::number(std::string_view field, int64_t least, int64_t most) {
  const JsonValue& item = get(field);
  if (item.kind != Kind::integer || item.integer < least || item.integer > most) {
    fail_field(field, concat("an integer from ", least, " to ", most));
  }
  return item.integer;
}

std::vector<Component> Component::list(std::string_view field) {
  const JsonValue& array = get(field);
  if (array.kind != Kind::array) fail_field(field, "an array");
  std::vector<Component> components;
  components.reserve(array.items.size());
  for (size_t i = 0; i < array.items.size(); ++i) {
    components.emplace_back(array.items[i], concat(where_, ": ", field, ": ", i));
  }
  return components;
}

Component Component::object(std::string_view field) {
  return {get(field), concat(where_, ": ", field)};
}

void Component::ignore(std::initializer_list<std::string_view> fields) {
  for (const std::string_view field : fields) find(field);
}

void Component::finish() const {
  for (size_t i = 0; i < read_.size(); ++i) {
    require(read_[i] || value_->items[i].kind == Kind::null, ErrorCode::unsupported, where_,
            ": the field ", printable(value_->names[i]), " is not understood");
  }
}

void Component::refuse(std::string_view why) const {
  fail(ErrorCode::unsupported, where_, ": ", why);
}

void Component::fail_field(std::string_view field, std::string_view expected) const {
  const JsonValue* item = value_->find(field);
  fail(ErrorCode::bad_format, where_, ": ", field, ": expected ", expected, ", got ",
       item == nullptr ? "nothing" : describe(*item));
}

int32_t token_id(const JsonValue& value, const std::string& where) {
  require(value.kind == Kind::integer && value.integer >= 0 &&
              value.integer < std::numeric_limits<int32_t>::max(),
          ErrorCode::bad_format, where, ": expected an id, got ", describe(value));
  return static_cast<int32_t>(value.integer);
}

}  // namespace tril::pipeline
