// How wide text is on a terminal, so that columns stand below each other in any script.
//
// कैसे is four characters and two columns: the signs above a letter take none. The sign of का stands
// beside its letter and takes one. See scripts/make_width_table.py for the rules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tril {

// Columns of one line. What is not UTF-8 counts a column a byte.
int64_t display_width(std::string_view text);

// The text with blanks behind it (or before it) up to `width` columns; longer text stays whole.
std::string pad_right(std::string_view text, int64_t width);
std::string pad_left(std::string_view text, int64_t width);

}  // namespace tril
