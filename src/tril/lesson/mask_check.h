// Is this mask causal? Reads a hand-written mask and says where it is not.
//
// One row per line or per pair of brackets, cells separated by blanks, commas or bars; a # begins a
// remark. A mask with more columns than rows is that of the last rows, the others being cached.
// Notations, one per mask:
//   0 and -inf (also -∞, and any number from -1e4 down) what is added to the scores
//   1 and 0, true and false                             two conventions: 1 may mean "may look" or
//                                                       "blocked"; read as the one with fewer
//                                                       cells that are wrong; zeros alone are
//                                                       added, and block nothing
//   . and X (also · ■ and ✗ ×; .XX is three cells)      a dot may look, a cross may not
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tril {

struct MaskCheck {
  enum class Notation { added, ones_may_look, ones_are_blocked, dots };

  int64_t rows = 0, columns = 0;
  Notation notation = Notation::added;
  std::vector<bool> looks{};  // row by row: may row i look at column j
  bool sees(int64_t row, int64_t column) const {
    return looks[static_cast<size_t>(row * columns + column)];
  }

  // Cells that differ from the causal mask, in reading order.
  struct Cell {
    int64_t row = 0, column = 0;
    bool operator==(const Cell&) const = default;
  };
  std::vector<Cell> leaks{};   // it may look at the future
  std::vector<Cell> hidden{};  // it may not look at itself or at the past
  // The transposed causal mask: it keeps the upper triangle and blocks the past.
  bool transposed = false;
  // The rows of the causal mask from the last to the first.
  bool upside_down = false;

  bool square() const { return rows == columns; }
  // Keys before the first row's own, which are in a cache.
  int64_t offset() const { return columns > rows ? columns - rows : 0; }
  bool causal() const { return rows <= columns && leaks.empty() && hidden.empty(); }
  // No row sees the future, though it may see less than it could: a window, padding.
  bool leaks_nothing() const { return rows <= columns && leaks.empty(); }
  // The first row that sees no key at all, for which softmax gives NaN. -1: none.
  int64_t blind_row() const {
    for (int64_t row = 0; row < rows; ++row) {
      bool any = false;
      for (int64_t column = 0; column < columns; ++column) any = any || sees(row, column);
      if (!any) return row;
    }
    return -1;
  }
};

// Raises `bad_format` for text that is not a mask, naming the line.
MaskCheck check_mask(std::string_view text);

}  // namespace tril
