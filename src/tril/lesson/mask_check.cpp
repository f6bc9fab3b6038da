#include "tril/lesson/mask_check.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "tril/base/error.h"
#include "tril/text/display.h"

namespace tril {
namespace {

constexpr int64_t kMost = 512;  // rows and columns: more than anyone writes by hand

enum class Sign { zero, one, minus_infinity, dot, cross };

std::optional<Sign> sign_of(std::string_view cell) {
  struct Spelling {
    std::string_view text;
    Sign sign;
  };
  static constexpr std::array kSpellings = {
      Spelling{"0", Sign::zero},
      Spelling{"false", Sign::zero},
      Spelling{"False", Sign::zero},
      Spelling{"1", Sign::one},
      Spelling{"true", Sign::one},
      Spelling{"True", Sign::one},
      Spelling{"-inf", Sign::minus_infinity},
      Spelling{"-∞", Sign::minus_infinity},
      Spelling{"−∞", Sign::minus_infinity},
      Spelling{"−inf", Sign::minus_infinity},
      Spelling{".", Sign::dot},
      Spelling{"·", Sign::dot},
      Spelling{"■", Sign::dot},
      Spelling{"✓", Sign::dot},
      Spelling{"X", Sign::cross},
      Spelling{"x", Sign::cross},
      Spelling{"×", Sign::cross},
      Spelling{"✗", Sign::cross},
  };
  for (const Spelling& spelling : kSpellings) {
    if (cell == spelling.text) return spelling.sign;
  }
  double number = 0.0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), number);
  if (error != std::errc() || end != cell.data() + cell.size()) return std::nullopt;
  if (number == 0.0) return Sign::zero;
  if (number == 1.0) return Sign::one;
  if (number <= -1e4) return Sign::minus_infinity;  // -65504 is the lowest number of half precision
  return std::nullopt;
}

struct Signs {
  int64_t rows = 0, columns = 0;
  std::vector<Sign> cells{};
  bool has(Sign sign) const { return std::ranges::find(cells, sign) != cells.end(); }
};

void add_row(std::string_view line, int64_t number, Signs& signs) {
  constexpr std::string_view kBetween = " \t\r,;|[](){}";
  int64_t columns = 0;
  for (size_t at = line.find_first_not_of(kBetween); at != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(kBetween, at), line.size());
    const std::string_view cell = line.substr(at, end - at);
    at = line.find_first_not_of(kBetween, end);
    if (cell == "tensor" || cell == "array") continue;  // as PyTorch and NumPy print it
    if (cell.size() > 1 && cell.find_first_not_of(".Xx") == std::string_view::npos) {
      for (const char each : cell) {
        signs.cells.push_back(each == '.' ? Sign::dot : Sign::cross);
        ++columns;
      }
      continue;
    }
    const std::optional<Sign> sign = sign_of(cell);
    require(sign.has_value(), ErrorCode::bad_format, "mask: line ", number, ": '", escaped(cell),
            "' is none of 0, 1, -inf, true, false, '.' and 'X'");
    signs.cells.push_back(*sign);
    ++columns;
  }
  if (columns == 0) return;
  require(signs.rows == 0 || columns == signs.columns, ErrorCode::bad_format, "mask: line ", number,
          " has ", columns, " cells, the lines above have ", signs.columns);
  signs.columns = columns;
  ++signs.rows;
  require(signs.rows <= kMost && signs.columns <= kMost, ErrorCode::bad_format, "mask: more than ",
          kMost, " rows or columns");
}

Signs read_signs(std::string_view text) {
  Signs signs;
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    line = line.substr(0, line.find('#'));
    // Several rows may be on one line if each has brackets: [[0, -inf], [0, 0]].
    for (size_t close = line.find(']'); close != std::string_view::npos; close = line.find(']')) {
      add_row(line.substr(0, close), number, signs);
      line.remove_prefix(close + 1);
    }
    add_row(line, number, signs);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  require(signs.rows > 0, ErrorCode::bad_format, "mask: there is no row in it");
  return signs;
}

// Whether a cell is allowed, in this notation.
bool looks(Sign sign, MaskCheck::Notation notation) {
  switch (notation) {
    case MaskCheck::Notation::added: return sign == Sign::zero;
    case MaskCheck::Notation::ones_may_look: return sign == Sign::one;
    case MaskCheck::Notation::ones_are_blocked: return sign == Sign::zero;
    case MaskCheck::Notation::dots: return sign == Sign::dot;
  }
  return false;
}

MaskCheck compare(const Signs& signs, MaskCheck::Notation notation) {
  MaskCheck check{.rows = signs.rows, .columns = signs.columns, .notation = notation};
  check.transposed = check.upside_down = check.square();
  const int64_t offset = check.offset();
  for (int64_t row = 0; row < check.rows; ++row) {
    for (int64_t column = 0; column < check.columns; ++column) {
      const bool sees =
          looks(signs.cells[static_cast<size_t>(row * check.columns + column)], notation);
      check.looks.push_back(sees);
      if (sees && column > row + offset) check.leaks.push_back({row, column});
      if (!sees && column <= row + offset) check.hidden.push_back({row, column});
      check.transposed = check.transposed && sees == (row <= column);
      check.upside_down = check.upside_down && sees == (column <= check.rows - 1 - row);
    }
  }
  return check;
}

}  // namespace

MaskCheck check_mask(std::string_view text) {
  const Signs signs = read_signs(text);
  const bool dots = signs.has(Sign::dot) || signs.has(Sign::cross);
  const bool infinities = signs.has(Sign::minus_infinity);
  const bool ones = signs.has(Sign::one);
  const bool zeros = signs.has(Sign::zero);
  require(!(dots && (infinities || ones || zeros)) && !(infinities && ones), ErrorCode::bad_format,
          "mask: two notations in one mask: write 0 and -inf, or 1 and 0, or '.' and 'X'");
  if (dots) return compare(signs, MaskCheck::Notation::dots);
  if (infinities) return compare(signs, MaskCheck::Notation::added);
  // Only zeros: added to the scores they change nothing, so every row sees everything.
  if (!ones) return compare(signs, MaskCheck::Notation::added);
  const MaskCheck kept = compare(signs, MaskCheck::Notation::ones_may_look);
  const MaskCheck blocked = compare(signs, MaskCheck::Notation::ones_are_blocked);
  const auto wrong = [](const MaskCheck& check) {
    return check.leaks.size() + check.hidden.size();
  };
  return wrong(blocked) < wrong(kept) ? blocked : kept;
}

}  // namespace tril
