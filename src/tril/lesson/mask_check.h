// Is this mask causal? Reads a mask as a person writes it down and says where it is not.
//
// One row per line, cells apart by blanks, commas, brackets or bars; what follows # is a remark.
// Notations, one per mask:
//   0 and -inf (also -∞, -1e9 and any number below it)  what is added to the scores
//   1 and 0, true and false                             two conventions: 1 may mean "may look" or
//                                                       "blocked"; read as the one that is causal,
//                                                       else as "may look"
//   . and X (also · ■ and ✗ ×)                          a dot may look, a cross may not
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
  std::vector<bool> looks{};  // row after row: may row i look at column j
  bool sees(int64_t row, int64_t column) const {
    return looks[static_cast<size_t>(row * columns + column)];
  }

  // Cells that are not as in the causal mask, in reading order.
  struct Cell {
    int64_t row = 0, column = 0;
    bool operator==(const Cell&) const = default;
  };
  std::vector<Cell> leaks{};   // it may look at the future
  std::vector<Cell> hidden{};  // it may not look at itself or at the past
  // The causal mask turned over: it keeps the upper triangle and blocks the past.
  bool transposed = false;
  // The rows of the causal mask from the last to the first.
  bool upside_down = false;

  bool square() const { return rows == columns; }
  bool causal() const { return square() && leaks.empty() && hidden.empty(); }
  // No row sees the future, though it may see less than it could: a window, padding.
  bool leaks_nothing() const { return square() && leaks.empty(); }
};

// Raises `bad_format` for text that is no mask, naming the line.
MaskCheck check_mask(std::string_view text);

}  // namespace tril
