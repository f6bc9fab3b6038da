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

// The kinds of mask, for the row at position i of a sequence whose keys begin at `origin`.
// Everything: encoder and cross-attention, for a sequence of `length` keys.
constexpr Interval full_interval(int32_t origin, int32_t length) {
  return {origin, origin, origin + length};
}
// The row itself and what came before it.
constexpr Interval causal_interval(int32_t origin, int32_t position) {
  return {origin, origin, origin + position + 1};
}
// The last `width` keys of the causal mask.
constexpr Interval window_interval(int32_t origin, int32_t position, int32_t width) {
  const int32_t lo = position + 1 > width ? position + 1 - width : 0;
  return {origin, origin + lo, origin + position + 1};
}
// The first `prefix` positions see each other, the rest is causal; the sequence has `length` keys.
constexpr Interval prefix_interval(int32_t origin, int32_t position, int32_t length,
                                   int32_t prefix) {
  const int32_t hi = prefix > position + 1 ? prefix : position + 1;
  return {origin, origin, origin + (hi < length ? hi : length)};
}

// Combining masks is intersecting intervals.
constexpr Interval intersect(const Interval& a, const Interval& b) {
  return {a.origin, a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
}

}  // namespace tril
