#include "tril/serve/request_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_map>

namespace tril::serve {
namespace {

using Kind = JsonValue::Kind;
constexpr JsonLimits kRequestJson{.max_bytes = 64 << 20, .max_depth = 8, .max_values = kMostFields};

template <class Number>
std::optional<Number> read_number(std::string_view text) {
  Number number{};
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

[[noreturn]] void fail_field(std::string_view name, std::string_view expected,
                             const JsonValue& value) {
  refuse(std::string(name), concat(name, ": expected ", expected, ", got ", describe(value)));
}

// The fields of a form or query; `what` is which of them, for errors.
Fields fields_of(std::string_view form, std::string_view what) {
  if (count_fields(form) > kMostFields) {
    refuse("", concat(what, " has more than ", kMostFields, " fields"));
  }
  auto fields = parse_form(form);
  if (!fields) refuse("", concat(what, " is not encoded as a form is: a=1&b=two%20words"));
  return std::move(*fields);
}

JsonValue object_of(const Fields& fields) {
  JsonValue object;
  object.kind = Kind::object;
  std::unordered_map<std::string_view, size_t> places;  // by name
  for (const auto& [name, value] : fields) {
    if (!is_utf8(name) || !is_utf8(value)) refuse(printable(name), "the text is not UTF-8");
    const auto [place, is_new] = places.emplace(name, object.items.size());
    JsonValue text;
    text.kind = Kind::string;
    text.text = value;
    if (is_new) {
      object.names.push_back(name);
      object.items.push_back(std::move(text));
      continue;
    }
    // A name that comes again makes a list.
    JsonValue& first = object.items[place->second];
    if (first.kind == Kind::string) {
      JsonValue list;
      list.kind = Kind::array;
      list.items.push_back(std::move(first));
      first = std::move(list);
    }
    first.items.push_back(std::move(text));
  }
  return object;
}

}  // namespace

RequestFields::RequestFields(JsonValue object, bool is_text)
    : object_(std::move(object)), is_text_(is_text), read_(object_.names.size(), false) {}

RequestFields RequestFields::of_body(const HttpRequest& request) {
  const std::string type = media_type(request.header("Content-Type"));
  // curl calls everything a form unless told otherwise; no form begins with a brace or bracket.
  const size_t first = request.body.find_first_not_of(" \t\r\n");
  const bool looks_like_json =
      first != std::string::npos && (request.body[first] == '{' || request.body[first] == '[');
  const bool is_form = type == "application/x-www-form-urlencoded";
  if (is_form && !looks_like_json) {
    return RequestFields(object_of(fields_of(request.body, "the body")), true);
  }
  const bool is_json = is_form || type.empty() || type == "application/json" ||
                       type == "text/json" || type.ends_with("+json");
  if (!is_json) {
    throw ApiError(
        415, "unsupported_media_type",
        concat("the body is ", printable(type),
               ": send application/json, or a form as application/x-www-form-urlencoded"));
  }
  try {
    JsonValue value = parse_json(request.body, "the body", kRequestJson);
    if (value.kind != Kind::object)
      refuse("", "the body: expected an object, got " + describe(value));
    return RequestFields(std::move(value), false);
  } catch (const Error& error) {
    refuse("", error.what());
  }
}

RequestFields RequestFields::of_query(const HttpRequest& request) {
  return RequestFields(object_of(fields_of(request.query(), "the query")), true);
}

RequestFields RequestFields::of(JsonValue object) {
  return RequestFields(std::move(object), false);
}

const JsonValue* RequestFields::find(std::string_view name) {
  for (size_t i = 0; i < object_.names.size(); ++i) {
    if (object_.names[i] != name) continue;
    read_[i] = true;
    return object_.items[i].kind == Kind::null ? nullptr : &object_.items[i];
  }
  return nullptr;
}

bool RequestFields::has(std::string_view name) const {
  const JsonValue* value = object_.find(name);
  return value != nullptr && value->kind != Kind::null;
}

const JsonValue* RequestFields::value(std::string_view name) { return find(name); }

std::optional<std::string> RequestFields::text(std::string_view name) {
  const JsonValue* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->kind != Kind::string) fail_field(name, "a text", *value);
  return value->text;
}

bool RequestFields::is_list(std::string_view name) const {
  const JsonValue* value = object_.find(name);
  return value != nullptr && value->kind == Kind::array;
}

std::optional<std::vector<std::string>> RequestFields::texts(std::string_view name, int64_t most) {
  const JsonValue* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->kind == Kind::string) return std::vector<std::string>{value->text};
  constexpr std::string_view kExpected = "a text or a list of texts";
  if (value->kind != Kind::array) fail_field(name, kExpected, *value);
  if (value->items.empty()) {
    refuse(std::string(name), concat(name, ": expected ", kExpected, ", got an empty list"));
  }
  if (std::ssize(value->items) > most) {
    throw ApiError(
        413, "too_large",
        concat(name, ": ", value->items.size(), " texts, a request may have at most ", most),
        std::string(name));
  }
  std::vector<std::string> texts;
  for (const JsonValue& item : value->items) {
    if (item.kind != Kind::string) fail_field(name, "a list of texts", item);
    texts.push_back(item.text);
  }
  return texts;
}

std::optional<int64_t> RequestFields::whole(std::string_view name, int64_t min, int64_t max) {
  const JsonValue* value = find(name);
  if (value == nullptr) return std::nullopt;
  std::optional<int64_t> number;
  if (value->kind == Kind::integer) number = value->integer;
  if (is_text_ && value->kind == Kind::string) number = read_number<int64_t>(value->text);
  if (!number || *number < min || *number > max) {
    fail_field(name, concat("a whole number from ", min, " to ", max), *value);
  }
  return number;
}

std::optional<uint64_t> RequestFields::seed(std::string_view name) {
  const JsonValue* value = find(name);
  if (value == nullptr) return std::nullopt;
  std::optional<uint64_t> number;
  const bool is_number = value->kind == Kind::integer || value->kind == Kind::number;
  if (is_number || (is_text_ && value->kind == Kind::string)) {
    number = read_number<uint64_t>(value->text);
  }
  if (!number) fail_field(name, "a whole number from 0 to 18446744073709551615", *value);
  return number;
}

std::optional<double> RequestFields::number(std::string_view name, double min, double max,
                                            bool above) {
  const JsonValue* value = find(name);
  if (value == nullptr) return std::nullopt;
  std::optional<double> number;
  if (value->kind == Kind::integer || value->kind == Kind::number) number = value->number;
  if (is_text_ && value->kind == Kind::string) number = read_number<double>(value->text);
  const bool fits = number && std::isfinite(*number) && *number <= max &&
                    (above ? *number > min : *number >= min);
  if (!fits) {
    fail_field(
        name,
        concat("a number ", above ? "above " : "from ", min, above ? ", at most " : " to ", max),
        *value);
  }
  return number;
}

std::optional<bool> RequestFields::truth(std::string_view name) {
  const JsonValue* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->kind == Kind::boolean) return value->boolean;
  if (is_text_ && value->kind == Kind::string) {
    for (const std::string_view word : {"true", "1", "yes"}) {
      if (equal_ignoring_case(value->text, word)) return true;
    }
    for (const std::string_view word : {"false", "0", "no"}) {
      if (equal_ignoring_case(value->text, word)) return false;
    }
  }
  fail_field(name, "true or false", *value);
}

std::optional<size_t> RequestFields::word_index(std::string_view name,
                                                const std::vector<std::string_view>& words) {
  const JsonValue* value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto found = value->kind == Kind::string
                         ? std::find(words.begin(), words.end(), value->text)
                         : words.end();
  if (found != words.end()) return static_cast<size_t>(found - words.begin());
  std::string expected;
  for (size_t i = 0; i < words.size(); ++i) {
    expected += concat(i == 0 ? "" : i + 1 == words.size() ? " or " : ", ", words[i]);
  }
  fail_field(name, expected, *value);
}

std::vector<std::vector<int32_t>> RequestFields::token_lists(std::string_view name) {
  constexpr size_t kMost = 1024;  // lists, and tokens of each
  const JsonValue* value = find(name);
  if (value == nullptr) return {};
  constexpr std::string_view kExpected = "lists of token ids, as in [[17], [4, 5]]";
  if (value->kind != Kind::array || value->items.size() > kMost)
    fail_field(name, kExpected, *value);
  std::vector<std::vector<int32_t>> lists;
  for (const JsonValue& list : value->items) {
    if (list.kind != Kind::array || list.items.empty() || list.items.size() > kMost) {
      fail_field(name, kExpected, list);
    }
    std::vector<int32_t>& ids = lists.emplace_back();
    for (const JsonValue& id : list.items) {
      if (id.kind != Kind::integer || id.integer < 0 ||
          id.integer > std::numeric_limits<int32_t>::max()) {
        fail_field(name, kExpected, id);
      }
      ids.push_back(static_cast<int32_t>(id.integer));
    }
  }
  return lists;
}

void RequestFields::finish() const {
  for (size_t i = 0; i < read_.size(); ++i) {
    if (read_[i]) continue;
    const std::string name = printable(object_.names[i]);
    refuse(object_.names[i], concat("there is no field ", name, ": see /openapi.json"));
  }
}

}  // namespace tril::serve
