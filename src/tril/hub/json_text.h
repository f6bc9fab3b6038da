// JSON for the files that an export writes: objects in the order of their fields. Internal to hub/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/error.h"
#include "tril/io/json.h"

namespace tril::hub {

inline std::string json_of(bool value) { return value ? "true" : "false"; }
inline std::string json_of(int64_t value) { return concat(value); }
inline std::string json_of(int32_t value) { return concat(value); }
inline std::string json_of(double value) { return concat(value); }
inline std::string json_of(std::string_view value) { return json_quoted(value); }
inline std::string json_of(const std::string& value) { return json_quoted(value); }
inline std::string json_of(const char* value) { return json_quoted(value); }

// [a, b], of texts that are JSON already.
inline std::string json_list(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += concat(text.empty() ? "" : ", ", item);
  return concat('[', text, ']');
}

class JsonObject {
 public:
  template <class Value>
  JsonObject& set(std::string_view name, const Value& value) {
    return set_raw(name, json_of(value));
  }
  JsonObject& set_raw(std::string_view name, std::string_view json) {
    text_ += concat(text_.empty() ? "" : ",", "\n  ", json_quoted(name), ": ", json);
    return *this;
  }
  std::string text() const { return concat('{', text_, "\n}"); }

 private:
  std::string text_;
};

}  // namespace tril::hub
