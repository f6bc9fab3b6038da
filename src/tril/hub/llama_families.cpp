// Llama and Mistral: decoder-only, RMS norms, rotary positions, a gated feed-forward layer.
#include <optional>

#include "tril/base/error.h"
#include "tril/hub/family.h"

namespace tril::hub {
namespace {

// How positions are rotated: "rope_parameters" since version 5, "rope_theta" and "rope_scaling"
// before.
void read_rotary(ForeignConfig& theirs, TransformerConfig& ours) {
  constexpr double kMostBase = 1e12;
  ours.position = PositionType::rotary;
  ours.rotary_rounded = true;
  ours.rotary_base = theirs.number("rope_theta", 1.0, kMostBase, 10000.0);
  std::optional<ForeignConfig> scaling = theirs.object("rope_parameters");
  if (!scaling) scaling = theirs.object("rope_scaling");
  if (!scaling) return;
  ours.rotary_base = scaling->number("rope_theta", 1.0, kMostBase, ours.rotary_base);
  const std::string type = scaling->text("rope_type", scaling->text("type", "default"));
  const double share = scaling->number("partial_rotary_factor", 0.0, 1.0, 1.0);
  require(share == 1.0, ErrorCode::unsupported, scaling->file(),
          ": partial_rotary_factor: tril rotates all features of a head");
  if (type == "default") return;
  require(type == "linear" || type == "llama3", ErrorCode::unsupported, scaling->file(),
          ": rope_type is \"", printable(type), "\": tril computes default, linear and llama3");
  ours.rotary_scaling = type == "linear" ? RotaryScaling::linear : RotaryScaling::llama3;
  ours.rotary_factor = scaling->number("factor", 1.0, 1e6, {});
  if (type == "linear") return;
  ours.rotary_low = scaling->number("low_freq_factor", 1e-6, 1e6, {});
  ours.rotary_high = scaling->number("high_freq_factor", 1e-6, 1e6, {});
  ours.rotary_length = scaling->integer("original_max_position_embeddings", 1, 1 << 24);
}

class LlamaFamily final : public Family {
 public:
  explicit LlamaFamily(std::string_view name) : name_(name) {}

  std::string_view name() const override { return name_; }

  TransformerConfig config(ForeignConfig& theirs) const override {
    TransformerConfig ours;
    ours.target_vocab = theirs.integer("vocab_size", 1, 1 << 24);
    ours.model = theirs.integer("hidden_size", 1, 1 << 16);
    ours.heads = theirs.integer("num_attention_heads", 1, 4096);
    // Of Mistral 8 if the field is absent, and as many as heads if it is null.
    const bool as_mistral = is_mistral() && !theirs.is_null("num_key_value_heads");
    ours.kv_heads = theirs.integer("num_key_value_heads", 1, 4096, as_mistral ? 8 : ours.heads);
    ours.head_dim = theirs.integer("head_dim", 1, 4096, ours.model / ours.heads);
    ours.feed_forward = theirs.integer("intermediate_size", 1, 1 << 20);
    ours.encoder_layers = 0;
    ours.decoder_layers = theirs.integer("num_hidden_layers", 1, 1024);
    ours.norm = NormType::rms;
    ours.norm_position = NormPosition::pre;
    ours.norm_epsilon = theirs.number("rms_norm_eps", 1e-12, 1.0, 1e-6);
    ours.activation =
        activation_named(theirs.text("hidden_act", "silu"), "hidden_act", theirs.file());
    ours.gated = true;
    ours.max_length =
        theirs.integer("max_position_embeddings", 1, 1 << 20, is_mistral() ? 131072 : 2048);
    ours.tied = theirs.flag("tie_word_embeddings", false);
    ours.embedding_scale = false;
    ours.dropout = 0.0;
    read_rotary(theirs, ours);
    const bool attention = theirs.flag("attention_bias", false);
    const bool feed_forward = theirs.flag("mlp_bias", false);
    ours.bias = attention || feed_forward;
    if (attention != feed_forward) {
      ours.bias_in = attention ? BiasIn::attention : BiasIn::feed_forward;
    }
    if (is_mistral()) read_window(theirs, ours);
    theirs.ignore({"initializer_range", "pretraining_tp", "is_encoder_decoder"});
    return ours;
  }

  std::vector<TensorMap> tensors(const TransformerConfig& ours) const override {
    std::vector<TensorMap> maps;
    if (ours.tied) {
      maps.push_back({"embedding.weight", {"model.embed_tokens.weight", "lm_head.weight"}});
    } else {
      maps.push_back({"target_embedding.weight", {"model.embed_tokens.weight"}});
      maps.push_back({"output.weight", {"lm_head.weight"}});
    }
    const auto add = [&](const std::string& at, const std::string& theirs, bool bias) {
      maps.push_back({at + ".weight", {theirs + ".weight"}});
      if (bias) maps.push_back({at + ".bias", {theirs + ".bias"}});
    };
    const bool in_attention = ours.bias && ours.bias_in != BiasIn::feed_forward;
    const bool in_feed_forward = ours.bias && ours.bias_in != BiasIn::attention;
    for (int64_t i = 0; i < ours.decoder_layers; ++i) {
      const std::string at = concat("decoder.", i, "."), layer = concat("model.layers.", i, ".");
      add(at + "attention_norm", layer + "input_layernorm", false);
      add(at + "attention.query", layer + "self_attn.q_proj", in_attention);
      add(at + "attention.key", layer + "self_attn.k_proj", in_attention);
      add(at + "attention.value", layer + "self_attn.v_proj", in_attention);
      add(at + "attention.output", layer + "self_attn.o_proj", in_attention);
      add(at + "feed_forward_norm", layer + "post_attention_layernorm", false);
      add(at + "feed_forward.gate", layer + "mlp.gate_proj", in_feed_forward);
      add(at + "feed_forward.in", layer + "mlp.up_proj", in_feed_forward);
      add(at + "feed_forward.out", layer + "mlp.down_proj", in_feed_forward);
    }
    add("decoder.norm", "model.norm", false);
    return maps;
  }

  // Frequencies, which folders of earlier versions store.
  bool is_computed(std::string_view tensor) const override {
    return tensor.ends_with(".rotary_emb.inv_freq");
  }

 private:
  bool is_mistral() const { return name_ == "mistral"; }

  static void read_window(ForeignConfig& theirs, TransformerConfig& ours) {
    constexpr int64_t kUsual = 4096;
    // Null means none; only a missing field has the usual one.
    ours.window =
        theirs.is_null("sliding_window") ? 0 : theirs.integer("sliding_window", 1, 1 << 30, kUsual);
    if (ours.window >= ours.max_length) ours.window = 0;
  }

  std::string_view name_;
};

}  // namespace

const std::vector<const Family*>& llama_families() {
  static const LlamaFamily llama("llama"), mistral("mistral");
  static const std::vector<const Family*> list = {&llama, &mistral};
  return list;
}

}  // namespace tril::hub
