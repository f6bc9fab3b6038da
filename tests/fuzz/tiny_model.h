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

// Decoder-only and with as few tensors as there can be, for files that hold each of them four
// times.
inline TransformerConfig minimal_config() {
  TransformerConfig config = tiny_config();
  config.source_vocab = config.encoder_layers = 0;
  config.norm = NormType::rms;
  config.bias = config.output_bias = false;
  return config.completed();
}

}  // namespace tril::fuzz
