// The languages tril knows by name: those of the models in text/language_lists.h and a few more.
// Internal to text/.
#pragma once

#include <span>
#include <string_view>

namespace tril {

struct LanguageRow {
  std::string_view three;   // ISO 639-3
  std::string_view base;    // of two letters where ISO 639-1 has it
  std::string_view script;  // the usual one by ISO 15924; "" where there are two
  std::string_view name;    // in English
};

std::span<const LanguageRow> language_rows();
// By a code of two or three letters, small; null if it is not known. Codes of groups ("zho"), and
// old ones ("iw"), count.
const LanguageRow* find_language_row(std::string_view code);

}  // namespace tril
