// The smallest model that has every part a file can be wrong about.
#pragma once

#include "tril/models/transformer.h"

namespace tril::fuzz {

inline TransformerConfig tiny_config() {
  TransformerConfig config;
  config.source_vocab = config.target_vocab = 5;
  config.model = 2;
  config.heads = config.kv_heads = 1;
  config.head_dim = 2;
  config.feed_forward = 2;
  config.encoder_layers = config.decoder_layers = 1;
  config.max_length = 8;
  config.output_bias = true;
  return config.completed();
}

}  // namespace tril::fuzz
