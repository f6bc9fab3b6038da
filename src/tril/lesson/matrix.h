// A small matrix of figures to show: rows of doubles.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tril {

struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<double> values{};  // row by row

  double at(int64_t row, int64_t column) const {
    return values[static_cast<size_t>(row * columns + column)];
  }
  std::span<const double> row(int64_t row) const {
    return std::span(values).subspan(static_cast<size_t>(row * columns),
                                     static_cast<size_t>(columns));
  }
};

}  // namespace tril
