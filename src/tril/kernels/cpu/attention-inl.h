// Shared by attention forward and backward: intervals within a block, contiguous copies of blocks
// of keys and rows, scores against a block, and sums over a band.

#if defined(TRIL_KERNELS_CPU_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIL_KERNELS_CPU_ATTENTION_INL_H_
#undef TRIL_KERNELS_CPU_ATTENTION_INL_H_
#else
#define TRIL_KERNELS_CPU_ATTENTION_INL_H_
#endif

#include "tril/kernels/attention.h"
#include "tril/kernels/cpu/chain-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::kernels::HWY_NAMESPACE {

constexpr int64_t kTilesPerBlock = kKeyBlock / kKeyTile;

// A head's width rounded up to whole vectors: what a row takes in scratch memory.
inline int64_t padded(int64_t head_dim) { return (head_dim + kLanes - 1) / kLanes * kLanes; }

// Keys [lo, hi), counted from the origin. (No default values: arrays of them are only partly
// filled.)
struct Bounds {
  int64_t lo;
  int64_t hi;

  HWY_INLINE bool empty() const { return lo >= hi; }
  // The part inside the block that begins at key `begin`, counted from there.
  HWY_INLINE Bounds within(int64_t begin) const {
    return {std::clamp<int64_t>(lo - begin, 0, kKeyBlock),
            std::clamp<int64_t>(hi - begin, 0, kKeyBlock)};
  }
  // The smallest interval containing both; either may be empty.
  HWY_INLINE Bounds joined(const Bounds& other) const {
    if (empty()) return other;
    if (other.empty()) return *this;
    return {std::min(lo, other.lo), std::max(hi, other.hi)};
  }
};

HWY_INLINE Bounds bounds_of(const AttentionShape& shape, const AttentionRun& run,
                            const Interval* intervals, int64_t row, int64_t head) {
  Bounds bounds{intervals[row].lo - run.origin, intervals[row].hi - run.origin};
  // In a cached step there are no later keys: only contiguous keys can be widened.
  if ((head == shape.widen_head || shape.widen_head == -2) &&
      (shape.widen_row < 0 || shape.widen_row == row) && run.pages == nullptr) {
    bounds.hi = std::min(bounds.hi + 1, run.keys);
  }
  return bounds;
}

// Where the up to four tiles of 16 rows of a block begin; rows within a tile are `stride` apart and
// readable in whole vectors. `together`: the number of rows, from the first on, that are equally
// far apart even across tiles.
struct BlockRows {
  const float* tile[kTilesPerBlock];
  int64_t stride;
  int64_t together;
};

// Prefetches the same row of the next head, which this thread needs soon when it goes through the
// heads.
HWY_INLINE void prefetch_next_head(const float* row, int64_t head_dim) {
  for (int64_t i = 0; i < head_dim; i += kLanes) __builtin_prefetch(row + head_dim + i);
}

// Calls f(part, head, worker) for every part and head. If there are enough parts for all threads, a
// thread takes all heads of a part, because they are adjacent in memory.
template <class F>
void for_parts_and_heads(const Parallel& parallel, int64_t parts, int64_t heads, const F& f) {
  constexpr int64_t kPartsEach = 4;  // enough per thread to balance the load
  if (parts >= kPartsEach * parallel.threads()) {
    parallel(parts, [&](int64_t part, int worker) {
      for (int64_t head = 0; head < heads; ++head) f(part, head, worker);
    });
  } else {
    parallel(parts * heads,
             [&](int64_t task, int worker) { f(task / heads, task % heads, worker); });
  }
}

// Copies `rows` rows of a head to contiguous memory. In the tensors they are separated by all other
// heads, at a distance at which a block of them would compete for a few lines of the first-level
// cache.
HWY_INLINE BlockRows copy_rows(const float* HWY_RESTRICT from, int64_t stride, int64_t rows,
                               int64_t head_dim, float* HWY_RESTRICT to) {
  BlockRows block{{}, padded(head_dim), kKeyBlock};
  for (int64_t r = 0; r < rows; ++r) {
    for_each_16(head_dim, [&](const auto& load, const auto& store)
                              HWY_ATTR { store(load(from + r * stride), to + r * block.stride); });
  }
  for (int64_t t = 0; t < kTilesPerBlock; ++t) block.tile[t] = to + t * kKeyTile * block.stride;
  return block;
}

// Writes `rows` keys of a head into consecutive tiles [head_dim, 16], zero past the end.
struct KeyTiles {
  const float* tile[kTilesPerBlock];
};
HWY_INLINE KeyTiles transpose_rows(const float* from, int64_t stride, int64_t rows,
                                   int64_t head_dim, float* to) {
  KeyTiles block{};
  for (int64_t t = 0; t * kKeyTile < rows; ++t) {
    float* tile = to + t * head_dim * kKeyTile;
    transpose_16(from + t * kKeyTile * stride, stride, std::min(kKeyTile, rows - t * kKeyTile),
                 head_dim, tile, kKeyTile);
    block.tile[t] = tile;
  }
  for (int64_t r = 0; r < rows; ++r) {
    prefetch_next_head(from + r * stride, head_dim);
  }
  return block;
}

// scores[r * kKeyBlock + j] = a[r] · tile column j, for the 16 columns of each group that `keys`
// touches: chains over head_dim.
HWY_INLINE void scores(const float* HWY_RESTRICT a, int64_t a_stride, int64_t rows,
                       const KeyTiles& tiles, const Bounds& keys, int64_t head_dim,
                       float* HWY_RESTRICT to) {
  const int64_t last = (keys.hi + kLanes - 1) / kLanes;
  with_rows(rows, [&](auto count) HWY_ATTR {
    constexpr int kRows = decltype(count)::value;
    for (int64_t group = keys.lo / kLanes; group < last;) {
      group += with_groups<kRows>(last - group, [&](auto width) HWY_ATTR {
        constexpr int kGroups = decltype(width)::value;
        const float* b[kGroups];
        for (int g = 0; g < kGroups; ++g) b[g] = tiles.tile[group + g];
        Accumulators<kRows, kGroups> sums;
        sums.clear();
        chain<kRows, kGroups>(a, a_stride, 1, b, kKeyTile, head_dim, sums);
        sums.store(to + group * kLanes, kKeyBlock);
      });
    }
  });
}

// The weights of a sum: weight(r, j) = at[r * row + j * step].
struct Weights {
  const float* at;
  int64_t row;
  int64_t step;
};

// Whether sums start from zero or continue the stored ones.
enum class Start { zero, there };

// c[r][0..width) continues its chains with weight(r, j) x[j] for j within bounds[r], r < kRows. The
// range that all rows share runs without tests; at its ragged ends a row either takes part or not.
// Nothing outside a row's bounds is ever multiplied into it, not even by zero: NaN there cannot
// leak. Every row's chain ascends.
template <int kRows>
HWY_INLINE void weighted_rows(const Weights& w, const BlockRows& x, const Bounds* bounds,
                              Start start, float* HWY_RESTRICT c, int64_t c_stride, int64_t width) {
  int64_t from[kRows];
  int64_t to[kRows];
  int64_t begin = kKeyBlock;
  int64_t end = 0;
  int64_t shared_begin = 0;
  int64_t shared_end = kKeyBlock;
  for (int r = 0; r < kRows; ++r) {
    from[r] = bounds[r].lo;
    to[r] = bounds[r].hi;
    begin = std::min(begin, from[r]);
    end = std::max(end, to[r]);
    shared_begin = std::max(shared_begin, from[r]);
    shared_end = std::min(shared_end, to[r]);
  }
  if (shared_begin >= shared_end) shared_begin = shared_end = end;

  const auto sum_groups = [&](auto count, int64_t group) HWY_ATTR {
    constexpr int kGroups = decltype(count)::value;
    Accumulators<kRows, kGroups> sums;
    const int64_t there = width - group * kLanes;  // remaining columns of c
    if (start == Start::zero) {
      sums.clear();
    } else if (there >= kGroups * kLanes) {
      sums.load(c + group * kLanes, c_stride);
    } else {
      for (int r = 0; r < kRows; ++r) {
        sums.at[r][0] = load16(c + r * c_stride + group * kLanes, there);
      }
    }
    // Calls f for each part of [j, stop) whose rows are equally far apart.
    const auto over_tiles = [&](int64_t j, int64_t stop, const auto& f) HWY_ATTR {
      while (j < stop) {
        const int64_t tile = j / kKeyTile;
        const int64_t next = std::min(stop, std::max(x.together, (tile + 1) * kKeyTile));
        f(j, w.at + j * w.step, x.tile[tile] + (j - tile * kKeyTile) * x.stride + group * kLanes,
          next - j);
        j = next;
      }
    };
    const auto ragged = [&](int64_t j, const float* a, const float* b, int64_t terms) HWY_ATTR {
      chain_within<kRows, kGroups>(a, w.row, w.step, b, x.stride, j, terms, from, to, sums);
    };
    over_tiles(begin, shared_begin, ragged);
    over_tiles(shared_begin, shared_end,
               [&](int64_t, const float* a, const float* b, int64_t terms) HWY_ATTR {
                 const float* columns[kGroups];
                 for (int g = 0; g < kGroups; ++g) columns[g] = b + g * kLanes;
                 chain<kRows, kGroups>(a, w.row, w.step, columns, x.stride, terms, sums);
               });
    over_tiles(shared_end, end, ragged);
    if (there >= kGroups * kLanes) {
      sums.store(c + group * kLanes, c_stride);
    } else {
      for (int r = 0; r < kRows; ++r) {
        store16(sums.at[r][0], c + r * c_stride + group * kLanes, there);
      }
    }
  };
  const int64_t whole = width / kLanes;
  for (int64_t group = 0; group < whole;) {
    group +=
        with_groups<kRows>(whole - group, [&](auto count) HWY_ATTR { sum_groups(count, group); });
  }
  if (whole * kLanes < width) sum_groups(std::integral_constant<int, 1>(), whole);
}

HWY_INLINE void weighted_band(const Weights& w, const BlockRows& x, const Bounds* bounds,
                              int64_t rows, Start start, float* HWY_RESTRICT c, int64_t c_stride,
                              int64_t width) {
  with_rows(rows, [&](auto count) HWY_ATTR {
    weighted_rows<decltype(count)::value>(w, x, bounds, start, c, c_stride, width);
  });
}

// scale * score + bias for 16 keys from `key` (counted from the origin) of a row.
HWY_INLINE Vec16 scaled_score(const AttentionShape& shape, const Vec16& dot, int64_t head,
                              int64_t row, int64_t key) {
  const Vec16 scaled = dot * set16(shape.scale);
  if (shape.bias == nullptr) return scaled;
  const float* table = shape.bias + head * shape.bias_offsets;
  const int64_t first = shape.bias_zero + key - shape.positions[row];
  if (first >= 0 && first + kLanes <= shape.bias_offsets) return scaled + load16(table + first);
  HWY_ALIGN float addend[kLanes];
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    // Offsets outside the table belong to keys outside the interval, which are masked afterwards.
    const int64_t at = std::clamp<int64_t>(first + lane, 0, shape.bias_offsets - 1);
    addend[lane] = table[at];
  }
  return scaled + load16(addend);
}

}  // namespace tril::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
