// Words that a dot abbreviates, and some that it does not, for cutting sentences. Internal to
// text/. Words are given in small letters without the last dot; languages by base_language(), ""
// for one that is not known.
#pragma once

#include <string_view>

namespace tril {

// Whether the dot after this word does not end a sentence.
bool is_abbreviation(std::string_view word, std::string_view language);
// Whether it does not before a number: "No. 5".
bool is_abbreviation_of_number(std::string_view word);
// Whether "3." is the third in this language.
bool has_ordinals(std::string_view language);
// Whether a word of a single character, a letter with its signs, ends a sentence all the same, in a
// script without capitals: in these, the initials of names look like any short word. Of a language
// without a list those of all count.
bool is_short_word(std::string_view word, std::string_view language);
// A month or a century, after which day and number are written as "3.".
bool is_month(std::string_view word);

}  // namespace tril
