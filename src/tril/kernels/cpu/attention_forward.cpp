#include <utility>

#include "tril/kernels/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/cpu/attention_forward.cpp"
#include "hwy/foreach_target.h"
#include "tril/kernels/cpu/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::kernels::HWY_NAMESPACE {
namespace {

// What a row keeps while its run goes over the keys.
struct RowState {
  Bounds bounds;
  // For the current span.
  float largest;  // m: the largest score so far
  bool seen;      // whether any key was seen so far
  // For the spans before.
  bool merged_seen;
  float merged_largest;
  float merged_total;
};

// One worker's scratch.
struct Scratch {
  float* keys;       // [kTilesPerBlock, head_dim, 16]
  float* values;     // [kKeyBlock, width]
  float* scores;     // [kMaxRows, kKeyBlock]
  float* lane_sums;  // [kRunRows, 16]: of exponentials, by lane
  float* sums;       // [kRunRows, width]: p·v of the current span
  float* merged;     // [kRunRows, width]: of the spans before
  int64_t width;     // head_dim rounded up to whole vectors
};

int64_t scratch_floats(int64_t head_dim) {
  return kKeyBlock * (head_dim + padded(head_dim) + kMaxRows) +
         kRunRows * (kLanes + 2 * padded(head_dim));
}
Scratch scratch_of(float* workspace, int worker, int64_t head_dim) {
  float* next = workspace + worker * scratch_floats(head_dim);
  const auto take = [&](int64_t floats) { return std::exchange(next, next + floats); };
  const int64_t width = padded(head_dim);
  return {.keys = take(kKeyBlock * head_dim),
          .values = take(kKeyBlock * width),
          .scores = take(kMaxRows * kKeyBlock),
          .lane_sums = take(kRunRows * kLanes),
          .sums = take(kRunRows * width),
          .merged = take(kRunRows * width),
          .width = width};
}

struct Block {
  KeyTiles keys;
  BlockRows values;
};
// The block of `count` keys from `begin` on: copied to contiguous memory, or in place in a cache.
HWY_INLINE Block block_of(const AttentionForward& f, const AttentionRun& run, int64_t kv_head,
                          int64_t begin, int64_t count, const Scratch& scratch) {
  const int64_t head_dim = f.shape.head_dim;
  if (run.pages == nullptr) {
    const int64_t stride = f.shape.kv_heads * head_dim;
    const int64_t at = (run.origin + begin) * stride + kv_head * head_dim;
    return {transpose_rows(f.store.keys + at, stride, count, head_dim, scratch.keys),
            copy_rows(f.store.values + at, stride, count, head_dim, scratch.values)};
  }
  Block block{{}, {{}, scratch.width, kKeyTile}};
  const int64_t offset = kv_head * head_dim * kKeyTile;
  for (int64_t t = 0; t * kKeyTile < count; ++t) {
    const float* page = run.pages[begin / kKeyTile + t];
    block.keys.tile[t] = page + f.store.page_keys + offset;
    block.values.tile[t] = page + f.store.page_values + offset;
    if (scratch.width == head_dim) continue;
    // Rows that do not fill whole vectors cannot be read as such in place.
    float* to = scratch.values + t * kKeyTile * scratch.width;
    copy_rows(block.values.tile[t], head_dim, kKeyTile, head_dim, to);
    block.values.tile[t] = to;
  }
  return block;
}

// Turns the scores at `at` of row r of the run into weights relative to the new largest score, and
// rescales the previous sums to it.
HWY_INLINE void soften(const AttentionForward& f, int64_t head, int64_t row, int64_t begin,
                       const Bounds& in_block, float* HWY_RESTRICT at, float* HWY_RESTRICT sums,
                       float* HWY_RESTRICT lane_sums, int64_t width, RowState& state) {
  const int64_t first = in_block.lo / kLanes;
  const int64_t last = (in_block.hi + kLanes - 1) / kLanes;
  const auto whole = [&](int64_t g) HWY_ATTR {
    return in_block.lo <= g * kLanes && in_block.hi >= (g + 1) * kLanes;
  };
  const auto allowed = [&](int64_t g) HWY_ATTR {
    return lanes(in_block.lo - g * kLanes, in_block.hi - g * kLanes);
  };
  Vec16 largest = set16(kMinusInfinity);
  for (int64_t g = first; g < last; ++g) {
    const Vec16 score =
        scaled_score(f.shape, load16(at + g * kLanes), head, row, begin + g * kLanes);
    store16(score, at + g * kLanes);
    largest = max(largest, whole(g) ? score : select(allowed(g), score, set16(kMinusInfinity)));
  }
  const float before = state.largest;
  const float now = std::max(before, max(largest));
  Vec16 total = state.seen ? load16(lane_sums) : zero16();
  if (state.seen && now != before) {
    const Vec16 factor = set16(exp(before - now));
    total = total * factor;
    for (int64_t i = 0; i < width; i += kLanes) store16(load16(sums + i) * factor, sums + i);
  }
  for (int64_t g = first; g < last; ++g) {
    const Vec16 below = load16(at + g * kLanes) - set16(now);
    // A forbidden key gets weight zero. (Not e^-infinity: an underflowing result takes the
    // processor ten times as long.)
    const Vec16 weight =
        whole(g) ? exp(below)
                 : select(allowed(g), exp(select(allowed(g), below, zero16())), zero16());
    store16(weight, at + g * kLanes);
    total = total + weight;
  }
  store16(total, lane_sums);
  state.largest = now;
  state.seen = true;
}

// Adds the block of keys from `begin` on to the tile of `rows` rows from row r of the run.
HWY_INLINE void add_block(const AttentionForward& f, const AttentionRun& run, int64_t head,
                          const Block& block, int64_t begin, int64_t r, int64_t rows,
                          const Scratch& scratch, RowState* states) {
  const int64_t q_stride = f.shape.heads * f.shape.head_dim;
  const int64_t row = run.row_begin + r;
  Bounds in_block[kMaxRows];
  Bounds touched{};
  Start start = Start::zero;
  for (int64_t i = 0; i < rows; ++i) {
    in_block[i] = states[i].bounds.within(begin);
    touched = touched.joined(in_block[i]);
    if (states[i].seen) start = Start::there;
  }
  if (touched.empty()) return;
  scores(f.q + row * q_stride + head * f.shape.head_dim, q_stride, rows, block.keys, touched,
         f.shape.head_dim, scratch.scores);
  float* sums = scratch.sums + r * scratch.width;
  for (int64_t i = 0; i < rows; ++i) {
    if (in_block[i].empty()) continue;
    soften(f, head, row + i, begin, in_block[i], scratch.scores + i * kKeyBlock,
           sums + i * scratch.width, scratch.lane_sums + (r + i) * kLanes, scratch.width,
           states[i]);
  }
  weighted_band({scratch.scores, kKeyBlock, 1}, block.values, in_block, rows, start, sums,
                scratch.width, scratch.width);
}

// Merges a row's sums over a span into those of the spans before it.
HWY_INLINE void merge_span(const Scratch& scratch, int64_t r, RowState& state) {
  if (!state.seen) return;
  const float* sums = scratch.sums + r * scratch.width;
  float* merged = scratch.merged + r * scratch.width;
  const float span_total = sum(load16(scratch.lane_sums + r * kLanes));
  if (!state.merged_seen) {
    state.merged_largest = state.largest;
    state.merged_total = span_total;
    for (int64_t i = 0; i < scratch.width; i += kLanes) store16(load16(sums + i), merged + i);
  } else {
    const float now = std::max(state.merged_largest, state.largest);
    const Vec16 old_factor = set16(exp(state.merged_largest - now));
    const Vec16 new_factor = set16(exp(state.largest - now));
    const Vec16 joined = fma(set16(span_total), new_factor, set16(state.merged_total) * old_factor);
    state.merged_total = hn::GetLane(joined.part[0]);
    state.merged_largest = now;
    for (int64_t i = 0; i < scratch.width; i += kLanes) {
      store16(fma(load16(sums + i), new_factor, load16(merged + i) * old_factor), merged + i);
    }
  }
  state.merged_seen = true;
  state.largest = kMinusInfinity;
  state.seen = false;
}

// All rows of a run, for one head. Each block of keys is copied once and serves every row.
void forward_run(const AttentionForward& f, const AttentionRun& run, int64_t head,
                 const Scratch& scratch) {
  const AttentionShape& shape = f.shape;
  const int64_t kv_head = head / (shape.heads / shape.kv_heads);
  const int64_t rows = run.row_end - run.row_begin;
  RowState states[kRunRows];
  Bounds all{};
  for (int64_t r = 0; r < rows; ++r) {
    states[r] = {.bounds = bounds_of(shape, run, f.intervals, run.row_begin + r, head),
                 .largest = kMinusInfinity,
                 .seen = false,
                 .merged_seen = false,
                 .merged_largest = kMinusInfinity,
                 .merged_total = 0.0f};
    all = all.joined(states[r].bounds);
  }
  for (int64_t span = all.lo / kKeySpan * kKeySpan; span < all.hi; span += kKeySpan) {
    const int64_t begin = std::max(span, all.lo / kKeyBlock * kKeyBlock);
    const int64_t end = std::min(all.hi, span + kKeySpan);
    const int64_t last = begin + (end - 1 - begin) / kKeyBlock * kKeyBlock;
    for (int64_t next = begin; next < end; next += kKeyBlock) {
      const int64_t at = shape.descending_blocks ? begin + last - next : next;
      const Block block = block_of(f, run, kv_head, at, std::min(kKeyBlock, all.hi - at), scratch);
      for (int64_t r = 0; r < rows;) {
        const int64_t height = next_rows(rows - r);
        add_block(f, run, head, block, at, r, height, scratch, states + r);
        r += height;
      }
    }
    for (int64_t r = 0; r < rows; ++r) merge_span(scratch, r, states[r]);
  }

  for (int64_t r = 0; r < rows; ++r) {
    const int64_t row = run.row_begin + r;
    const float inverse = 1.0f / states[r].merged_total;
    const float* merged = scratch.merged + r * scratch.width;
    float* out = f.out + (row * shape.heads + head) * shape.head_dim;
    for_each_16(shape.head_dim, [&](const auto& load, const auto& store)
                                    HWY_ATTR { store(load(merged) * set16(inverse), out); });
    if (f.stats != nullptr) {
      float* stats = f.stats + (row * shape.heads + head) * 2;
      stats[0] = states[r].merged_largest;
      stats[1] = inverse;
    }
  }
}

void Forward(const Parallel& parallel, const AttentionForward& f) {
  for_parts_and_heads(
      parallel, f.run_count, f.shape.heads, [&](int64_t run, int64_t head, int worker) {
        forward_run(f, f.runs[run], head, scratch_of(f.workspace, worker, f.shape.head_dim));
      });
}

}  // namespace
}  // namespace tril::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril::kernels {

HWY_EXPORT(Forward);
HWY_EXPORT(scratch_floats);

int64_t attention_forward_workspace(const Parallel& parallel, int64_t head_dim) {
  return parallel.threads() * HWY_DYNAMIC_DISPATCH(scratch_floats)(head_dim);
}

void attention_forward(const Parallel& parallel, const AttentionForward& args) {
  HWY_DYNAMIC_DISPATCH(Forward)(parallel, args);
}

}  // namespace tril::kernels
#endif
