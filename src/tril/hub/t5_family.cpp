// T5 and mT5, with what was made from them (FLAN, MADLAD): encoder–decoders with RMS norms, no
// biases, and a learnt bias by distance in place of positions.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "tril/base/error.h"
#include "tril/hub/family.h"
#include "tril/io/foreign/foreign_tensors.h"

namespace tril::hub {
namespace {

// There is no limit to positions; folders name the length that a model was trained with.
constexpr int64_t kMaxLength = 2048;

constexpr std::string_view kEmbeddings[] = {"shared.weight", "encoder.embed_tokens.weight",
                                            "decoder.embed_tokens.weight"};
constexpr std::string_view kOutput = "lm_head.weight";

class T5Family final : public Family {
 public:
  explicit T5Family(std::string_view name) : name_(name) {}

  std::string_view name() const override { return name_; }

  TransformerConfig config(ForeignConfig& theirs) const override {
    TransformerConfig ours;
    ours.source_vocab = ours.target_vocab = theirs.integer("vocab_size", 1, 1 << 24);
    ours.model = theirs.integer("d_model", 1, 1 << 16);
    ours.heads = theirs.integer("num_heads", 1, 4096);
    ours.head_dim = theirs.integer("d_kv", 1, 4096, 64);
    ours.feed_forward = theirs.integer("d_ff", 1, 1 << 20);
    ours.encoder_layers = theirs.integer("num_layers", 1, 1024);
    ours.decoder_layers = theirs.integer("num_decoder_layers", 1, 1024, ours.encoder_layers);
    ours.norm = NormType::rms;
    ours.norm_position = NormPosition::pre;
    ours.norm_epsilon = theirs.number("layer_norm_epsilon", 1e-12, 1.0, 1e-6);
    read_feed_forward(theirs, ours);
    ours.position = PositionType::relative;
    ours.relative_buckets = theirs.integer("relative_attention_num_buckets", 4, 1 << 16, 32);
    ours.relative_distance = theirs.integer("relative_attention_max_distance", 3, 1 << 20, 128);
    ours.max_length = std::max(kMaxLength, theirs.integer("n_positions", 1, 1 << 20, 512));
    ours.bias = false;
    ours.embedding_scale = false;
    ours.attention_scale = 1.0;
    ours.dropout = theirs.number("dropout_rate", 0.0, 0.99, 0.1);
    theirs.require_flag("is_encoder_decoder", true);
    // transformers takes the word of older folders, that matrices are not tied, for "1.1", whose
    // outputs are not scaled. Whether they are one matrix the weights tell.
    const bool said = theirs.flag("tie_word_embeddings", true);
    const bool scaled = theirs.flag("scale_decoder_outputs", said);
    if (scaled && !is_mt5()) ours.output_scale = 1.0 / std::sqrt(static_cast<double>(ours.model));
    theirs.ignore({"initializer_factor"});
    return ours;
  }

  void settle(const ForeignTensors& tensors, TransformerConfig& ours) const override {
    const ForeignTensor* embedding = nullptr;
    for (const std::string_view name : kEmbeddings) {  // MADLAD has the decoder's alone
      if (embedding == nullptr) embedding = tensors.find(name);
    }
    const ForeignTensor* output = tensors.find(kOutput);
    ours.tied = embedding == nullptr || output == nullptr || same_values(*embedding, *output);
    ours.share_source_target = !ours.tied;
  }
  void copy_settled(const TransformerConfig& from, TransformerConfig& ours) const override {
    ours.tied = from.tied;
    ours.share_source_target = from.share_source_target;
  }

  std::vector<TensorMap> tensors(const TransformerConfig& ours) const override {
    std::vector<TensorMap> maps;
    maps.push_back({ours.tied ? "embedding.weight" : "target_embedding.weight",
                    {std::begin(kEmbeddings), std::end(kEmbeddings)}});
    if (ours.tied) {
      maps.back().theirs.emplace_back(kOutput);
    } else {
      maps.push_back({"output.weight", {std::string(kOutput)}});
    }
    add_stack(ours, "encoder", ours.encoder_layers, maps);
    add_stack(ours, "decoder", ours.decoder_layers, maps);
    return maps;
  }

  // Folders of the first release have a bias for cross-attention that nothing reads.
  bool is_computed(std::string_view tensor) const override {
    return tensor == "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight";
  }

 private:
  bool is_mt5() const { return name_ == "mt5"; }

  // "relu", or "gated-gelu", where gelu means its approximation by tanh.
  void read_feed_forward(ForeignConfig& theirs, TransformerConfig& ours) const {
    constexpr std::string_view kGated = "gated-";
    const std::string name = theirs.text("feed_forward_proj", is_mt5() ? "gated-gelu" : "relu");
    const bool gated = name.starts_with(kGated);
    const std::string activation = name == "gated-gelu" ? "gelu_new"
                                   : gated              ? name.substr(kGated.size())
                                                        : name;
    ours.gated = theirs.flag("is_gated_act", gated);
    ours.activation = activation_named(theirs.text("dense_act_fn", activation), "feed_forward_proj",
                                       theirs.file());
  }

  static void add(const std::string& ours, const std::string& theirs,
                  std::vector<TensorMap>& maps) {
    maps.push_back({ours + ".weight", {theirs + ".weight"}});
  }
  static void add_attention(const std::string& ours, const std::string& layer,
                            const std::string& theirs, std::vector<TensorMap>& maps) {
    add(ours + ".query", layer + theirs + ".q", maps);
    add(ours + ".key", layer + theirs + ".k", maps);
    add(ours + ".value", layer + theirs + ".v", maps);
    add(ours + ".output", layer + theirs + ".o", maps);
    add(ours + "_norm", layer + "layer_norm", maps);
  }
  static void add_feed_forward(bool gated, const std::string& ours, const std::string& layer,
                               std::vector<TensorMap>& maps) {
    const std::string theirs = layer + "DenseReluDense.";
    if (gated) add(ours + ".gate", theirs + "wi_0", maps);
    add(ours + ".in", theirs + (gated ? "wi_1" : "wi"), maps);
    add(ours + ".out", theirs + "wo", maps);
    add(ours + "_norm", layer + "layer_norm", maps);
  }

  static void add_stack(const TransformerConfig& ours, const std::string& stack, int64_t layers,
                        std::vector<TensorMap>& maps) {
    const bool decoder = stack == "decoder";
    add(stack + ".relative_bias", stack + ".block.0.layer.0.SelfAttention.relative_attention_bias",
        maps);
    for (int64_t i = 0; i < layers; ++i) {
      const std::string at = concat(stack, ".", i, ".");
      const auto part = [&](int number) {
        return concat(stack, ".block.", i, ".layer.", number, ".");
      };
      add_attention(at + "attention", part(0), "SelfAttention", maps);
      if (decoder) add_attention(at + "cross_attention", part(1), "EncDecAttention", maps);
      add_feed_forward(ours.gated, at + "feed_forward", part(decoder ? 2 : 1), maps);
    }
    add(stack + ".norm", stack + ".final_layer_norm", maps);
  }

  std::string_view name_;
};

}  // namespace

const std::vector<const Family*>& t5_families() {
  static const T5Family t5("t5"), mt5("mt5");
  static const std::vector<const Family*> list = {&t5, &mt5};
  return list;
}

}  // namespace tril::hub
