// GPT-2: decoder-only, learned positions. Its matrices are stored transposed ("Conv1D"), and those
// of queries, keys and values as one.
#include "tril/base/error.h"
#include "tril/hub/family.h"

namespace tril::hub {
namespace {

class Gpt2Family final : public Family {
 public:
  std::string_view name() const override { return "gpt2"; }

  TransformerConfig config(ForeignConfig& theirs) const override {
    TransformerConfig ours;
    ours.target_vocab = theirs.integer("vocab_size", 1, 1 << 24);
    ours.model = theirs.integer("n_embd", 1, 1 << 16);
    ours.heads = theirs.integer("n_head", 1, 4096);
    ours.feed_forward = theirs.integer("n_inner", 1, 1 << 20, 4 * ours.model);
    ours.encoder_layers = 0;
    ours.decoder_layers = theirs.integer("n_layer", 1, 1024);
    ours.norm_position = NormPosition::pre;
    ours.norm_epsilon = theirs.number("layer_norm_epsilon", 1e-12, 1.0, 1e-5);
    ours.activation = activation_named(theirs.text("activation_function", "gelu_new"),
                                       "activation_function", theirs.file());
    ours.position = PositionType::learned;
    ours.max_length = theirs.integer("n_positions", 1, 1 << 20, 1024);
    ours.tied = theirs.flag("tie_word_embeddings", true);
    ours.embedding_scale = false;
    if (!theirs.flag("scale_attn_weights", true)) ours.attention_scale = 1.0;
    ours.dropout = theirs.number("resid_pdrop", 0.0, 0.99, 0.1);
    theirs.require_flag("scale_attn_by_inverse_layer_idx", false);
    theirs.require_flag("add_cross_attention", false);
    theirs.ignore({"n_ctx", "attn_pdrop", "embd_pdrop", "initializer_range",
                   "reorder_and_upcast_attn", "summary_activation", "summary_first_dropout",
                   "summary_proj_to_labels", "summary_type", "summary_use_proj",
                   "predict_special_tokens", "is_encoder_decoder"});
    return ours;
  }

  std::vector<TensorMap> tensors(const TransformerConfig& ours) const override {
    std::vector<TensorMap> maps;
    if (ours.tied) {
      maps.push_back({"embedding.weight", with_prefix("wte.weight", "lm_head.weight")});
    } else {
      maps.push_back({"target_embedding.weight", with_prefix("wte.weight")});
      maps.push_back({"output.weight", {"lm_head.weight"}});
    }
    maps.push_back({"target_position.weight", with_prefix("wpe.weight")});
    for (int64_t i = 0; i < ours.decoder_layers; ++i) {
      const std::string at = concat("decoder.", i, "."), layer = concat("h.", i, ".");
      add_norm(at + "attention_norm", layer + "ln_1", maps);
      int64_t part = 0;
      for (const char* of : {"query", "key", "value"}) {
        add_matrix(at + "attention." + of, layer + "attn.c_attn", part++ * ours.model,
                   3 * ours.model, maps);
      }
      add_matrix(at + "attention.output", layer + "attn.c_proj", 0, 0, maps);
      add_norm(at + "feed_forward_norm", layer + "ln_2", maps);
      add_matrix(at + "feed_forward.in", layer + "mlp.c_fc", 0, 0, maps);
      add_matrix(at + "feed_forward.out", layer + "mlp.c_proj", 0, 0, maps);
    }
    add_norm("decoder.norm", "ln_f", maps);
    return maps;
  }

  // Masks, which folders of earlier versions store.
  bool is_computed(std::string_view tensor) const override {
    return tensor.ends_with(".attn.bias") || tensor.ends_with(".attn.masked_bias");
  }

 private:
  // The prefix is missing where only the body of a model was saved.
  static std::vector<std::string> with_prefix(const std::string& name,
                                              const std::string& copy = {}) {
    std::vector<std::string> names = {"transformer." + name, name};
    if (!copy.empty()) names.push_back(copy);
    return names;
  }
  static void add_norm(const std::string& ours, const std::string& theirs,
                       std::vector<TensorMap>& maps) {
    maps.push_back({ours + ".weight", with_prefix(theirs + ".weight")});
    maps.push_back({ours + ".bias", with_prefix(theirs + ".bias")});
  }
  static void add_matrix(const std::string& ours, const std::string& theirs, int64_t first,
                         int64_t total, std::vector<TensorMap>& maps) {
    maps.push_back(
        {ours + ".weight", with_prefix(theirs + ".weight"), Transform::transposed, first, total});
    maps.push_back({ours + ".bias", with_prefix(theirs + ".bias"), Transform::rows, first, total});
  }
};

}  // namespace

const std::vector<const Family*>& gpt2_families() {
  static const Gpt2Family family;
  static const std::vector<const Family*> list = {&family};
  return list;
}

}  // namespace tril::hub
