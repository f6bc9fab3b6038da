// RequestFields: the named values of a request, from a JSON object, a form or a query.
//
// Each getter raises an ApiError that names the field, what was expected and what came. In forms
// and queries all values are text; there numbers and truth values are read from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/words.h"
#include "tril/io/json.h"
#include "tril/serve/api_error.h"
#include "tril/serve/http.h"
#include "tril/serve/http_text.h"

namespace tril::serve {

class RequestFields {
 public:
  // From the body, by its content type: JSON (also where no type is given) or a form. Raises an
  // ApiError: 400 for what cannot be read, 415 for another type.
  static RequestFields of_body(const HttpRequest& request);
  // From the query of the target.
  static RequestFields of_query(const HttpRequest& request);
  // From a value that was read before; `where` is for errors.
  static RequestFields of(JsonValue object);

  bool has(std::string_view name) const;  // and it is not null
  std::optional<std::string> text(std::string_view name);
  // A text, or a list of 1 to `most` texts.
  std::optional<std::vector<std::string>> texts(std::string_view name, int64_t most);
  bool is_list(std::string_view name) const;
  std::optional<int64_t> whole(std::string_view name, int64_t min, int64_t max);
  std::optional<uint64_t> seed(std::string_view name);
  // Ends included, unless `above`: then only above `min`.
  std::optional<double> number(std::string_view name, double min, double max, bool above = false);
  std::optional<bool> truth(std::string_view name);
  // The index of the word among these.
  template <class Enum>
  std::optional<Enum> word(std::string_view name) {
    const auto index =
        word_index(name, {std::begin(Words<Enum>::kList), std::end(Words<Enum>::kList)});
    return index ? std::optional(static_cast<Enum>(*index)) : std::nullopt;
  }
  std::optional<size_t> word_index(std::string_view name,
                                   const std::vector<std::string_view>& words);
  // Lists of token ids.
  std::vector<std::vector<int32_t>> token_lists(std::string_view name);
  // The value as it is; null where there is none.
  const JsonValue* value(std::string_view name);

  // Raises for a field that no getter asked for.
  void finish() const;

 private:
  explicit RequestFields(JsonValue object, bool is_text);
  const JsonValue* find(std::string_view name);

  JsonValue object_;
  bool is_text_;  // all values are text
  std::vector<bool> read_;
};

}  // namespace tril::serve
