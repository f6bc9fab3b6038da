// Text that HTTP carries: queries, forms and header values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tril::serve {

using Fields = std::vector<std::pair<std::string, std::string>>;

// "%41+b" is "A b". Nothing for a "%" without two hexadecimal digits.
std::optional<std::string> percent_decoded(std::string_view text);
// Everything but letters, digits and "-._~" as %XX.
std::string percent_encoded(std::string_view text);

// Fields of one form or query at most: enough for two lists of 65,536 texts, the most that a server
// can be told to accept, and for the options beside them.
constexpr size_t kMostFields = 2 * 65'536 + 1'024;

// A query, or the body of a form: "a=1&b=2". Nothing for bad encoding or more than `most` fields.
std::optional<Fields> parse_form(std::string_view text, size_t most = kMostFields);
// How many fields parse_form() would find, whatever their encoding.
size_t count_fields(std::string_view text);

// Unicode characters of a text that is UTF-8.
int64_t count_characters(std::string_view text);
// Whether they are equal but for the case of ASCII letters.
bool equal_ignoring_case(std::string_view a, std::string_view b);
// "text/html" of "text/html; charset=utf-8", in lower case.
std::string media_type(std::string_view content_type);
// Without blanks and tabs at both ends.
std::string_view trimmed(std::string_view text);

// Whether an If-None-Match names this entity tag (with its quotes), or is "*".
bool names_tag(std::string_view if_none_match, std::string_view tag);

}  // namespace tril::serve
