// The layers of a Transformer and their names. Internal to models/.
#pragma once

#include <vector>

#include "tril/models/config.h"
#include "tril/models/transformer.h"
#include "tril/nn/attention.h"
#include "tril/nn/layers.h"

namespace tril {

struct EncoderBlock {
  nn::MultiHeadAttention attention;
  nn::Norm attention_norm;
  nn::FeedForward feed_forward;
  nn::Norm feed_forward_norm;
};

struct DecoderBlock {
  nn::MultiHeadAttention attention;
  nn::Norm attention_norm;
  nn::MultiHeadAttention cross_attention;  // absent in a decoder-only model
  nn::Norm cross_attention_norm;
  nn::FeedForward feed_forward;
  nn::Norm feed_forward_norm;
};

struct Transformer::State {
  explicit State(const TransformerConfig& given, const Placement& placement,
                 nn::ParameterSet::Gate gate = {});
  // For inference: matrices in this form alone, which parameters.fill() makes.
  State(const TransformerConfig& given, const Placement& placement, Compute compute,
        nn::ParameterSet::Gate gate);
  // The same from packed parameters.
  State(const TransformerConfig& given, Compute compute, nn::ParameterSet::Find find);

  TransformerConfig config;
  FolderSeal seal;      // of the folder it was loaded from
  bool frozen = false;  // the weights must not be changed
  nn::ParameterSet parameters;
  Arena tables_arena;

  std::shared_ptr<Arena> packed_arena;  // of the parameters, if they were already packed
  const ops::LinearWeight* source_embedding = nullptr;  // the same matrix if tied
  const ops::LinearWeight* target_embedding = nullptr;
  Tensor source_positions, target_positions;  // learned or sinusoidal; undefined otherwise
  Tensor rotary_table;                        // rotary only
  // What is added to the scores of a stack's self-attention: [heads, 2 max_length - 1]; alibi and
  // relative positions only.
  Tensor encoder_bias, decoder_bias;
  // For relative positions: the parameters they are made from, and the bucket of each distance.
  Tensor encoder_relative_bias, decoder_relative_bias;
  std::vector<int32_t> encoder_buckets, decoder_buckets;
  nn::Norm source_embedding_norm, target_embedding_norm;  // if configured
  std::vector<EncoderBlock> encoder;
  std::vector<DecoderBlock> decoder;
  nn::Norm encoder_norm, decoder_norm;  // pre-norm only
  nn::Linear output;

  // What is added to the scores in a step, or nothing: a table made once for all steps, or under a
  // tape one made from the weights, which then have gradients.
  Tensor bias_in_encoder(Context& context) const;
  Tensor bias_in_decoder(Context& context) const;

  // To be called whenever the parameters were set, before the model is used: makes what is derived
  // from them. Only enqueues.
  void derive(Context& context) const;

 private:
  void build();
  ops::LinearWeight* add_embeddings();
  void add_tables();
};

}  // namespace tril
