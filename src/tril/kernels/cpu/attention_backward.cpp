#include <utility>

#include "tril/kernels/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/cpu/attention_backward.cpp"
#include "hwy/foreach_target.h"
#include "tril/kernels/cpu/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::kernels::HWY_NAMESPACE {
namespace {

constexpr int64_t kQueryBlock = 64;

// One worker's scratch memory. Rows are `width` floats apart: head_dim rounded up to whole vectors.
struct Scratch {
  float* p;            // [query, key]: scores, then probabilities
  float* ds;           // [query, key]: dp, then the scores' gradient
  float* key_tiles;    // of a block: [head_dim, 16] each
  float* value_tiles;  // the same
  float* keys;         // [key, width]
  float* queries;      // [query, width]
  float* douts;        // [query, width]
  float* dk;           // [key, width]: sums of the block
  float* dv;           // [key, width]
  int64_t width;
};
int64_t scratch_floats(int64_t head_dim) {
  return 2 * kQueryBlock * kKeyBlock + 2 * kKeyBlock * head_dim +
         (3 * kKeyBlock + 2 * kQueryBlock) * padded(head_dim);
}
Scratch scratch_of(float* workspace, int worker, int64_t head_dim) {
  float* next = workspace + worker * scratch_floats(head_dim);
  const auto take = [&](int64_t floats) { return std::exchange(next, next + floats); };
  const int64_t width = padded(head_dim);
  return {.p = take(kQueryBlock * kKeyBlock),
          .ds = take(kQueryBlock * kKeyBlock),
          .key_tiles = take(kKeyBlock * head_dim),
          .value_tiles = take(kKeyBlock * head_dim),
          .keys = take(kKeyBlock * width),
          .queries = take(kQueryBlock * width),
          .douts = take(kQueryBlock * width),
          .dk = take(kKeyBlock * width),
          .dv = take(kKeyBlock * width),
          .width = width};
}

// A block of keys of one head, copied to contiguous memory.
struct KeyBlock {
  int64_t begin;  // from the origin
  int64_t count;
  KeyTiles keys;
  KeyTiles values;
  BlockRows key_rows;
};

// delta[row][head] = dout · out; dq starts at zero.
HWY_INLINE void begin_rows(const AttentionBackward& b, const AttentionRun& run, int64_t head) {
  const int64_t head_dim = b.shape.head_dim;
  for (int64_t row = run.row_begin; row < run.row_end; ++row) {
    const int64_t at = (row * b.shape.heads + head) * head_dim;
    Vec16 sums = zero16();
    for_each_16(head_dim, [&](const auto& load, const auto& store) HWY_ATTR {
      sums = fma(load(b.dout + at), load(b.out + at), sums);
      store(zero16(), b.dq + at);
    });
    prefetch_next_head(b.out + at, head_dim);
    b.delta[row * b.shape.heads + head] = sum(sums);
  }
}

// The sums of a bias' gradient that a group has in a head, or null.
HWY_INLINE float* bias_part(const AttentionBackward& b, int64_t group, int64_t head) {
  if (b.dbias == nullptr) return nullptr;
  return b.bias_parts + (group * b.shape.heads + head) * b.bias_width;
}

// Turns scores and dp of a row into probabilities and the gradient of its scores, for the keys it
// may see:  p = e^(s - m) / sum,  e = p (dp - delta),  ds = scale e,  and adds e to the bias' part.
// The other lanes of their groups of 16 are written too, but never read.
HWY_INLINE void row_gradient(const AttentionBackward& b, int64_t head, int64_t row, int64_t begin,
                             const Bounds& seen, float* HWY_RESTRICT p, float* HWY_RESTRICT ds,
                             float* HWY_RESTRICT part) {
  const float* stats = b.stats + (row * b.shape.heads + head) * 2;
  const Vec16 largest = set16(stats[0]);
  const Vec16 inverse = set16(stats[1]);
  const Vec16 delta = set16(b.delta[row * b.shape.heads + head]);
  const Vec16 scale = set16(b.shape.scale);
  if (part != nullptr) part += b.shape.bias_zero + begin - b.shape.positions[row] - b.bias_first;
  for (int64_t g = seen.lo / kLanes * kLanes; g < seen.hi; g += kLanes) {
    const Vec16 score = scaled_score(b.shape, load16(p + g), head, row, begin + g);
    const Vec16 weight = exp(score - largest) * inverse;
    store16(weight, p + g);
    const Vec16 e = weight * (load16(ds + g) - delta);
    store16(e * scale, ds + g);
    if (part == nullptr) continue;
    store16(load16(part + g) + select(lanes(seen.lo - g, seen.hi - g), e, zero16()), part + g);
  }
}

// Up to 64 query rows of a run against a block of keys, for one head:
//   dq += ds k,  dk += dsᵀ q,  dv += pᵀ dout
void backward_block(const AttentionBackward& b, const AttentionRun& run, int64_t head, int64_t row,
                    int64_t rows, const KeyBlock& block, const Scratch& scratch, float* part) {
  const AttentionShape& shape = b.shape;
  const int64_t head_dim = shape.head_dim;
  const int64_t stride = shape.heads * head_dim;
  const int64_t at = row * stride + head * head_dim;
  const BlockRows queries = copy_rows(b.q + at, stride, rows, head_dim, scratch.queries);
  const BlockRows douts = copy_rows(b.dout + at, stride, rows, head_dim, scratch.douts);

  Bounds in_block[kQueryBlock];
  for (int64_t r = 0, count = 0; r < rows; r += count) {
    count = next_rows(rows - r);
    Bounds touched{};
    for (int64_t i = r; i < r + count; ++i) {
      in_block[i] = bounds_of(shape, run, b.intervals, row + i, head).within(block.begin);
      touched = touched.joined(in_block[i]);
    }
    float* p = scratch.p + r * kKeyBlock;
    float* ds = scratch.ds + r * kKeyBlock;
    scores(queries.tile[0] + r * scratch.width, scratch.width, count, block.keys, touched, head_dim,
           p);
    scores(douts.tile[0] + r * scratch.width, scratch.width, count, block.values, touched, head_dim,
           ds);
    for (int64_t i = 0; i < count; ++i) {
      row_gradient(b, head, row + r + i, block.begin, in_block[r + i], p + i * kKeyBlock,
                   ds + i * kKeyBlock, part);
    }
    weighted_band({ds, kKeyBlock, 1}, block.key_rows, in_block + r, count, Start::there,
                  b.dq + at + r * stride, stride, head_dim);
  }

  // The rows that see a key are consecutive, because neither end of the intervals decreases.
  Bounds seen_by[kKeyBlock];
  int64_t first = 0;
  int64_t last = 0;
  for (int64_t j = 0; j < block.count; ++j) {
    while (first < rows && in_block[first].hi <= j) ++first;
    while (last < rows && in_block[last].lo <= j) ++last;
    seen_by[j] = {first, std::max(first, last)};
  }
  for (int64_t j = 0, count = 0; j < block.count; j += count) {
    count = next_rows(block.count - j);
    weighted_band({scratch.ds + j, 1, kKeyBlock}, queries, seen_by + j, count, Start::there,
                  scratch.dk + j * scratch.width, scratch.width, scratch.width);
    weighted_band({scratch.p + j, 1, kKeyBlock}, douts, seen_by + j, count, Start::there,
                  scratch.dv + j * scratch.width, scratch.width, scratch.width);
  }
}

// The rows of a run that see keys of [begin, end), counted from its origin; they are consecutive.
HWY_INLINE Bounds rows_that_see(const AttentionBackward& b, const AttentionRun& run, int64_t head,
                                int64_t begin, int64_t end) {
  const auto first_row = [&](const auto& holds) {
    int64_t low = run.row_begin;
    for (int64_t high = run.row_end; low < high;) {
      const int64_t middle = low + (high - low) / 2;
      if (holds(bounds_of(b.shape, run, b.intervals, middle, head))) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  };
  return {first_row([&](const Bounds& row) { return row.hi > begin; }),
          first_row([&](const Bounds& row) { return row.lo >= end; })};
}

// A whole group for one key head. Each block of keys is copied once, and its gradients are summed
// in scratch memory.
void backward_group(const AttentionBackward& b, int64_t group, int64_t kv_head,
                    const Scratch& scratch) {
  const AttentionShape& shape = b.shape;
  const int64_t head_dim = shape.head_dim;
  const int64_t stride = shape.kv_heads * head_dim;
  const int64_t group_heads = shape.heads / shape.kv_heads;
  const AttentionRun* runs = b.runs + b.groups[group];
  const int64_t run_count = b.groups[group + 1] - b.groups[group];
  int64_t keys = 0;
  if (float* const parts = bias_part(b, group, kv_head * group_heads)) {
    std::fill_n(parts, group_heads * b.bias_width, 0.0f);
  }
  for (int64_t r = 0; r < run_count; ++r) {
    keys = std::max(keys, runs[r].keys);
    for (int64_t i = 0; i < group_heads; ++i) begin_rows(b, runs[r], kv_head * group_heads + i);
  }
  for (int64_t begin = 0; begin < keys; begin += kKeyBlock) {
    const int64_t count = std::min(kKeyBlock, keys - begin);
    const int64_t at = (runs->origin + begin) * stride + kv_head * head_dim;
    const KeyBlock block{
        .begin = begin,
        .count = count,
        .keys = transpose_rows(b.k + at, stride, count, head_dim, scratch.key_tiles),
        .values = transpose_rows(b.v + at, stride, count, head_dim, scratch.value_tiles),
        .key_rows = copy_rows(b.k + at, stride, count, head_dim, scratch.keys)};
    std::fill_n(scratch.dk, count * scratch.width, 0.0f);
    std::fill_n(scratch.dv, count * scratch.width, 0.0f);
    for (int64_t head = kv_head * group_heads; head < (kv_head + 1) * group_heads; ++head) {
      for (int64_t r = 0; r < run_count; ++r) {
        const Bounds rows = rows_that_see(b, runs[r], head, begin, begin + count);
        for (int64_t row = rows.lo; row < rows.hi; row += kQueryBlock) {
          backward_block(b, runs[r], head, row, std::min(kQueryBlock, rows.hi - row), block,
                         scratch, bias_part(b, group, head));
        }
      }
    }
    for (int64_t j = 0; j < count; ++j) {
      for_each_16(head_dim, [&](const auto& load, const auto& store) HWY_ATTR {
        store(load(scratch.dk + j * scratch.width), b.dk + at + j * stride);
        store(load(scratch.dv + j * scratch.width), b.dv + at + j * stride);
      });
    }
  }
}

// The bias' gradient in one head: the groups' parts, ascending.
void add_bias_parts(const AttentionBackward& b, int64_t head) {
  float* to = b.dbias + head * b.shape.bias_offsets;
  std::fill_n(to, b.shape.bias_offsets, 0.0f);
  const int64_t begin = std::max<int64_t>(0, b.bias_first);
  const int64_t end = std::min(b.shape.bias_offsets, b.bias_first + b.bias_width);
  for (int64_t group = 0; group < b.group_count; ++group) {
    const float* part = bias_part(b, group, head) - b.bias_first;
    for_each_16(end - begin, [&](const auto& load, const auto& store) HWY_ATTR {
      store(load(to + begin) + load(part + begin), to + begin);
    });
  }
}

void Backward(const Parallel& parallel, const AttentionBackward& b) {
  for_parts_and_heads(
      parallel, b.group_count, b.shape.kv_heads, [&](int64_t group, int64_t kv_head, int worker) {
        backward_group(b, group, kv_head, scratch_of(b.workspace, worker, b.shape.head_dim));
      });
  if (b.dbias == nullptr) return;
  parallel(b.shape.heads, [&](int64_t head, int) { add_bias_parts(b, head); });
}

}  // namespace
}  // namespace tril::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril::kernels {

HWY_EXPORT(Backward);
HWY_EXPORT(scratch_floats);

int64_t attention_backward_workspace(const Parallel& parallel, int64_t head_dim) {
  return parallel.threads() * HWY_DYNAMIC_DISPATCH(scratch_floats)(head_dim);
}
void attention_backward(const Parallel& parallel, const AttentionBackward& args) {
  HWY_DYNAMIC_DISPATCH(Backward)(parallel, args);
}

}  // namespace tril::kernels
#endif
