// Embedding lookup with positions, and its gradients, for tests and explanation.
//
//   out[row] = scale table[ids[row]] + positions[position_ids[row]]
//   dtable[e] = scale times the sum of dout[row] over the rows with ids[row] = e
//   dpositions[p] = the sum of dout[row] over the rows with position_ids[row] = p
//
// table [entries, columns], positions [places, columns], out [rows, columns]. A template in any
// precision.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tril::reference {

template <class T>
struct EmbeddingCase {
  int64_t columns = 0;
  T scale = 1;
  std::span<const int32_t> ids;           // [rows]
  std::span<const int32_t> position_ids;  // [rows], or empty for no positions
};

template <class T>
std::vector<T> embedding(const EmbeddingCase<T>& c, std::span<const T> table,
                         std::span<const T> positions = {}) {
  std::vector<T> out;
  for (size_t row = 0; row < c.ids.size(); ++row) {
    for (int64_t i = 0; i < c.columns; ++i) {
      const T position =
          c.position_ids.empty() ? T(0) : positions[c.position_ids[row] * c.columns + i];
      out.push_back(c.scale * table[c.ids[row] * c.columns + i] + position);
    }
  }
  return out;
}

// The gradient of the table (ids and their scale), or of the positions (position_ids and 1).
template <class T>
std::vector<T> embedding_gradient(int64_t columns, T scale, std::span<const int32_t> ids,
                                  int64_t entries, std::span<const T> dout) {
  std::vector<T> dtable(entries * columns);
  for (size_t row = 0; row < ids.size(); ++row) {
    for (int64_t i = 0; i < columns; ++i) {
      dtable[ids[row] * columns + i] += scale * dout[static_cast<int64_t>(row) * columns + i];
    }
  }
  return dtable;
}

}  // namespace tril::reference
