// Multi-head attention as a layer: the four projections around the one attention.
//
// The same object serves masked self-attention, encoder self-attention and cross-attention; only
// the place of the keys and the intervals differ.
#pragma once

#include <span>

#include "tril/nn/cache.h"
#include "tril/nn/layers.h"

namespace tril::nn {

// Where an attention finds its keys and values: contiguous tensors (under a tape, and in the
// encoder), or the slots of a cache. With both, the tensors are those of the rows themselves and
// are stored in their places first.
struct KeyValues {
  Tensor keys{}, values{};  // [key, kv_heads, head_dim]

  Cache* cache = nullptr;
  const CacheView* view = nullptr;  // what the rows see of it
  int64_t layer = 0;
  const CachePlaces* places = nullptr;  // of the rows' own
};

struct AttentionSizes {
  int64_t model = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
};

struct MultiHeadAttention {
  MultiHeadAttention() = default;
  // Biases of the queries, keys and values, and of the output.
  MultiHeadAttention(ParameterSet& set, const std::string& name, const AttentionSizes& sizes,
                     Bias input_bias, Bias output_bias);

  // x [row, model] -> [row, heads or kv_heads, head_dim].
  Tensor queries(Context& context, const Tensor& x) const;
  struct Projected {
    Tensor queries, keys, values;
  };
  // Keys and values of the same rows, and with their queries: each in one product.
  Projected keys_values(Context& context, const Tensor& x) const;
  Projected queries_keys_values(Context& context, const Tensor& x) const;

  // softmax(QKᵀ/√d + M)V by intervals: [query, heads, head_dim].
  Tensor attend(Context& context, const Tensor& q, const KeyValues& from,
                const ops::AttentionPlan& plan, const ops::AttentionOptions& options) const;

  // [query, heads, head_dim] -> [query, model]: the concatenated heads, projected.
  Tensor project(Context& context, const Tensor& heads_out) const;

  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  Linear query, key, value, output;
};

}  // namespace tril::nn
