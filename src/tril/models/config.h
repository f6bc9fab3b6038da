// The configuration of a Transformer, and its file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tril/base/words.h"
#include "tril/kernels/activation.h"
#include "tril/kernels/norm.h"

namespace tril {

using NormType = kernels::NormKind;
using ActivationType = kernels::Activation;
enum class NormPosition { pre, post };
// sinusoidal: fixed, added to the embedding. learned: a parameter, added. rotary: queries and keys
// are rotated. alibi: a penalty by distance on the scores (Press et al., arXiv 2108.12409).
enum class PositionType { sinusoidal, learned, rotary, alibi, none };
// How sinusoidal positions are laid out over the features.
//   interleaved  the paper's: sines in the even features, cosines in the odd ones
//   halves       the same numbers, all sines before all cosines (Marian, Pegasus)
//   fairseq      halves, with frequencies 10000^(-i / (model/2 - 1)) and angles rounded to fp32
//                (M2M100, NLLB)
enum class Sinusoid { interleaved, halves, fairseq };

template <>
struct Words<NormPosition> {
  static constexpr std::string_view kList[] = {"pre", "post"};
};
template <>
struct Words<PositionType> {
  static constexpr std::string_view kList[] = {"sinusoidal", "learned", "rotary", "alibi", "none"};
};

template <>
struct Words<Sinusoid> {
  static constexpr std::string_view kList[] = {"interleaved", "halves", "fairseq"};
};

struct TransformerConfig {
  int64_t source_vocab = 0;  // 0: decoder-only
  int64_t target_vocab = 0;
  int64_t model = 512;
  int64_t heads = 8;
  int64_t kv_heads = 0;  // a divisor of heads: grouped key/value heads; 0: as many as heads
  int64_t head_dim = 0;  // 0: model / heads
  int64_t feed_forward = 2048;
  int64_t encoder_layers = 6;  // 0: decoder-only, without cross-attention
  int64_t decoder_layers = 6;
  NormType norm = NormType::layer;
  NormPosition norm_position = NormPosition::post;
  double norm_epsilon = 1e-5;
  ActivationType activation = ActivationType::relu;
  bool gated = false;
  PositionType position = PositionType::sinusoidal;
  int64_t max_length = 1024;
  int64_t window = 0;  // decoder self-attention sees this many keys back; 0: all
  bool tied = true;    // one matrix for source, target and output
  bool bias = true;    // in the linear layers
  bool output_bias = false;
  bool embedding_norm = false;  // a norm after the embeddings
  bool embedding_scale = true;  // embeddings times sqrt(model)
  double dropout = 0.1;         // in training
  // Format 2 of config.json.
  Sinusoid sinusoid = Sinusoid::interleaved;
  int64_t first_position = 0;  // what sinusoidal positions are counted from

  bool decoder_only() const { return encoder_layers == 0; }
  bool operator==(const TransformerConfig&) const = default;

  // With every 0 that stands for a default replaced by that default: what a model is built from.
  TransformerConfig completed() const;
  // Raises `invalid_argument` naming the field; for a completed configuration.
  void check() const;
};

// config.json: "format": 1, "architecture": "transformer", every field written out. Models that
// need more than format 1 has fields for are written in format 2.
std::string to_json(const TransformerConfig& config);
// Raises `bad_format` naming file and field for anything missing, surplus, mistyped or out of
// range.
TransformerConfig config_from_json(std::string_view text, const std::string& file);

}  // namespace tril
