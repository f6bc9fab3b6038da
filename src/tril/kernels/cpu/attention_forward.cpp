#include "tril/kernels/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/cpu/attention_forward.cpp"
#include "hwy/foreach_target.h"
#include "tril/kernels/cpu/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::kernels::HWY_NAMESPACE {
namespace {

// What a tile of rows keeps while it walks over the keys.
struct Running {
  float largest[kMaxRows];  // m: the largest score so far
  Vec16 sums[kMaxRows];     // of exponentials, a lane each
  bool seen[kMaxRows];      // whether any key was allowed so far

  HWY_INLINE void clear() {
    for (int r = 0; r < kMaxRows; ++r) {
      largest[r] = kMinusInfinity;
      sums[r] = zero16();
      seen[r] = false;
    }
  }
};

// One worker's scratch.
struct Scratch {
  float* scores;  // [kMaxRows, kKeyBlock]
  float* sums;    // [kMaxRows, width]: p·v of the current span
  float* merged;  // [kMaxRows, width]: of the spans before
  int64_t width;  // head_dim rounded up to whole vectors
};

int64_t padded(int64_t head_dim) { return (head_dim + kLanes - 1) / kLanes * kLanes; }
int64_t scratch_floats(int64_t head_dim) { return kMaxRows * (kKeyBlock + 2 * padded(head_dim)); }
Scratch scratch_of(float* workspace, int worker, int64_t head_dim) {
  float* base = workspace + worker * scratch_floats(head_dim);
  const int64_t width = padded(head_dim);
  return {base, base + kMaxRows * kKeyBlock, base + kMaxRows * (kKeyBlock + width), width};
}

struct Block {
  const float* key_tile[kTilesPerBlock];
  BlockRows values;
};
Block block_of(const AttentionForward& f, const AttentionRun& run, int64_t kv_head, int64_t begin,
               int64_t groups) {
  const int64_t head_dim = f.shape.head_dim;
  Block block{};
  block.values.stride = run.pages == nullptr ? f.shape.kv_heads * head_dim : head_dim;
  for (int64_t t = 0; t < groups; ++t) {
    const int64_t tile = begin / kKeyTile + t;
    if (run.pages == nullptr) {
      block.key_tile[t] =
          f.store.key_tiles +
          ((run.tile_begin + tile) * f.shape.kv_heads + kv_head) * head_dim * kKeyTile;
      block.values.tile[t] =
          f.store.values + ((run.origin + tile * kKeyTile) * f.shape.kv_heads + kv_head) * head_dim;
    } else {
      const int64_t offset = kv_head * head_dim * kKeyTile;
      block.key_tile[t] = run.pages[tile] + f.store.page_keys + offset;
      block.values.tile[t] = run.pages[tile] + f.store.page_values + offset;
    }
  }
  return block;
}

// Turns the scores of one row in one block into weights relative to the new largest score, and
// scales what was summed before to it.
HWY_INLINE void soften(const AttentionForward& f, int64_t head, int64_t row, int64_t begin,
                       const Bounds& in_block, int r, const Scratch& scratch, Running& state) {
  float* at = scratch.scores + r * kKeyBlock;
  const int64_t first = in_block.lo / kLanes;
  const int64_t last = (in_block.hi + kLanes - 1) / kLanes;
  Vec16 largest = set16(kMinusInfinity);
  for (int64_t g = first; g < last; ++g) {
    const Vec16 score =
        scaled_score(f.shape, load16(at + g * kLanes), head, row, begin + g * kLanes);
    const Mask16 allowed = lanes(in_block.lo - g * kLanes, in_block.hi - g * kLanes);
    const Vec16 masked = select(allowed, score, set16(kMinusInfinity));
    store16(masked, at + g * kLanes);
    largest = max(largest, masked);
  }
  const float before = state.largest[r];
  const float now = std::max(before, max(largest));
  if (state.seen[r] && now != before) {
    const float factor = exp(before - now);
    state.sums[r] = state.sums[r] * set16(factor);
    float* sums = scratch.sums + r * scratch.width;
    for (int64_t i = 0; i < scratch.width; i += kLanes) {
      store16(load16(sums + i) * set16(factor), sums + i);
    }
  }
  for (int64_t g = first; g < last; ++g) {
    const Vec16 weight = exp(load16(at + g * kLanes) - set16(now));
    store16(weight, at + g * kLanes);
    state.sums[r] = state.sums[r] + weight;
  }
  state.largest[r] = now;
  state.seen[r] = true;
}

// The rows [row, row + rows) of a run, for one head.
void forward_tile(const AttentionForward& f, const AttentionRun& run, int64_t head, int64_t row,
                  int64_t rows, const Scratch& scratch) {
  const AttentionShape& shape = f.shape;
  const int64_t kv_head = head / (shape.heads / shape.kv_heads);
  const int64_t q_stride = shape.heads * shape.head_dim;
  const float* q = f.q + row * q_stride + head * shape.head_dim;

  Bounds bounds[kMaxRows];
  Bounds all{run.keys, 0};
  for (int64_t r = 0; r < rows; ++r) {
    bounds[r] = bounds_of(shape, run, f.intervals, row + r, head);
    all = {std::min(all.lo, bounds[r].lo), std::max(all.hi, bounds[r].hi)};
  }

  // Totals over the spans done so far.
  float largest[kMaxRows];
  float total[kMaxRows];
  bool seen[kMaxRows] = {};

  Running state;
  for (int64_t span = all.lo / kKeySpan * kKeySpan; span < all.hi; span += kKeySpan) {
    state.clear();
    std::fill_n(scratch.sums, rows * scratch.width, 0.0f);
    const int64_t begin = std::max(span, all.lo / kKeyBlock * kKeyBlock);
    const int64_t end = std::min(all.hi, span + kKeySpan);
    const int64_t last = begin + (end - 1 - begin) / kKeyBlock * kKeyBlock;
    for (int64_t next = begin; next < end; next += kKeyBlock) {
      const int64_t block = shape.descending_blocks ? begin + last - next : next;
      const int64_t groups = (std::min(kKeyBlock, all.hi - block) + kLanes - 1) / kLanes;
      const Block keys = block_of(f, run, kv_head, block, groups);
      scores(q, q_stride, rows, keys.key_tile, groups, shape.head_dim, scratch.scores);
      Bounds in_block[kMaxRows];
      for (int64_t r = 0; r < rows; ++r) {
        in_block[r] = bounds[r].within(block);
        if (in_block[r].lo >= in_block[r].hi) continue;
        soften(f, head, row + r, block, in_block[r], static_cast<int>(r), scratch, state);
      }
      weighted_band({scratch.scores, kKeyBlock, 1}, keys.values, in_block, rows, scratch.sums,
                    scratch.width, shape.head_dim);
    }
    for (int64_t r = 0; r < rows; ++r) {
      if (!state.seen[r]) continue;
      const float* sums = scratch.sums + r * scratch.width;
      float* merged = scratch.merged + r * scratch.width;
      const float span_total = sum(state.sums[r]);
      if (!seen[r]) {
        largest[r] = state.largest[r];
        total[r] = span_total;
        seen[r] = true;
        for (int64_t i = 0; i < scratch.width; i += kLanes) store16(load16(sums + i), merged + i);
        continue;
      }
      const float now = std::max(largest[r], state.largest[r]);
      const Vec16 old_factor = set16(exp(largest[r] - now));
      const Vec16 new_factor = set16(exp(state.largest[r] - now));
      const Vec16 joined = fma(set16(span_total), new_factor, set16(total[r]) * old_factor);
      total[r] = hn::GetLane(joined.part[0]);
      largest[r] = now;
      for (int64_t i = 0; i < scratch.width; i += kLanes) {
        store16(fma(load16(sums + i), new_factor, load16(merged + i) * old_factor), merged + i);
      }
    }
  }

  for (int64_t r = 0; r < rows; ++r) {
    const float inverse = 1.0f / total[r];
    const float* merged = scratch.merged + r * scratch.width;
    float* out = f.out + (row + r) * q_stride + head * shape.head_dim;
    for_each_16(shape.head_dim, [&](const auto& load, const auto& store)
                                    HWY_ATTR { store(load(merged) * set16(inverse), out); });
    if (f.stats != nullptr) {
      float* stats = f.stats + ((row + r) * shape.heads + head) * 2;
      stats[0] = largest[r];
      stats[1] = inverse;
    }
  }
}

void Forward(const Parallel& parallel, const AttentionForward& f) {
  parallel(f.run_count * f.shape.heads, [&](int64_t task, int worker) {
    const AttentionRun& run = f.runs[task / f.shape.heads];
    const int64_t head = task % f.shape.heads;
    const Scratch scratch = scratch_of(f.workspace, worker, f.shape.head_dim);
    for (int64_t row = run.row_begin; row < run.row_end; row += kMaxRows) {
      forward_tile(f, run, head, row, std::min<int64_t>(kMaxRows, run.row_end - row), scratch);
    }
  });
}

void PackKeyTiles(const Parallel& parallel, const AttentionRun* runs, int64_t run_count,
                  const float* k, int64_t kv_heads, int64_t head_dim, float* tiles) {
  parallel(run_count * kv_heads, [=](int64_t task) {
    const AttentionRun& run = runs[task / kv_heads];
    const int64_t head = task % kv_heads;
    for (int64_t key = 0; key < run.keys; key += kKeyTile) {
      const int64_t tile = run.tile_begin + key / kKeyTile;
      transpose_16(k + ((run.origin + key) * kv_heads + head) * head_dim, kv_heads * head_dim,
                   std::min(kKeyTile, run.keys - key), head_dim,
                   tiles + (tile * kv_heads + head) * head_dim * kKeyTile, kKeyTile);
    }
  });
}

}  // namespace
}  // namespace tril::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril::kernels {

HWY_EXPORT(Forward);
HWY_EXPORT(PackKeyTiles);
HWY_EXPORT(scratch_floats);

void pack_key_tiles(const Parallel& parallel, const AttentionRun* runs, int64_t run_count,
                    const float* k, int64_t kv_heads, int64_t head_dim, float* tiles) {
  HWY_DYNAMIC_DISPATCH(PackKeyTiles)(parallel, runs, run_count, k, kv_heads, head_dim, tiles);
}

void store_key_value(const float* k, const float* v, int64_t kv_heads, int64_t head_dim,
                     int64_t lane, float* page_keys, float* page_values) {
  for (int64_t head = 0; head < kv_heads; ++head) {
    const int64_t first = head * head_dim;
    for (int64_t d = 0; d < head_dim; ++d) page_keys[(first + d) * kKeyTile + lane] = k[first + d];
    std::copy_n(v + first, head_dim, page_values + (head * kKeyTile + lane) * head_dim);
  }
}

int64_t attention_forward_workspace(const Parallel& parallel, int64_t head_dim) {
  return parallel.threads() * HWY_DYNAMIC_DISPATCH(scratch_floats)(head_dim);
}

void attention_forward(const Parallel& parallel, const AttentionForward& args) {
  HWY_DYNAMIC_DISPATCH(Forward)(parallel, args);
}

}  // namespace tril::kernels
#endif
