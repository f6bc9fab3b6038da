// Shared by the halves of attention: checked sizes, and what a backward pass requires of a mask.
// For the sources of this folder.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "tril/base/error.h"
#include "tril/ops/attention.h"

namespace tril::ops {

struct AttentionSizes {
  int64_t query = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  float scale = 1.0f;
};

inline void sort_by_origin(auto runs) {
  std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) {
    return a.origin != b.origin ? a.origin < b.origin : a.row_begin < b.row_begin;
  });
}

// The reason why no backward pass is possible over these runs of rows, sorted by origin, if there
// is one.
template <class Run>
std::optional<std::string> backward_problem(std::span<const Interval> intervals,
                                            std::span<Run> runs) {
  int64_t keys_end = 0;  // of all runs so far
  Interval before;
  for (size_t r = 0; r < runs.size(); ++r) {
    if (r == 0 || runs[r].origin != runs[r - 1].origin) {
      if (runs[r].origin < keys_end) {
        return concat("attention gradient: the sequence from key ", runs[r].origin,
                      " shares keys with the one before it, which ends at ", keys_end);
      }
      before = Interval{};
    }
    for (auto row = runs[r].row_begin; row < runs[r].row_end; ++row) {
      const Interval& at = intervals[static_cast<size_t>(row)];
      if (at.lo < before.lo || at.hi < before.hi) {
        return concat("attention gradient: row ", row, " sees [", at.lo, ", ", at.hi,
                      ") after a row of its sequence that sees [", before.lo, ", ", before.hi,
                      "): neither end may decrease");
      }
      before = at;
      keys_end = std::max<int64_t>(keys_end, at.hi);
    }
  }
  return std::nullopt;
}

}  // namespace tril::ops
