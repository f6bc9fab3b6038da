// What attention forward and backward share: intervals within a block, scores against a block of
// key tiles, and sums over a band.

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

// Keys [lo, hi), counted from the origin.
struct Bounds {
  int64_t lo = 0;
  int64_t hi = 0;

  // The part inside the block that starts at key `begin`, counted from there.
  HWY_INLINE Bounds within(int64_t begin) const {
    return {std::clamp<int64_t>(lo - begin, 0, kKeyBlock),
            std::clamp<int64_t>(hi - begin, 0, kKeyBlock)};
  }
};

HWY_INLINE Bounds bounds_of(const AttentionShape& shape, const AttentionRun& run,
                            const Interval* intervals, int64_t row, int64_t head) {
  Bounds bounds{intervals[row].lo - run.origin, intervals[row].hi - run.origin};
  // A cached step has no future to see: only contiguous keys can be widened.
  if ((head == shape.widen_head || shape.widen_head == -2) &&
      (shape.widen_row < 0 || shape.widen_row == row) && run.pages == nullptr) {
    bounds.hi = std::min(bounds.hi + 1, run.keys);
  }
  return bounds;
}

// Where the up to four tiles of 16 rows of a block begin; rows within a tile are `stride` apart.
struct BlockRows {
  const float* tile[kTilesPerBlock];
  int64_t stride;
};
HWY_INLINE BlockRows contiguous_rows(const float* first, int64_t stride) {
  BlockRows rows{{}, stride};
  for (int64_t t = 0; t < kTilesPerBlock; ++t) rows.tile[t] = first + t * kKeyTile * stride;
  return rows;
}

// scores[r * kKeyBlock + j] = a[r] · tile column j, for j < 16 groups: chains over head_dim.
HWY_INLINE void scores(const float* HWY_RESTRICT a, int64_t a_stride, int64_t rows,
                       const float* const* tiles, int64_t groups, int64_t head_dim,
                       float* HWY_RESTRICT to) {
  with_rows(rows, [&](auto count) HWY_ATTR {
    constexpr int kRows = decltype(count)::value;
    for (int64_t group = 0; group < groups;) {
      group += with_groups<kRows>(groups - group, [&](auto width) HWY_ATTR {
        constexpr int kGroups = decltype(width)::value;
        const float* b[kGroups];
        for (int g = 0; g < kGroups; ++g) b[g] = tiles[group + g];
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

// c[r][0..width) continues its chains with weight(r, j) x[j] for j in [begin, end), r < kRows.
template <int kRows>
HWY_INLINE void weighted_sum(const Weights& w, const BlockRows& x, int64_t begin, int64_t end,
                             float* HWY_RESTRICT c, int64_t c_stride, int64_t width) {
  const auto over_tiles = [&](const auto& step) HWY_ATTR {
    for (int64_t j = begin; j < end;) {
      const int64_t tile = j / kKeyTile;
      const int64_t stop = std::min(end, (tile + 1) * kKeyTile);
      step(w.at + j * w.step, x.tile[tile] + (j - tile * kKeyTile) * x.stride, stop - j);
      j = stop;
    }
  };
  const int64_t groups = width / kLanes;
  for (int64_t group = 0; group < groups;) {
    group += with_groups<kRows>(groups - group, [&](auto count) HWY_ATTR {
      constexpr int kGroups = decltype(count)::value;
      float* to = c + group * kLanes;
      Accumulators<kRows, kGroups> sums;
      sums.load(to, c_stride);
      over_tiles([&](const float* a, const float* b, int64_t terms) HWY_ATTR {
        const float* from[kGroups];
        for (int g = 0; g < kGroups; ++g) from[g] = b + (group + g) * kLanes;
        chain<kRows, kGroups>(a, w.row, w.step, from, x.stride, terms, sums);
      });
      sums.store(to, c_stride);
    });
  }
  if (const int64_t rest = width - groups * kLanes; rest > 0) {
    float* to = c + groups * kLanes;
    Accumulators<kRows, 1> sums;
    for (int r = 0; r < kRows; ++r) sums.at[r][0] = load16(to + r * c_stride, rest);
    over_tiles([&](const float* a, const float* b, int64_t terms) HWY_ATTR {
      chain_partial<kRows>(a, w.row, w.step, b + groups * kLanes, x.stride, terms, rest, sums);
    });
    for (int r = 0; r < kRows; ++r) store16(sums.at[r][0], to + r * c_stride, rest);
  }
}

// The same for rows that each have bounds of their own: the stretch that all share goes through
// the full tile, the ragged ends row by row. Every row's chain stays ascending, and nothing outside
// a row's bounds is ever multiplied into it, not even by zero: NaN there cannot leak.
HWY_INLINE void weighted_band(const Weights& w, const BlockRows& x, const Bounds* bounds,
                              int64_t rows, float* HWY_RESTRICT c, int64_t c_stride,
                              int64_t width) {
  int64_t lo = bounds[0].lo;
  int64_t hi = bounds[0].hi;
  for (int64_t r = 1; r < rows; ++r) {
    lo = std::max(lo, bounds[r].lo);
    hi = std::min(hi, bounds[r].hi);
  }
  const auto one = [&](int64_t r, int64_t begin, int64_t end) HWY_ATTR {
    if (begin >= end) return;
    weighted_sum<1>({w.at + r * w.row, w.row, w.step}, x, begin, end, c + r * c_stride, c_stride,
                    width);
  };
  if (lo >= hi) {
    for (int64_t r = 0; r < rows; ++r) one(r, bounds[r].lo, bounds[r].hi);
    return;
  }
  for (int64_t r = 0; r < rows; ++r) one(r, bounds[r].lo, lo);
  with_rows(rows, [&](auto count) HWY_ATTR {
    weighted_sum<decltype(count)::value>(w, x, lo, hi, c, c_stride, width);
  });
  for (int64_t r = 0; r < rows; ++r) one(r, hi, bounds[r].hi);
}

// scale * score + bias for 16 keys from `key` (counted from the origin) of a row.
HWY_INLINE Vec16 scaled_score(const AttentionShape& shape, const Vec16& dot, int64_t head,
                              int64_t row, int64_t key) {
  const Vec16 scaled = dot * set16(shape.scale);
  if (shape.bias == nullptr) return scaled;
  const float* table = shape.bias + head * shape.bias_offsets;
  const int64_t first = shape.bias_zero + key - shape.positions[row];
  HWY_ALIGN float addend[kLanes];
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    // Offsets outside the table belong to keys outside the interval, which are masked after.
    const int64_t at = std::clamp<int64_t>(first + lane, 0, shape.bias_offsets - 1);
    addend[lane] = table[at];
  }
  return scaled + load16(addend);
}

}  // namespace tril::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
