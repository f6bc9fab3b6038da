#include "tril/kernels/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/cpu/attention_backward.cpp"
#include "hwy/foreach_target.h"
#include "tril/kernels/cpu/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::kernels::HWY_NAMESPACE {
namespace {

constexpr int64_t kQueryBlock = 64;
constexpr int64_t kScratchFloats = 2 * kQueryBlock * kKeyBlock;
int64_t scratch_floats() { return kScratchFloats; }

// Up to 64 query rows of a run against all their keys, for one head:
//   p = e^(s - m) / sum,  dp = dout · v,  ds = scale p (dp - dout · out)
//   dq += ds k,  dk += dsᵀ q,  dv += pᵀ dout
void backward_block(const AttentionBackward& b, const AttentionRun& run, int64_t head, int64_t row,
                    int64_t rows, float* scratch) {
  const AttentionShape& shape = b.shape;
  const int64_t head_dim = shape.head_dim;
  const int64_t kv_head = head / (shape.heads / shape.kv_heads);
  const int64_t q_stride = shape.heads * head_dim;
  const int64_t k_stride = shape.kv_heads * head_dim;
  const int64_t at = row * q_stride + head * head_dim;
  float* p = scratch;                             // [query, key]: scores, then probabilities
  float* ds = scratch + kQueryBlock * kKeyBlock;  // [query, key]: dp, then the scores' gradient

  Bounds bounds[kQueryBlock];
  float delta[kQueryBlock];  // dout · out
  Bounds all{run.keys, 0};
  for (int64_t r = 0; r < rows; ++r) {
    bounds[r] = bounds_of(shape, run, b.intervals, row + r, head);
    all = {std::min(all.lo, bounds[r].lo), std::max(all.hi, bounds[r].hi)};
    Vec16 sums = zero16();
    for_each_16(head_dim, [&](const auto& load, const auto&) HWY_ATTR {
      sums = fma(load(b.dout + at + r * q_stride), load(b.out + at + r * q_stride), sums);
    });
    delta[r] = sum(sums);
  }

  for (int64_t block = all.lo / kKeyBlock * kKeyBlock; block < all.hi; block += kKeyBlock) {
    const int64_t block_keys = std::min(kKeyBlock, all.hi - block);
    const int64_t groups = (block_keys + kLanes - 1) / kLanes;
    const float* key_tile[kTilesPerBlock];
    const float* value_tile[kTilesPerBlock];
    for (int64_t t = 0; t < groups; ++t) {
      const int64_t tile = run.tile_begin + block / kKeyTile + t;
      const int64_t offset = (tile * shape.kv_heads + kv_head) * head_dim * kKeyTile;
      key_tile[t] = b.key_tiles + offset;
      value_tile[t] = b.value_tiles + offset;
    }

    Bounds in_block[kQueryBlock];
    for (int64_t r = 0; r < rows; ++r) in_block[r] = bounds[r].within(block);
    for (int64_t r0 = 0; r0 < rows; r0 += kMaxRows) {
      const int64_t count = std::min<int64_t>(kMaxRows, rows - r0);
      int64_t last_key = 0;
      for (int64_t r = r0; r < r0 + count; ++r) last_key = std::max(last_key, in_block[r].hi);
      const int64_t needed = (last_key + kLanes - 1) / kLanes;
      scores(b.q + at + r0 * q_stride, q_stride, count, key_tile, needed, head_dim,
             p + r0 * kKeyBlock);
      scores(b.dout + at + r0 * q_stride, q_stride, count, value_tile, needed, head_dim,
             ds + r0 * kKeyBlock);
    }
    for (int64_t r = 0; r < rows; ++r) {
      const Bounds& seen = in_block[r];
      if (seen.lo >= seen.hi) continue;
      const float* stats = b.stats + ((row + r) * shape.heads + head) * 2;
      for (int64_t g = seen.lo / kLanes; g * kLanes < seen.hi; ++g) {
        float* p_at = p + r * kKeyBlock + g * kLanes;
        float* ds_at = ds + r * kKeyBlock + g * kLanes;
        const Vec16 score = scaled_score(shape, load16(p_at), head, row + r, block + g * kLanes);
        const Vec16 weight = exp(score - set16(stats[0])) * set16(stats[1]);
        const Vec16 gradient = weight * (load16(ds_at) - set16(delta[r])) * set16(shape.scale);
        store16(weight, p_at);  // what lies outside the bounds is never read
        store16(gradient, ds_at);
      }
    }

    const BlockRows keys = contiguous_rows(
        b.k + ((run.origin + block) * shape.kv_heads + kv_head) * head_dim, k_stride);
    for (int64_t r = 0; r < rows; r += kMaxRows) {
      weighted_band({ds + r * kKeyBlock, kKeyBlock, 1}, keys, in_block + r,
                    std::min<int64_t>(kMaxRows, rows - r), b.dq + at + r * q_stride, q_stride,
                    head_dim);
    }

    // The rows that see a key are a stretch, because neither end of the intervals decreases.
    Bounds seen_by[kKeyBlock];
    int64_t first = 0;
    int64_t last = 0;
    for (int64_t j = 0; j < block_keys; ++j) {
      while (first < rows && bounds[first].hi <= block + j) ++first;
      while (last < rows && bounds[last].lo <= block + j) ++last;
      seen_by[j] = {first, std::max(first, last)};
    }
    const BlockRows queries = contiguous_rows(b.q + at, q_stride);
    const BlockRows gradients = contiguous_rows(b.dout + at, q_stride);
    const int64_t key_at = ((run.origin + block) * shape.kv_heads + kv_head) * head_dim;
    for (int64_t j = 0; j < block_keys; j += kMaxRows) {
      const int64_t count = std::min<int64_t>(kMaxRows, block_keys - j);
      weighted_band({ds + j, 1, kKeyBlock}, queries, seen_by + j, count,
                    b.dk + key_at + j * k_stride, k_stride, head_dim);
      weighted_band({p + j, 1, kKeyBlock}, gradients, seen_by + j, count,
                    b.dv + key_at + j * k_stride, k_stride, head_dim);
    }
  }
}

void Backward(const Parallel& parallel, const AttentionBackward& b) {
  const int64_t group_heads = b.shape.heads / b.shape.kv_heads;
  parallel(b.group_count * b.shape.kv_heads, [&](int64_t task, int worker) {
    const int64_t group = task / b.shape.kv_heads;
    const int64_t kv_head = task % b.shape.kv_heads;
    float* scratch = b.workspace + worker * kScratchFloats;
    for (int64_t head = kv_head * group_heads; head < (kv_head + 1) * group_heads; ++head) {
      for (int64_t r = b.groups[group]; r < b.groups[group + 1]; ++r) {
        const AttentionRun& run = b.runs[r];
        for (int64_t row = run.row_begin; row < run.row_end; row += kQueryBlock) {
          backward_block(b, run, head, row, std::min(kQueryBlock, run.row_end - row), scratch);
        }
      }
    }
  });
}

}  // namespace
}  // namespace tril::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril::kernels {

HWY_EXPORT(Backward);
HWY_EXPORT(scratch_floats);

int64_t attention_backward_workspace(const Parallel& parallel) {
  return parallel.threads() * HWY_DYNAMIC_DISPATCH(scratch_floats)();
}
void attention_backward(const Parallel& parallel, const AttentionBackward& args) {
  HWY_DYNAMIC_DISPATCH(Backward)(parallel, args);
}

}  // namespace tril::kernels
#endif
