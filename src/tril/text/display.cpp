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

// Ascending, apart from each other; what lies between takes one column.
constexpr WidthRange kRanges[] = {
#include "tril/text/width_table.inc"
};

int64_t columns_of(char32_t character) {
  const WidthRange* range =
      std::lower_bound(std::begin(kRanges), std::end(kRanges), character,
                       [](const WidthRange& r, char32_t value) { return r.last < value; });
  return range == std::end(kRanges) || character < range->first ? 1 : range->columns;
}

std::string blanks(std::string_view text, int64_t width) {
  return std::string(static_cast<size_t>(std::max<int64_t>(0, width - display_width(text))), ' ');
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

}  // namespace tril
