#include "tril/prove/expression_batch.h"

#include <algorithm>

namespace tril {
namespace {

// Padding rows get a token that is no variable.
void mark_filler(const TokenVariables& variables, Rows& rows) {
  for (size_t row = 0; row < rows.slots.size(); ++row) {
    if (rows.slots[row] < 0) rows.tokens[row] = static_cast<int32_t>(variables.count());
  }
}

}  // namespace

TransformerConfig config_with_room(const TransformerConfig& given, const EveryInputOptions& options,
                                   int64_t tokens) {
  TransformerConfig config = given.completed();
  if (!config.decoder_only()) config.source_vocab = std::max(config.source_vocab, tokens + 1);
  config.target_vocab = std::max(config.target_vocab, tokens + 1);
  config.max_length =
      std::max({config.max_length, options.length, options.source_length, options.neighbour});
  config.dropout = 0.0;
  return config;
}

ExpressionBatch packed_batch(const TokenVariables& variables, const EveryInputOptions& options,
                             int64_t length) {
  ExpressionBatch batch;
  const bool encodes = variables.has_source();
  if (encodes) {
    batch.source.add_sequence(variables.neighbour_source(), {.slot = 0});
    batch.source.add_sequence(variables.source(), {.slot = 1});
    batch.source.add_filler(3);
    batch.source.add_sequence(variables.neighbour_source(), {.slot = 2});
    mark_filler(variables, batch.source);
  }
  const auto segment = [&](int32_t number) { return encodes ? number : -1; };
  batch.target.add_sequence(variables.neighbour(), {.slot = 0, .segment = segment(0)});
  batch.first = batch.target.size();
  batch.target.add_sequence(
      variables.target(length),
      {.slot = 1, .segment = segment(1), .prefix = static_cast<int32_t>(options.prefix)});
  batch.target.add_filler(2);
  batch.target.add_sequence(variables.neighbour(), {.slot = 2, .segment = segment(2)});
  mark_filler(variables, batch.target);
  return batch;
}

ExpressionBatch batch_alone(const TokenVariables& variables, const EveryInputOptions& options,
                            int64_t length) {
  ExpressionBatch batch;
  const bool encodes = variables.has_source();
  if (encodes) batch.source.add_sequence(variables.source(), {.slot = 0});
  batch.target.add_sequence(
      variables.target(length),
      {.slot = 0, .segment = encodes ? 0 : -1, .prefix = static_cast<int32_t>(options.prefix)});
  return batch;
}

}  // namespace tril
