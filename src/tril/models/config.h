// The configuration of a Transformer, and its file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tril/base/layer_types.h"
#include "tril/base/words.h"

namespace tril {

enum class Stack { encoder, decoder };
enum class NormPosition { pre, post };
// sinusoidal: fixed, added to the embedding. learned: a parameter, added. rotary: queries and keys
// are rotated. alibi: a penalty by distance on the scores (Press et al., arXiv 2108.12409).
// relative: a parameter by distance and head, added to the scores of self-attention (Raffel et al.,
// arXiv 1910.10683).
enum class PositionType { sinusoidal, learned, rotary, alibi, none, relative };
// How sinusoidal positions are laid out over the features.
//   interleaved  the paper's: sines in the even features, cosines in the odd ones
//   halves       the same numbers, all sines before all cosines (Marian, Pegasus)
//   fairseq      halves, with frequencies 10000^(-i / (model/2 - 1)) and angles rounded to fp32
//                (M2M100, NLLB)
enum class Sinusoid { interleaved, halves, fairseq };
// Which linear layers have biases, if any have: those of attention_input are its queries, keys and
// values.
enum class BiasIn { all, attention_input, attention, feed_forward };
// How rotary frequencies are changed for texts longer than a model was first trained on: all
// divided by a factor, or as Llama 3 does, the low ones only.
enum class RotaryScaling { none, linear, llama3 };
// The slopes of ALiBi where the number of heads is no power of two. geometric: 2^(-8 (h+1) / heads)
// all the same. authors: as in their code, those of the next smaller power of two, then every
// second one of twice that power.
enum class AlibiSlopes { geometric, authors };

template <>
struct Words<NormPosition> {
  static constexpr std::string_view kList[] = {"pre", "post"};
};
template <>
struct Words<PositionType> {
  static constexpr std::string_view kList[] = {"sinusoidal", "learned", "rotary",
                                               "alibi",      "none",    "relative"};
};

template <>
struct Words<Sinusoid> {
  static constexpr std::string_view kList[] = {"interleaved", "halves", "fairseq"};
};
template <>
struct Words<BiasIn> {
  static constexpr std::string_view kList[] = {"all", "attention-input", "attention",
                                               "feed-forward"};
};
template <>
struct Words<RotaryScaling> {
  static constexpr std::string_view kList[] = {"none", "linear", "llama3"};
};
template <>
struct Words<AlibiSlopes> {
  static constexpr std::string_view kList[] = {"geometric", "authors"};
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
  // Two of the three matrices that `tied` makes one. A shared pair has the name of the target's
  // embedding.
  bool share_source_target = false;
  bool share_target_output = false;
  BiasIn bias_in = BiasIn::all;   // with `bias`
  double attention_scale = 0.0;   // what scores are multiplied by; 0: 1 / sqrt(head_dim)
  double output_scale = 1.0;      // what hidden states are multiplied by before the output product
  int64_t relative_buckets = 32;  // of distances, in the encoder for both directions together
  int64_t relative_distance = 128;  // from here on there is one bucket per direction
  double rotary_base = 10000.0;
  bool rotary_rounded = false;  // frequencies and angles in fp32, as transformers has them
  RotaryScaling rotary_scaling = RotaryScaling::none;
  double rotary_factor = 1.0;
  // For llama3: frequencies that turn less than rotary_low times in rotary_length positions are
  // divided by the factor, those that turn more than rotary_high times are kept, others lie
  // between.
  double rotary_low = 1.0;
  double rotary_high = 4.0;
  int64_t rotary_length = 8192;
  AlibiSlopes alibi_slopes = AlibiSlopes::geometric;
  // A token whose row of the embeddings training does not change, such as Marian's padding; -1:
  // none.
  int64_t frozen_token = -1;

  bool decoder_only() const { return encoder_layers == 0; }
  bool operator==(const TransformerConfig&) const = default;

  // With every 0 that stands for a default replaced by that default: what a model is built from.
  TransformerConfig completed() const;
  // Raises `invalid_argument` naming the field; for a completed configuration.
  void check() const;
};

// config.json: "format": 1, "architecture": "transformer", every field written out. Models that
// need more than format 1 has fields for are written in format 2, which adds those of its fields
// that differ from their defaults.
std::string to_json(const TransformerConfig& config);
// Raises `bad_format` naming file and field for anything missing, surplus, mistyped or out of
// range.
TransformerConfig config_from_json(std::string_view text, const std::string& file);

}  // namespace tril
