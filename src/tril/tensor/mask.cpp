#include "tril/tensor/mask.h"

#include <algorithm>

#include "tril/base/error.h"

namespace tril {
namespace {

void check_segment(const Segment& segment) {
  require(
      segment.origin >= 0 && segment.length >= 0 && segment.origin <= INT32_MAX - segment.length,
      ErrorCode::invalid_argument, "mask: a segment of ", segment.length, " keys from ",
      segment.origin);
}

// One row per key; `interval(s, i, n)` gives the row at position i of a segment of n keys from s.
template <class F>
Mask build(std::span<const Segment> segments, const F& interval) {
  std::vector<Interval> rows;
  for (const Segment& segment : segments) {
    require(
        segment.origin >= 0 && segment.length >= 0 && segment.origin <= INT32_MAX - segment.length,
        ErrorCode::invalid_argument, "mask: a segment of ", segment.length, " keys from ",
        segment.origin);
    for (int32_t i = 0; i < segment.length; ++i) {
      rows.push_back(interval(segment.origin, i, segment.length));
    }
  }
  return Mask(std::move(rows));
}

}  // namespace

void check_within(std::span<const Interval> rows, int64_t keys) {
  for (size_t row = 0; row < rows.size(); ++row) {
    const Interval& at = rows[row];
    require(at.empty() || (at.origin >= 0 && at.origin <= at.lo && at.hi <= keys),
            ErrorCode::invalid_argument, "mask: row ", row, " sees [", at.lo, ", ", at.hi,
            ") of a sequence from ", at.origin, ", but there are ", keys, " keys");
  }
}

void check_causal(std::span<const Interval> rows, std::span<const int32_t> positions,
                  std::span<const int32_t> prefixes) {
  require(positions.size() == rows.size() && prefixes.size() == rows.size(),
          ErrorCode::invalid_argument, "mask: ", rows.size(), " rows but ", positions.size(),
          " positions and ", prefixes.size(), " prefixes");
  for (size_t row = 0; row < rows.size(); ++row) {
    const Interval& at = rows[row];
    const int64_t limit = at.origin + std::max<int64_t>(int64_t{positions[row]} + 1, prefixes[row]);
    require(at.empty() || at.hi <= limit, ErrorCode::invalid_argument, "mask: row ", row,
            " at position ", positions[row], " sees keys up to ", at.hi - 1,
            ", the future begins at ", limit);
  }
}

Mask Mask::full(std::span<const Segment> segments) {
  return build(segments, [](int32_t s, int32_t, int32_t n) { return full_interval(s, n); });
}

Mask Mask::causal(std::span<const Segment> segments) {
  return build(segments, [](int32_t s, int32_t i, int32_t) { return causal_interval(s, i); });
}

Mask Mask::window(std::span<const Segment> segments, int32_t width) {
  require(width >= 1, ErrorCode::invalid_argument, "mask: a window of ", width,
          " keys; it needs at least 1");
  return build(segments,
               [width](int32_t s, int32_t i, int32_t) { return window_interval(s, i, width); });
}

Mask Mask::prefix(std::span<const Segment> segments, int32_t length) {
  require(length >= 0, ErrorCode::invalid_argument, "mask: a prefix of ", length, " keys");
  return build(segments, [length](int32_t s, int32_t i, int32_t n) {
    return prefix_interval(s, i, n, length);
  });
}

Mask Mask::cross(int64_t rows, Segment keys) {
  require(rows >= 0, ErrorCode::invalid_argument, "mask: ", rows, " rows");
  check_segment(keys);
  return Mask(
      std::vector<Interval>(static_cast<size_t>(rows), full_interval(keys.origin, keys.length)));
}

Mask Mask::operator&(const Mask& other) const {
  require(rows_.size() == other.rows_.size(), ErrorCode::invalid_argument, "mask: ", rows_.size(),
          " rows and ", other.rows_.size(), " cannot be combined");
  std::vector<Interval> rows(rows_.size());
  for (size_t row = 0; row < rows.size(); ++row) {
    require(rows_[row].origin == other.rows_[row].origin, ErrorCode::invalid_argument, "mask: row ",
            row, " belongs to the sequence from ", rows_[row].origin, " in one mask and from ",
            other.rows_[row].origin, " in the other");
    rows[row] = intersect(rows_[row], other.rows_[row]);
  }
  return Mask(std::move(rows));
}

void Mask::append(const Mask& other) {
  rows_.insert(rows_.end(), other.rows_.begin(), other.rows_.end());
}

std::string Mask::to_string(int64_t keys) const {
  std::string text;
  for (const Interval& row : rows_) {
    for (int64_t key = 0; key < keys; ++key) {
      text += row.sees(key) ? "   0" : "  -∞";
    }
    text += '\n';
  }
  return text;
}

Mask Mask::parse(std::span<const uint8_t> allowed, int64_t rows, int64_t keys) {
  int64_t entries = 0;
  require(rows >= 0 && keys >= 0 && keys <= INT32_MAX &&
              !__builtin_mul_overflow(rows, keys, &entries) &&
              static_cast<int64_t>(allowed.size()) == entries,
          ErrorCode::invalid_argument, "mask: ", allowed.size(), " entries are no matrix of ", rows,
          " × ", keys);
  std::vector<Interval> intervals;
  for (int64_t row = 0; row < rows; ++row) {
    const auto line = allowed.subspan(static_cast<size_t>(row * keys), static_cast<size_t>(keys));
    const auto sees = [](uint8_t entry) { return entry != 0; };
    const auto first = std::find_if(line.begin(), line.end(), sees);
    const auto end = std::find_if_not(first, line.end(), sees);
    const auto again = std::find_if(end, line.end(), sees);
    const auto at = [&](auto place) { return static_cast<int32_t>(place - line.begin()); };
    require(again == line.end(), ErrorCode::invalid_argument, "mask: row ", row,
            " is no interval: it sees keys ", at(first), " to ", at(end) - 1, ", then not ",
            at(end), ", then ", at(again), " again; tril's masks are one interval of keys per row");
    intervals.push_back(first == line.end() ? Interval{} : Interval{0, at(first), at(end)});
  }
  return Mask(std::move(intervals));
}

Mask Mask::parse(std::string_view text) {
  std::vector<uint8_t> allowed;
  int64_t rows = 0;
  int64_t keys = -1;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    int64_t count = 0;
    for (const char entry : line) {
      if (entry == ' ' || entry == '\t' || entry == '\r') continue;
      require(entry == '0' || entry == '1', ErrorCode::invalid_argument, "mask: line ", rows + 1,
              " holds '", entry, "'; entries are 0 and 1");
      allowed.push_back(entry == '1' ? 1 : 0);
      ++count;
    }
    if (count == 0) continue;
    require(keys < 0 || keys == count, ErrorCode::invalid_argument, "mask: line ", rows + 1,
            " has ", count, " entries, the lines before have ", keys);
    keys = count;
    ++rows;
  }
  return parse(allowed, rows, std::max<int64_t>(keys, 0));
}

}  // namespace tril
