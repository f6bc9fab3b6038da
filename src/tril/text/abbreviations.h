// Words that a dot abbreviates, for cutting sentences. Internal to text/. Words are given in small
// letters without the last dot; languages by base_language(), "" for one that is not known.
#pragma once

#include <string_view>

namespace tril {

// Whether the dot after this word does not end a sentence.
bool is_abbreviation(std::string_view word, std::string_view language);
// Whether it does not before a number: "No. 5".
bool is_abbreviation_of_number(std::string_view word);
// Whether "3." is the third in this language.
bool has_ordinals(std::string_view language);
// A month or a century, after which day and number are written as "3.".
bool is_month(std::string_view word);

}  // namespace tril
