// The mask of one query row: the keys it may see. Nothing else is a mask in tril.
#pragma once

#include <cstdint>

namespace tril {

// A row may see the keys [lo, hi). `origin` is the first key of the row's sequence; blocks of keys
// are counted from it, which is what makes a row's bits independent of where its sequence lies.
// All three count keys of one key array, or logical positions of a cache slot (origin 0 there).
// An empty interval (lo >= hi) is legal: the row's output and gradients are exactly zero.
struct Interval {
  int32_t origin = 0;
  int32_t lo = 0;
  int32_t hi = 0;

  constexpr bool empty() const { return lo >= hi; }
  constexpr bool sees(int64_t key) const { return lo <= key && key < hi; }
  constexpr bool operator==(const Interval&) const = default;
};

// Combining masks is intersecting intervals.
constexpr Interval intersect(const Interval& a, const Interval& b) {
  return {a.origin, a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
}

}  // namespace tril
