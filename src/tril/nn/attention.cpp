#include "tril/nn/attention.h"

namespace tril::nn {

MultiHeadAttention::MultiHeadAttention(ParameterSet& set, const std::string& name,
                                       const AttentionSizes& sizes, Bias input_bias,
                                       Bias output_bias)
    : heads(sizes.heads), kv_heads(sizes.kv_heads), head_dim(sizes.head_dim) {
  const int64_t model = sizes.model;
  const int64_t outs[] = {heads * head_dim, kv_heads * head_dim, kv_heads * head_dim};
  {
    const ParameterSet::Stack stack(set, outs, model);
    query = Linear(set, name + ".query", outs[0], model, input_bias);
    key = Linear(set, name + ".key", outs[1], model, input_bias);
    value = Linear(set, name + ".value", outs[2], model, input_bias);
  }
  output = Linear(set, name + ".output", model, heads * head_dim, output_bias);
}

Tensor MultiHeadAttention::queries(Context& context, const Tensor& x) const {
  return query(context, x).reshaped({x.rows(), heads, head_dim});
}
MultiHeadAttention::Projected MultiHeadAttention::keys_values(Context& context,
                                                              const Tensor& x) const {
  const ops::LinearWeight* const weights[] = {key.weight, value.weight};
  Tensor y[2];
  autograd::linears(context, x, weights, y);
  const Shape shape{x.rows(), kv_heads, head_dim};
  return {Tensor(), y[0].reshaped(shape), y[1].reshaped(shape)};
}
MultiHeadAttention::Projected MultiHeadAttention::queries_keys_values(Context& context,
                                                                      const Tensor& x) const {
  const ops::LinearWeight* const weights[] = {query.weight, key.weight, value.weight};
  Tensor y[3];
  autograd::linears(context, x, weights, y);
  const Shape shape{x.rows(), kv_heads, head_dim};
  return {y[0].reshaped({x.rows(), heads, head_dim}), y[1].reshaped(shape), y[2].reshaped(shape)};
}

Tensor MultiHeadAttention::attend(Context& context, const Tensor& q, const KeyValues& from,
                                  const ops::AttentionPlan& plan,
                                  const ops::AttentionOptions& options) const {
  if (from.cache == nullptr) {
    return autograd::attention(context, q, from.keys, from.values, plan, options);
  }
  require(context.tape == nullptr, ErrorCode::invalid_argument,
          "attention: cached keys belong to an earlier tape or none: they have no gradient");
  ops::PagedKeys keys = from.places != nullptr
                            ? from.cache->keys_with(context, *from.view, from.layer, *from.places,
                                                    from.keys, from.values)
                            : from.cache->keys_of(*from.view, from.layer);
  keys.rests = true;  // except for the fresh ones, cached keys come from earlier calls
  return ops::attention_paged(context, q, keys, plan, options);
}

Tensor MultiHeadAttention::project(Context& context, const Tensor& heads_out) const {
  return output(context, heads_out.reshaped({heads_out.shape()[0], heads * head_dim}));
}

}  // namespace tril::nn
