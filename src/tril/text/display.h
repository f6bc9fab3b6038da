// How wide text is on a terminal, so that columns line up in any script.
//
// कैसे has four characters and two columns: the signs above a letter take none. The sign of का
// stands beside its letter and takes one. See scripts/make_width_table.py for the rules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tril {

// Columns of one line. Each byte that is not UTF-8 counts as one column.
int64_t display_width(std::string_view text);

// The text with blanks after it (or before it) up to `width` columns; longer text stays whole.
std::string pad_right(std::string_view text, int64_t width);
std::string pad_left(std::string_view text, int64_t width);

// Text wrapped at blanks into lines of at most `width` columns. A newline in it begins a new line.
// A wider word gets a line of its own and stays whole. Runs of blanks become one, except at the
// beginning of a line, where they are the indent of every line made from it.
std::vector<std::string> wrapped(std::string_view text, int64_t width);

// The beginning of the text that takes at most `width` columns, with "…" where something was cut
// off.
std::string shortened(std::string_view text, int64_t width);

// For untrusted text on its way to a terminal: control characters, marks that change the direction
// of writing, line separators and bytes that are not UTF-8 become escapes (\n, \x1b, \u202e), so
// that no text can clear the screen or disguise itself. Everything else is unchanged, including the
// joiners of Indic scripts.
std::string escaped(std::string_view text);

}  // namespace tril
