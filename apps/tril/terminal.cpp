#include "terminal.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "tril/text/display.h"
#include "tril/tril.h"

namespace tril::app {
namespace {

constexpr int64_t kPlain = 80;      // where the width is unknown
constexpr int64_t kNarrowest = 40;  // below this nothing can be laid out
constexpr int64_t kReadable = 120;  // in longer lines it is hard to find the next beginning
constexpr int64_t kGap = 2;         // between columns of a table
constexpr int64_t kNarrowCell = 9;  // a column of words gets no narrower than this

int descriptor_of(Stream stream) { return stream == Stream::out ? STDOUT_FILENO : STDERR_FILENO; }

std::string coloured(std::string_view text, std::string_view code) {
  if (!has_colours()) return std::string(text);
  return fmt::format("\033[{}m{}\033[0m", code, text);
}

std::vector<int64_t> widths_of(const Table& rows) {
  std::vector<int64_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  return widths;
}

int64_t total_of(const std::vector<int64_t>& widths, std::string_view indent) {
  return std::accumulate(widths.begin(), widths.end(), display_width(indent)) +
         kGap * std::max<int64_t>(0, std::ssize(widths) - 1);
}

// Narrows the widest columns until the table fits or no column can get narrower.
void fit(std::vector<int64_t>& widths, std::string_view indent, int64_t room) {
  while (total_of(widths, indent) > room) {
    const auto widest = std::max_element(widths.begin(), widths.end());
    if (widest == widths.end() || *widest <= kNarrowCell) return;
    --*widest;
  }
}

// The lines of one row; cells wider than their column are wrapped.
void set_row(const std::vector<std::string>& row, const std::vector<int64_t>& widths, Align align,
             std::string_view indent, std::string& text) {
  std::vector<std::vector<std::string>> cells;
  size_t lines = 1;
  for (size_t i = 0; i < row.size(); ++i) {
    cells.push_back(display_width(row[i]) <= widths[i] ? std::vector{row[i]}
                                                       : wrapped(row[i], widths[i]));
    lines = std::max(lines, cells.back().size());
  }
  for (size_t line = 0; line < lines; ++line) {
    std::string set(indent);
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string cell = line < cells[i].size() ? cells[i][line] : "";
      if (i > 0) set.append(kGap, ' ');
      const bool right = align == Align::right && i > 0;
      set += right ? pad_left(cell, widths[i]) : pad_right(cell, widths[i]);
    }
    set.erase(set.find_last_not_of(' ') + 1);
    text += set + '\n';
  }
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

}  // namespace

bool is_terminal(Stream stream) { return isatty(descriptor_of(stream)) != 0; }

int64_t columns(Stream stream) {
  if (!is_terminal(stream)) return kPlain;
  winsize size{};
  if (::ioctl(descriptor_of(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kPlain;
  return std::max<int64_t>(size.ws_col, kNarrowest);
}

int64_t text_columns(Stream stream) { return std::min(columns(stream), kReadable); }

bool has_colours(Stream stream) {
  if (!is_terminal(stream)) return false;
  const char* no = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return (no == nullptr || *no == '\0') && term != nullptr && std::string_view(term) != "dumb";
}

std::string good(std::string_view text) { return coloured(text, "32"); }
std::string bad(std::string_view text) { return coloured(text, "1;31"); }

std::string set_text(std::string_view text, std::string_view first, std::string_view rest,
                     Stream stream) {
  const int64_t indent = std::max(display_width(first), display_width(rest));
  std::string set;
  for (const std::string& line : wrapped(text, text_columns(stream) - indent)) {
    set += set.empty() ? first : rest;
    set += line;
    set.erase(set.find_last_not_of(' ') + 1);
    set += '\n';
  }
  return set;
}

std::string error_line(std::string_view text) {
  const std::string line = concat("tril: ", text);
  return is_terminal(Stream::err) ? set_text(line, "", "  ", Stream::err) : line + '\n';
}

void print_text(std::string_view text) { fmt::print("{}", set_text(text, "  ", "  ")); }

std::string set_table(const Table& rows, Align align, std::string_view indent) {
  std::vector<int64_t> widths = widths_of(rows);
  fit(widths, indent, columns());
  std::string text;
  for (const auto& row : rows) set_row(row, widths, align, indent, text);
  return text;
}

void print_table(const Table& rows, Align align, std::string_view indent) {
  fmt::print("{}", set_table(rows, align, indent));
}

void print_beside(const Table& left, const Table& right, Align align) {
  constexpr std::string_view kIndent = "  ";
  constexpr std::string_view kApart = "      ";
  const int64_t width = total_of(widths_of(left), kIndent);
  if (width + std::ssize(kApart) + total_of(widths_of(right), "") > columns()) {
    print_table(left, align, kIndent);
    fmt::print("\n");
    print_table(right, align, kIndent);
    return;
  }
  const std::vector<std::string> first = lines_of(set_table(left, align, kIndent));
  const std::vector<std::string> second = lines_of(set_table(right, align, ""));
  for (size_t i = 0; i < std::max(first.size(), second.size()); ++i) {
    const std::string line = i < first.size() ? first[i] : "";
    if (i >= second.size()) {
      fmt::print("{}\n", line);
    } else {
      fmt::print("{}{}{}\n", pad_right(line, width), kApart, second[i]);
    }
  }
}

}  // namespace tril::app
