// Order-exact model of attention forward (kernels/attention.h): one row in one head.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tril/kernels/attention.h"
#include "tril/kernels/model/functions.h"

namespace tril::kernels::model {

// A query row and what it sees. Keys are counted from the row's origin.
template <class T>
struct AttentionRow {
  int64_t head_dim = 0;
  float scale = 1.0f;
  int64_t lo = 0;  // the row's interval, not empty
  int64_t hi = 0;
  const T* q = nullptr;
  // The bias of this head, by offset from the row's position: bias[bias_zero + key - position].
  const T* bias = nullptr;
  int64_t bias_zero = 0;
  int64_t position = 0;
  // Deliberate faults, for tests (TestHooks).
  struct Fault {
    bool descending_blocks = false;
    bool no_rescaling = false;
    int64_t known_keys = 0;  // forbidden ones below this are multiplied by zero
  } fault{};
};

// The running softmax over one span of keys: largest score, sums of weights by lane, and sums of
// weighted values.
template <class T>
struct SpanSums {
  T largest = constant<T>(-std::numeric_limits<float>::infinity());
  Lanes<T> totals = lanes_of<T>(0.0f);
  std::vector<T> values{};
  bool seen = false;
};

// scale (q · k) + bias
template <class T, class Keys>
T score(const AttentionRow<T>& row, const Keys& keys, int64_t key) {
  T dot = constant<T>(0.0f);
  for (int64_t d = 0; d < row.head_dim; ++d) dot = fma(row.q[d], keys.key(key, d), dot);
  const T scaled = multiply(dot, constant<T>(row.scale));
  return row.bias == nullptr ? scaled : add(scaled, row.bias[row.bias_zero + key - row.position]);
}

// Adds the block of kKeyBlock keys from `begin` on. Forbidden lanes of a group that the row touches
// get a score of minus infinity and a weight of zero: constants, whatever their keys hold.
template <class T, class Keys>
void add_block(const AttentionRow<T>& row, const Keys& keys, int64_t begin, SpanSums<T>& sums) {
  const int64_t lo = std::clamp<int64_t>(row.lo - begin, 0, kKeyBlock);
  const int64_t hi = std::clamp<int64_t>(row.hi - begin, 0, kKeyBlock);
  if (lo >= hi) return;
  const int64_t first = lo / kVirtualLanes * kVirtualLanes;
  const int64_t last = (hi + kVirtualLanes - 1) / kVirtualLanes * kVirtualLanes;
  const T zero = constant<T>(0.0f);
  const T lowest = constant<T>(-std::numeric_limits<float>::infinity());

  std::array<T, kKeyBlock> weights;
  Lanes<T> largest = lanes_of<T>(-std::numeric_limits<float>::infinity());
  for (int64_t j = first; j < last; ++j) {
    T& lane = largest[static_cast<size_t>(j % kVirtualLanes)];
    const bool sees = j >= lo && j < hi;
    T& at = weights[static_cast<size_t>(j)];
    at = sees ? score(row, keys, begin + j) : lowest;
    lane = maximum(lane, at);
  }
  const T before = sums.largest;
  const T now = larger(before, largest_of(largest));
  if (sums.seen && !row.fault.no_rescaling) {
    const auto changed = differs(now, before);
    const T factor = exponential(subtract(before, now));
    const auto rescale = [&](T& x) { x = select(changed, multiply(x, factor), x); };
    for (T& total : sums.totals) rescale(total);
    for (T& value : sums.values) rescale(value);
  } else if (!sums.seen) {
    sums.values.assign(static_cast<size_t>(row.head_dim), zero);
  }
  for (int64_t j = first; j < last; ++j) {
    const bool sees = j >= lo && j < hi;
    T& at = weights[static_cast<size_t>(j)];
    at = sees ? exponential(subtract(at, now)) : zero;
    T& total = sums.totals[static_cast<size_t>(j % kVirtualLanes)];
    total = add(total, at);
  }
  const int64_t multiplied = std::clamp(row.fault.known_keys - begin, hi, last);
  for (int64_t j = lo; j < multiplied; ++j) {
    for (int64_t d = 0; d < row.head_dim; ++d) {
      T& value = sums.values[static_cast<size_t>(d)];
      value = fma(weights[static_cast<size_t>(j)], keys.value(begin + j, d), value);
    }
  }
  sums.largest = now;
  sums.seen = true;
}

// The spans before, merged.
template <class T>
struct MergedSums {
  T largest{};
  T total{};
  std::vector<T> values{};
  bool seen = false;
};
template <class T>
void merge_span(const SpanSums<T>& span, MergedSums<T>& merged) {
  if (!span.seen) return;
  const T span_total = sum_of(span.totals);
  if (!merged.seen) {
    merged = {span.largest, span_total, span.values, true};
    return;
  }
  const T now = larger(merged.largest, span.largest);
  const T old_factor = exponential(subtract(merged.largest, now));
  const T new_factor = exponential(subtract(span.largest, now));
  merged.total = fma(span_total, new_factor, multiply(merged.total, old_factor));
  merged.largest = now;
  for (size_t d = 0; d < merged.values.size(); ++d) {
    merged.values[d] = fma(span.values[d], new_factor, multiply(merged.values[d], old_factor));
  }
}

// keys.key(j, d) and keys.value(j, d) are those of key j, counted from the origin. out [head_dim];
// stats, if any, are the largest score and 1 / sum.
template <class T, class Keys>
void attention_row(const AttentionRow<T>& row, const Keys& keys, T* out, T* stats = nullptr) {
  MergedSums<T> merged;
  for (int64_t span = row.lo / kKeySpan * kKeySpan; span < row.hi; span += kKeySpan) {
    SpanSums<T> sums;
    const int64_t begin = std::max(span, row.lo / kKeyBlock * kKeyBlock);
    const int64_t end = std::min(row.hi, span + kKeySpan);
    const int64_t last = begin + (end - 1 - begin) / kKeyBlock * kKeyBlock;
    for (int64_t next = begin; next < end; next += kKeyBlock) {
      add_block(row, keys, row.fault.descending_blocks ? begin + last - next : next, sums);
    }
    merge_span(sums, merged);
  }
  const T inverse = divide(constant<T>(1.0f), merged.total);
  for (int64_t d = 0; d < row.head_dim; ++d) {
    out[d] = multiply(merged.values[static_cast<size_t>(d)], inverse);
  }
  if (stats != nullptr) {
    stats[0] = merged.largest;
    stats[1] = inverse;
  }
}

}  // namespace tril::kernels::model
