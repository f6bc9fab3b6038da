// Order-exact models of CUDA's attention (kernels/cuda/attention.h): one row in one head, in fp32
// and in bf16.
//
// In fp32 one kernel serves every call. In bf16 there are three: tiles of rows, long sequences, and
// one row of a cached step. They have one order, which is that of the row alone: what a tile adds
// for its other rows leaves this one as it was. Those are groups of 16 keys, blocks and spans that
// only other rows see, where every weight is zero, and keys beside the row's own in a group, which
// are multiplied by zero; where such a key holds NaN or infinity, the row is computed again without
// it. So here they are zeros.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "tril/kernels/cuda/attention.h"
#include "tril/kernels/model/attention.h"
#include "tril/kernels/model/cuda_functions.h"

namespace tril::kernels::model {

constexpr float kLog2e = 0x1.715476p+0f;

// With nothing seen so far, the exponent would be inf - inf.
template <class T>
T cuda_base(const T& top) {
  const T lowest = constant<T>(-std::numeric_limits<float>::infinity());
  return select(differs(top, lowest), top, constant<T>(0.0f));
}

// A block of kKeyBlock keys as a row sees it: its keys [lo, hi), scores (-inf beyond them) and
// weights (zero beyond them, since 2^-inf is zero).
template <class T>
struct CudaBlock {
  int64_t begin = 0, lo = 0, hi = 0;
  std::array<T, cuda::kKeyBlock> scores{}, weights{};
};
template <class T>
CudaBlock<T> cuda_block(const AttentionRow<T>& row, int64_t begin) {
  CudaBlock<T> block;
  block.begin = begin;
  block.lo = std::clamp<int64_t>(row.lo - begin, 0, cuda::kKeyBlock);
  block.hi = std::clamp<int64_t>(row.hi - begin, 0, cuda::kKeyBlock);
  block.scores.fill(constant<T>(-std::numeric_limits<float>::infinity()));
  block.weights.fill(constant<T>(0.0f));
  return block;
}

// The running softmax over one span: the largest score times log2e, sums of weights by lane, and
// sums of weighted values.
template <class T, size_t kLanes>
struct CudaSums {
  T top = constant<T>(-std::numeric_limits<float>::infinity());
  std::array<T, kLanes> totals{};
  std::vector<T> values{};
  bool seen = false;  // a block, for the test hook

  explicit CudaSums(int64_t head_dim) : values(static_cast<size_t>(head_dim), constant<T>(0.0f)) {
    totals.fill(constant<T>(0.0f));
  }

  // Moves to the block's maximum; returns what is subtracted from its exponents.
  T rise(const AttentionRow<T>& row, const T& largest) {
    const T before = top;
    top = larger_number(top, multiply(largest, constant<T>(kLog2e)));
    const T base = cuda_base(top);
    if (row.fault.no_rescaling && std::exchange(seen, true)) return base;
    const T factor = cuda_exp2(subtract(before, base));
    for (T& total : totals) total = multiply(total, factor);
    for (T& value : values) value = multiply(value, factor);
    return base;
  }
};
template <class T>
T cuda_weight(const T& score, const T& base) {
  return cuda_exp2(fma(score, constant<T>(kLog2e), negate(base)));
}

// Spans merged so far.
template <class T>
struct CudaMerged {
  T top = constant<T>(-std::numeric_limits<float>::infinity());
  T total = constant<T>(0.0f);
  std::vector<T> values{};

  void merge(const T& span_top, const T& span_total, const std::vector<T>& span_values) {
    const T now_top = larger_number(top, span_top);
    const T base = cuda_base(now_top);
    const T before = cuda_exp2(subtract(top, base));
    const T now = cuda_exp2(subtract(span_top, base));
    for (size_t d = 0; d < values.size(); ++d) {
      values[d] = fma(span_values[d], now, multiply(values[d], before));
    }
    total = fma(span_total, now, multiply(total, before));
    top = now_top;
  }
};

// f(begin, ends_span, is_last) for the blocks that a row sees, in their order.
template <class T, class F>
void for_each_cuda_block(const AttentionRow<T>& row, const F& f) {
  constexpr int64_t kPerSpan = cuda::kKeySpan / cuda::kKeyBlock;
  const int64_t first = row.lo / cuda::kKeyBlock;
  const int64_t last = (row.hi - 1) / cuda::kKeyBlock;
  for (int64_t number = first; number <= last; ++number) {
    const int64_t span = number / kPerSpan * kPerSpan;
    const int64_t turned = std::max(first, span) + std::min(last, span + kPerSpan - 1) - number;
    f((row.fault.descending_blocks ? turned : number) * cuda::kKeyBlock,
      (number + 1) % kPerSpan == 0, number == last);
  }
}

// stats, if any, are the largest score times log2e, and 1 / sum.
template <class T>
void cuda_attention_results(const CudaMerged<T>& merged, T* out, T* stats) {
  const T inverse = divide(constant<T>(1.0f), merged.total);
  for (size_t d = 0; d < merged.values.size(); ++d) {
    out[d] = add(multiply(merged.values[d], inverse), constant<T>(0.0f));
  }
  if (stats != nullptr) {
    stats[0] = merged.top;
    stats[1] = inverse;
  }
}

// ---- fp32 (cuda/attention_plain.cu)
template <class T, class Keys>
void cuda_add_block(const AttentionRow<T>& row, const Keys& keys, int64_t begin,
                    CudaSums<T, kWarpLanes>& sums) {
  CudaBlock<T> block = cuda_block(row, begin);
  const auto at = [](int64_t j) { return static_cast<size_t>(j); };
  for (int64_t j = block.lo; j < block.hi; ++j) block.scores[at(j)] = score(row, keys, begin + j);
  const auto join = [](const T& a, const T& b) { return larger_number(a, b); };
  WarpLanes<T> largest;
  for (int64_t lane = 0; lane < kWarpLanes; ++lane) {
    largest[at(lane)] = join(block.scores[at(lane)], block.scores[at(lane + kWarpLanes)]);
  }
  const T base = sums.rise(row, folded_by_halves(largest, join));
  for (int64_t j = block.lo; j < block.hi; ++j) {
    block.weights[at(j)] = cuda_weight(block.scores[at(j)], base);
  }
  for (int64_t lane = 0; lane < kWarpLanes; ++lane) {
    sums.totals[at(lane)] = add(sums.totals[at(lane)],
                                add(block.weights[at(lane)], block.weights[at(lane + kWarpLanes)]));
  }
  const int64_t known = std::min(row.fault.known_keys - begin, cuda::kKeyBlock);
  for (int64_t j = block.lo; j < std::max(block.hi, known); ++j) {
    for (int64_t d = 0; d < row.head_dim; ++d) {
      T& value = sums.values[at(d)];
      value = fma(block.weights[at(j)], keys.value(begin + j, d), value);
    }
  }
}

template <class T, class Keys>
void cuda_attention_row(const AttentionRow<T>& row, const Keys& keys, T* out, T* stats = nullptr) {
  using Sums = CudaSums<T, kWarpLanes>;
  Sums sums(row.head_dim);
  CudaMerged<T> merged;
  merged.values = sums.values;
  const auto merge = [&] {
    merged.merge(sums.top, sum_of_warp(sums.totals), sums.values);
    sums = Sums(row.head_dim);
  };
  for_each_cuda_block(row, [&](int64_t begin, bool ends_span, bool is_last) {
    cuda_add_block(row, keys, begin, sums);
    if (ends_span) merge();
    if (is_last) merge();  // an empty span, where the last block also ended one
  });
  cuda_attention_results(merged, out, stats);
}

// ---- bf16 (cuda/attention_forward.cu, attention_row.cu, attention_long.cu)
constexpr int64_t kQuadLanes = 4;

// scale (q · k) + bias
template <class T, class Keys>
T tensor_core_score(const AttentionRow<T>& row, const Keys& keys, int64_t key) {
  const T zero = constant<T>(0.0f);
  T dot = zero;
  for (int64_t d = 0; d < row.head_dim; d += kTensorCoreTerms) {
    TensorCoreTerms<T> q, k;
    for (int64_t i = 0; i < kTensorCoreTerms; ++i) {
      const bool there = d + i < row.head_dim;
      q[static_cast<size_t>(i)] = there ? row.q[d + i] : zero;
      k[static_cast<size_t>(i)] = there ? keys.key(key, d + i) : zero;
    }
    dot = tensor_core_step(dot, q, k);
  }
  const T scaled = multiply(dot, constant<T>(row.scale));
  return row.bias == nullptr ? scaled : add(scaled, row.bias[row.bias_zero + key - row.position]);
}

// Lane t of four has the columns 8 i + 2 t and the next of the groups that the row sees.
template <class T, class Keys>
void tensor_core_add_block(const AttentionRow<T>& row, const Keys& keys, int64_t begin,
                           CudaSums<T, kQuadLanes>& sums) {
  CudaBlock<T> block = cuda_block(row, begin);
  const auto at = [](int64_t j) { return static_cast<size_t>(j); };
  const auto lane_of = [](int64_t j) { return static_cast<size_t>(j % 8 / 2); };
  const int64_t first = block.lo / kTensorCoreTerms * kTensorCoreTerms;
  std::array<T, kQuadLanes> largest, totals;
  largest.fill(constant<T>(-std::numeric_limits<float>::infinity()));
  totals.fill(constant<T>(0.0f));
  for (int64_t j = block.lo; j < block.hi; ++j) {
    block.scores[at(j)] = tensor_core_score(row, keys, begin + j);
    largest[lane_of(j)] = larger_number(largest[lane_of(j)], block.scores[at(j)]);
  }
  const T base = sums.rise(row, larger_number(larger_number(largest[0], largest[1]),
                                              larger_number(largest[2], largest[3])));
  for (int64_t j = block.lo; j < block.hi; ++j) {
    block.weights[at(j)] = round_to_bf16(cuda_weight(block.scores[at(j)], base));
    totals[lane_of(j)] = add(totals[lane_of(j)], block.weights[at(j)]);
  }
  for (size_t t = 0; t < totals.size(); ++t) sums.totals[t] = add(sums.totals[t], totals[t]);
  const int64_t known = std::max(row.fault.known_keys - begin, block.hi);
  for (int64_t group = first; group < block.hi; group += kTensorCoreTerms) {
    TensorCoreTerms<T> p, v;
    std::copy_n(block.weights.begin() + group, kTensorCoreTerms, p.begin());
    for (int64_t d = 0; d < row.head_dim; ++d) {
      for (int64_t i = 0; i < kTensorCoreTerms; ++i) {
        const int64_t j = group + i;
        const bool multiplied = j >= block.lo && j < known;
        v[at(i)] = multiplied ? keys.value(begin + j, d) : constant<T>(0.0f);
      }
      sums.values[at(d)] = tensor_core_step(sums.values[at(d)], p, v);
    }
  }
}

template <class T, class Keys>
void tensor_core_attention_row(const AttentionRow<T>& row, const Keys& keys, T* out,
                               T* stats = nullptr) {
  using Sums = CudaSums<T, kQuadLanes>;
  Sums sums(row.head_dim);
  CudaMerged<T> merged;
  bool is_first = true;
  for_each_cuda_block(row, [&](int64_t begin, bool ends_span, bool is_last) {
    tensor_core_add_block(row, keys, begin, sums);
    if (!ends_span && !is_last) return;
    const T total = add(add(sums.totals[0], sums.totals[1]), add(sums.totals[2], sums.totals[3]));
    if (is_first) {
      merged = {sums.top, total, sums.values};
    } else {
      merged.merge(sums.top, total, sums.values);
    }
    is_first = false;
    sums = Sums(row.head_dim);
  });
  cuda_attention_results(merged, out, stats);
  for (int64_t d = 0; d < row.head_dim; ++d) out[d] = round_to_bf16(out[d]);
}

}  // namespace tril::kernels::model
