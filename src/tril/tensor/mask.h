// The mask algebra: masks as one interval per query row, and the textbook matrix as a view of them.
//
// A mask is built for sequences laid end to end ("packed"); sequence s owns the keys
// [origin, origin + length). No kernel ever builds the matrix of 0 and -inf: to_string() and
// parse() are for people and tests.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tril/base/interval.h"

namespace tril {

// A sequence among packed ones.
struct Segment {
  int32_t origin = 0;
  int32_t length = 0;
};

// Checks; each raises `invalid_argument` naming the first row that breaks its rule.
// Every non-empty interval lies within [origin, keys).
void check_within(std::span<const Interval> rows, int64_t keys);
// No row at position i sees past origin + max(i + 1, prefix), where each row has its prefix.
void check_causal(std::span<const Interval> rows, std::span<const int32_t> positions,
                  std::span<const int32_t> prefixes);

class Mask {
 public:
  Mask() = default;
  explicit Mask(std::vector<Interval> rows) : rows_(std::move(rows)) {}

  // One row per key of every segment, in order. Position i of a segment of n keys from s sees:
  static Mask full(std::span<const Segment> segments);    // [s, s+n)
  static Mask causal(std::span<const Segment> segments);  // [s, s+i+1)
  static Mask window(std::span<const Segment> segments,
                     int32_t width);  // the last `width` of causal
  static Mask prefix(std::span<const Segment> segments,
                     int32_t length);  // [s, s+min(n, max(p, i+1)))
  // `rows` query rows that all see all of `keys`: cross-attention of one sentence.
  static Mask cross(int64_t rows, Segment keys);

  // The intersection, row by row. The row counts and origins must agree.
  Mask operator&(const Mask& other) const;
  // Appends the rows of `other`.
  void append(const Mask& other);

  std::span<const Interval> rows() const { return rows_; }
  bool sees(int64_t row, int64_t key) const { return rows_[static_cast<size_t>(row)].sees(key); }

  // The matrix M of softmax(QK'/sqrt(d) + M) as text, for people: one line per row, 0 where the row
  // may see the key, -∞ where not.
  std::string to_string(int64_t keys) const;

  // From a matrix [rows, keys] of booleans (non-zero: may see), all rows belonging to one sequence
  // with origin 0. Raises `invalid_argument` when a row is not an interval, naming the keys that
  // show it.
  static Mask parse(std::span<const uint8_t> allowed, int64_t rows, int64_t keys);
  // From text: one line per row, entries separated by blanks, 1 where the row may see the key and 0
  // where not: a boolean matrix, not the additive one that to_string() prints.
  static Mask parse(std::string_view text);

 private:
  std::vector<Interval> rows_;
};

}  // namespace tril
