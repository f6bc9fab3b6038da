// The passes of one sentence through a model, with everything its attentions read and wrote.
// Internal to explain/.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tril/explain/explain.h"

namespace tril {

// What one way through the model recorded. Rows of successive calls are stored end to end, so that
// one call for all tokens and one call for each fill the same places.
struct PassRecord {
  PassAttention attention;
  std::vector<std::vector<float>> layer_outputs;  // by decoder layer, [row, model]
  std::vector<float> hidden;                      // [row, model]
  // In the order of the layers, all [row, model] except the hidden layer of feed-forward.
  struct SubLayer {
    int64_t layer = 0;
    std::vector<float> normed, added, sum, feed_forward_hidden;
  };
  std::vector<SubLayer> sub_layers;    // of a training pass
  std::vector<float> token, position;  // [row, model]; empty: none, or unknown
  std::vector<float> embedded;
  std::vector<float> logits;  // [row, vocab]
  // Of the whole model; its reach is max_length.
  DistanceBias encoder_bias, masked_bias;
  int64_t calls = 0;  // of the decoder
  int64_t encoder_calls = 0;
};

// A sentence as the model reads it; the source is empty for a decoder-only model.
struct PassTokens {
  std::span<const int32_t> source, fed;
};

// Every stage of a training pass other than attention: `kept` numbers of each vector.
StageRecord stages_of(const Transformer& model, const PassRecord& pass, int64_t kept);

// All of `fed` in one call under a tape, as in training.
PassRecord training_pass(const Transformer& model, const PassTokens& tokens, Masking masking,
                         Session& session);
// One token per call, with a growing cache, as in inference.
PassRecord stepwise_pass(const Transformer& model, const PassTokens& tokens, Session& session);

// [query, key]: the textbook's weights of one head in double, zero where a row may not see the key.
std::vector<double> weights_of(const AttentionRecord& record, const TransformerConfig& config,
                               float scale, const DistanceBias& bias, int64_t head);

// Compares the textbook's attention in double with the contexts of a record, for all heads.
void check_contexts(const AttentionRecord& record, const TransformerConfig& config, float scale,
                    const DistanceBias& bias, ContextCheck& check);

// Whether all numbers and intervals of the two have the same bits.
bool same_bits(const AttentionRecord& a, const AttentionRecord& b);

// [heads, query, key]: scaled scores of every row with every key, whatever the row may see.
std::vector<float> scores_of(const AttentionRecord& record, const TransformerConfig& config,
                             float scale, const DistanceBias& bias);

// The part of a bias that sentences of this length read.
DistanceBias shortened(const DistanceBias& bias, int64_t reach);

}  // namespace tril
