// The config.json of a Hugging Face folder: fields with defaults, and a record of which were read,
// so that a field nobody knows does not go unnoticed. Internal to hub/.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tril/io/json.h"

namespace tril::hub {

class ForeignConfig {
 public:
  // Raises `bad_format` for anything but a JSON object.
  ForeignConfig(std::string_view text, std::string file);

  const std::string& file() const { return file_; }

  // Each raises `bad_format` for a value of another kind or outside the range. Without a default a
  // field must be there; null counts as absent.
  int64_t integer(std::string_view field, int64_t min, int64_t max,
                  std::optional<int64_t> otherwise = {});
  double number(std::string_view field, double min, double max, std::optional<double> otherwise);
  bool flag(std::string_view field, bool otherwise);
  std::string text(std::string_view field, std::optional<std::string> otherwise = {});
  // An object in this one, whose errors name the field; none where it is absent.
  std::optional<ForeignConfig> object(std::string_view field);
  // An integer, or a list of them.
  std::vector<int64_t> integers(std::string_view field, int64_t min, int64_t max);

  // For what only one value is computed for: raises `unsupported` for another one.
  void require_flag(std::string_view field, bool value);
  // For two fields that are one here: raises `unsupported` unless they are equal.
  int64_t same_integer(std::string_view first, std::string_view second, int64_t min, int64_t max);

  // Whether a field is there with another value than this number (false counts as 0, a list as
  // another value).
  bool differs(std::string_view field, double from) const;

  bool is_null(std::string_view field);
  // Whether a field is there, and neither null, false nor an empty list or object.
  bool is_set(std::string_view field) const;

  // Fields that change nothing that tril computes.
  void ignore(std::initializer_list<std::string_view> fields);
  // Those that were neither read nor ignored, in their order.
  std::vector<std::string> unknown() const;

 private:
  ForeignConfig(JsonValue object, std::string file)
      : file_(std::move(file)), object_(std::move(object)) {}
  const JsonValue* find(std::string_view field);
  [[noreturn]] void fail_field(std::string_view field, std::string_view expected,
                               const JsonValue* value) const;

  std::string file_;
  JsonValue object_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace tril::hub
