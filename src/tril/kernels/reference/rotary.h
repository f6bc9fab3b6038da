// Rotary positions as rotations of complex numbers, for tests and explanation.
//
//   (x[i] + i x[i+half]) e^(i angle),  angle = position × base^(-i/half),  half = head_dim / 2
//
// that is y[i] = x[i] cos - x[i+half] sin and y[i+half] = x[i+half] cos + x[i] sin. A rotation
// preserves lengths, so its gradient is the rotation by the opposite angle. x, y [rows, heads,
// head_dim]; table [positions, 2, half]: cosines, then sines. A template in any precision.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace tril::reference {

struct RotarySizes {
  int64_t heads = 0;
  int64_t head_dim = 0;
};

template <class T>
std::vector<T> rotary_table(int64_t positions, int64_t head_dim, T base) {
  const int64_t half = head_dim / 2;
  std::vector<T> table(positions * head_dim);
  for (int64_t position = 0; position < positions; ++position) {
    for (int64_t i = 0; i < half; ++i) {
      const T angle =
          static_cast<T>(position) * std::pow(base, -static_cast<T>(i) / static_cast<T>(half));
      table[position * head_dim + i] = std::cos(angle);
      table[position * head_dim + half + i] = std::sin(angle);
    }
  }
  return table;
}

// `sign` is 1 for the rotation and -1 for the opposite one.
template <class T>
std::vector<T> turn_heads(const RotarySizes& n, std::span<const int32_t> positions,
                          std::span<const T> table, std::span<const T> x, T sign) {
  const int64_t half = n.head_dim / 2;
  std::vector<T> y(x.size());
  for (size_t row = 0; row < positions.size(); ++row) {
    for (int64_t head = 0; head < n.heads; ++head) {
      const int64_t at = (static_cast<int64_t>(row) * n.heads + head) * n.head_dim;
      for (int64_t i = 0; i < half; ++i) {
        const T cosine = table[positions[row] * n.head_dim + i];
        const T sine = sign * table[positions[row] * n.head_dim + half + i];
        y[at + i] = x[at + i] * cosine - x[at + half + i] * sine;
        y[at + half + i] = x[at + half + i] * cosine + x[at + i] * sine;
      }
    }
  }
  return y;
}

template <class T>
std::vector<T> rotary(const RotarySizes& n, std::span<const int32_t> positions,
                      std::span<const T> table, std::span<const T> x) {
  return turn_heads<T>(n, positions, table, x, T(1));
}

template <class T>
std::vector<T> rotary_gradient(const RotarySizes& n, std::span<const int32_t> positions,
                               std::span<const T> table, std::span<const T> dy) {
  return turn_heads<T>(n, positions, table, dy, T(-1));
}

}  // namespace tril::reference
