// How wide text is on a terminal, so that columns stand below each other in any script.
//
// कैसे is four characters and two columns: the signs above a letter take none. The sign of का stands
// beside its letter and takes one. See scripts/make_width_table.py for the rules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tril {

// Columns of one line. What is not UTF-8 counts a column a byte.
int64_t display_width(std::string_view text);

// The text with blanks behind it (or before it) up to `width` columns; longer text stays whole.
std::string pad_right(std::string_view text, int64_t width);
std::string pad_left(std::string_view text, int64_t width);

// Text broken into lines of at most `width` columns, at blanks. A newline in it begins a new line.
// A word wider than that gets a line of its own and stays whole. Runs of blanks become one, except
// at the beginning of a line, which every line made from it keeps as its indent.
std::vector<std::string> wrapped(std::string_view text, int64_t width);

// The beginning of the text that takes at most `width` columns, with "…" where something was left
// out.
std::string shortened(std::string_view text, int64_t width);

// For text that others wrote, on its way to a terminal: control characters, marks that turn the
// direction of writing, line separators and bytes that are no UTF-8 stand as escapes (\n, \x1b,
// \u202e), so that no text can clear a screen or show itself as another. All else is as it was,
// the joiners of Indic scripts included.
std::string escaped(std::string_view text);

}  // namespace tril
