#include "tril/text/display.h"

#include <algorithm>
#include <iterator>

#include "tril/text/unicode.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

struct WidthRange {
  char32_t first = 0, last = 0;
  int64_t columns = 1;
};

// Ascending, not overlapping; characters in between take one column.
constexpr WidthRange kWidthRanges[] = {
#include "tril/text/width_table.inc"
};

int64_t columns_of(char32_t character) {
  const WidthRange* range =
      std::lower_bound(std::begin(kWidthRanges), std::end(kWidthRanges), character,
                       [](const WidthRange& r, char32_t value) { return r.last < value; });
  return range == std::end(kWidthRanges) || character < range->first ? 1 : range->columns;
}

std::string escape_of(char32_t character, int digits, char letter) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text = {'\\', letter};
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    text += kHex[(character >> shift) & 0xF];
  }
  return text;
}

// An invisible character that a terminal acts on.
bool is_command(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) ||  // control characters, C0 and C1
         c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) ||
         (c >= 0x2066 && c <= 0x2069) ||  // direction marks
         c == 0x2028 || c == 0x2029;      // line and paragraph separators
}

void append_escaped(std::string& to, std::string_view valid) {
  for (const char32_t c : decode_utf8(valid)) {
    if (c == U'\n' || c == U'\t') {
      to += c == U'\n' ? "\\n" : "\\t";
    } else if (is_command(c)) {
      to += c < 0x100 ? escape_of(c, 2, 'x') : escape_of(c, 4, 'u');
    } else {
      to += encode_utf8(std::u32string_view(&c, 1));
    }
  }
}

std::string blanks(std::string_view text, int64_t width) {
  return std::string(static_cast<size_t>(std::max<int64_t>(0, width - display_width(text))), ' ');
}

// Wraps one line.
void wrap_line(std::string_view line, int64_t width, std::vector<std::string>& lines) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::string indent(line.substr(0, begin));
  std::string current = indent;
  bool empty = true;  // apart from the indent
  for (size_t at = begin; at < line.size();) {
    const size_t end = std::min(line.find(' ', at), line.size());
    const std::string_view word = line.substr(at, end - at);
    if (!empty && display_width(current) + 1 + display_width(word) > width) {
      lines.push_back(current);
      current = indent;
      empty = true;
    }
    if (!empty) current += ' ';
    current += word;
    empty = false;
    at = std::min(line.find_first_not_of(' ', end), line.size());
  }
  lines.push_back(empty ? std::string() : current);
}

}  // namespace

int64_t display_width(std::string_view text) {
  if (first_invalid_utf8(text)) return static_cast<int64_t>(text.size());
  int64_t width = 0;
  for (const char32_t character : decode_utf8(text)) width += columns_of(character);
  return width;
}

std::string pad_right(std::string_view text, int64_t width) {
  return std::string(text) + blanks(text, width);
}

std::string pad_left(std::string_view text, int64_t width) {
  return blanks(text, width) + std::string(text);
}

std::vector<std::string> wrapped(std::string_view text, int64_t width) {
  std::vector<std::string> lines;
  for (;;) {
    const size_t end = std::min(text.find('\n'), text.size());
    wrap_line(text.substr(0, end), width, lines);
    if (end == text.size()) return lines;
    text.remove_prefix(end + 1);
  }
}

std::string shortened(std::string_view text, int64_t width) {
  if (display_width(text) <= width) return std::string(text);
  if (width <= 0) return "";
  if (first_invalid_utf8(text)) return std::string(text.substr(0, static_cast<size_t>(width)));
  std::u32string characters = decode_utf8(text);
  int64_t columns = 1;  // for the sign that something is missing
  size_t kept = 0;
  while (kept < characters.size() && columns + columns_of(characters[kept]) <= width) {
    columns += columns_of(characters[kept++]);
  }
  characters.resize(kept);
  return encode_utf8(characters) + "…";
}

std::string escaped(std::string_view text) {
  std::string result;
  while (const auto bad = first_invalid_utf8(text)) {
    append_escaped(result, text.substr(0, *bad));
    result += escape_of(static_cast<unsigned char>(text[*bad]), 2, 'x');
    text.remove_prefix(*bad + 1);
  }
  append_escaped(result, text);
  return result;
}

}  // namespace tril
