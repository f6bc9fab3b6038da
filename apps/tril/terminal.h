// The user's terminal: how wide it is, whether it shows colours; text and tables that fit it.
//
// Output that does not go to a terminal is laid out for 80 columns whatever COLUMNS says, so that
// what is piped or stored is the same everywhere. Results (translations, JSON) never pass through
// here: they are never wrapped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tril::app {

enum class Stream { out, err };

bool is_terminal(Stream stream);
// Columns of the terminal, at least 40; 80 where the stream is not a terminal.
int64_t columns(Stream stream = Stream::out);
// The width of running text: all columns, but no more than is comfortable to read.
int64_t text_columns(Stream stream = Stream::out);

// Whether the stream is a terminal with colours. NO_COLOR, set to anything, and TERM=dumb say no.
bool has_colours(Stream stream = Stream::out);
// Green for what is as it should be, red for what is not; plain where there are no colours.
std::string good(std::string_view text);
std::string bad(std::string_view text);

// One paragraph; its first line begins with `first`, the others with `rest`, which are indents or a
// mark and as many blanks: set_text("a long text", "1  ", "   ").
std::string set_text(std::string_view text, std::string_view first, std::string_view rest,
                     Stream stream = Stream::out);
// "tril: " and what is wrong, for stderr: one line, wrapped only on a terminal.
std::string error_line(std::string_view text);
// The same to stdout, indented by two.
void print_text(std::string_view text);

// Rows of cells. A column is as wide as its widest cell in any script; where a table is wider than
// the terminal, the widest columns of words are wrapped.
using Table = std::vector<std::vector<std::string>>;
// Alignment of the columns after the first, which is aligned left.
enum class Align { left, right };
std::string set_table(const Table& rows, Align align, std::string_view indent = "  ");
void print_table(const Table& rows, Align align, std::string_view indent = "  ");
// Two tables beside each other where there is room, else one below the other.
void print_beside(const Table& left, const Table& right, Align align);

}  // namespace tril::app
