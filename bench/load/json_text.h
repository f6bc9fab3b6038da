// Just enough JSON for a load generator: values are found in a text and no tree is built. Reading
// never goes past the text's end, whatever the text is; what is not JSON is either taken for
// something near it or raises std::runtime_error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace load {

// The value at a path such as "translations.0.text", as it is written; empty where there is none.
std::string_view json_at(std::string_view json, std::string_view path);

// The elements of an array, as they are written. Raises for anything but an array.
std::vector<std::string_view> json_elements(std::string_view array);

// What stands between the braces of an object, without spaces at the ends. Raises for anything but
// an object.
std::string_view json_members(std::string_view object);

// The text of a string, escapes decoded. Raises for anything but a string.
std::string json_string(std::string_view value);

// The other way: a string in quotes.
std::string json_quoted(std::string_view text);

}  // namespace load
