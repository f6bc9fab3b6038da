// A JSON object of a tokenizer.json with the name of its place, for errors.
//
// Whatever is not understood is an error: a component reads its fields through this class, and
// finish() raises for a field that it did not read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tril/io/json.h"

namespace tril::pipeline {

class Component {
 public:
  // `where` is the file and the names that lead to the value: "tokenizer.json: normalizer".
  Component(const JsonValue& value, std::string where);

  const std::string& where() const { return where_; }
  // The field "type"; empty where it is missing or null.
  std::string type();

  // Null where the field is missing or null.
  const JsonValue* find(std::string_view field);
  const JsonValue& get(std::string_view field);
  std::string text(std::string_view field);
  std::string text_or(std::string_view field, std::string_view otherwise);
  bool flag(std::string_view field);
  bool flag_or(std::string_view field, bool otherwise);
  int64_t number(std::string_view field, int64_t least, int64_t most);
  // The objects of an array.
  std::vector<Component> list(std::string_view field);
  Component object(std::string_view field);
  // Fields that change no id and no text.
  void ignore(std::initializer_list<std::string_view> fields);

  // Raises `unsupported` for a field that was not read, unless it is null.
  void finish() const;
  [[noreturn]] void refuse(std::string_view why) const;  // `unsupported`
  [[noreturn]] void fail_field(std::string_view field, std::string_view expected) const;

 private:
  const JsonValue* value_;
  std::string where_;
  std::vector<bool> read_;  // by field
};

// For vocabularies: an object of ids by piece, each from 0 and below 2^31.
int32_t token_id(const JsonValue& value, const std::string& where);

}  // namespace tril::pipeline
