// The families that descend from BART's code: encoder–decoders whose layers have the same names.
// They differ in where the norms are and in how positions are told.
#include <algorithm>
#include <iterator>

#include "tril/base/error.h"
#include "tril/hub/family.h"
#include "tril/io/foreign/foreign_tensors.h"
#include "tril/models/position_tables.h"

namespace tril::hub {
namespace {

constexpr int64_t kMaxSize = 1 << 24;

// How the members of the family differ.
struct Member {
  std::string_view name;
  NormPosition norm_position;
  PositionType position;
  Sinusoid sinusoid;
  int64_t first_position;    // of sinusoids
  int64_t unused_positions;  // rows of a learned table that no position has
  bool embedding_norm;
  bool output_bias;
  bool scaled;             // unless scale_embedding says otherwise
  const char* activation;  // unless activation_function says otherwise
};

constexpr auto kPre = NormPosition::pre, kPost = NormPosition::post;
constexpr auto kLearned = PositionType::learned, kSinusoidal = PositionType::sinusoidal;
constexpr Member kMembers[] = {
    {"marian", kPost, kSinusoidal, Sinusoid::halves, 0, 0, false, true, false, "gelu"},
    {"pegasus", kPre, kSinusoidal, Sinusoid::halves, 0, 0, false, true, false, "gelu"},
    {"m2m_100", kPre, kSinusoidal, Sinusoid::fairseq, 2, 0, false, false, true, "relu"},
    {"bart", kPost, kLearned, Sinusoid::interleaved, 0, 2, true, true, false, "gelu"},
    {"mbart", kPre, kLearned, Sinusoid::interleaved, 0, 2, true, true, false, "gelu"},
};

class BartFamily final : public Family {
 public:
  explicit BartFamily(const Member& member) : member_(member) {}

  std::string_view name() const override { return member_.name; }

  TransformerConfig config(ForeignConfig& theirs) const override {
    TransformerConfig ours;
    ours.source_vocab = theirs.integer("vocab_size", 1, kMaxSize);
    ours.model = theirs.integer("d_model", 1, 1 << 16);
    ours.heads = theirs.same_integer("encoder_attention_heads", "decoder_attention_heads", 1, 4096);
    ours.feed_forward = theirs.same_integer("encoder_ffn_dim", "decoder_ffn_dim", 1, 1 << 20);
    ours.encoder_layers = theirs.integer("encoder_layers", 1, 1024);
    ours.decoder_layers = theirs.integer("decoder_layers", 1, 1024);
    ours.norm_position = member_.norm_position;
    ours.activation = activation_named(theirs.text("activation_function", member_.activation),
                                       "activation_function", theirs.file());
    ours.position = member_.position;
    ours.sinusoid = member_.sinusoid;
    ours.first_position = member_.first_position;
    ours.max_length = theirs.integer("max_position_embeddings", 1, 1 << 20, 1024);
    ours.output_bias = member_.output_bias;
    ours.embedding_norm = member_.embedding_norm;
    ours.embedding_scale = theirs.flag("scale_embedding", member_.scaled);
    ours.dropout = theirs.number("dropout", 0.0, 0.99, 0.1);
    theirs.require_flag("is_encoder_decoder", true);
    ours.tied = theirs.flag("share_encoder_decoder_embeddings", true);
    if (ours.tied) {
      theirs.require_flag("tie_word_embeddings", true);
    } else {  // separate vocabularies: the target's embedding is still the output's
      ours.share_target_output = theirs.flag("tie_word_embeddings", true);
    }
    // Of Marian's folders from before these became classes of their own.
    theirs.require_flag("normalize_before", member_.norm_position == NormPosition::pre);
    theirs.require_flag("normalize_embedding", member_.embedding_norm);
    theirs.require_flag("static_position_embeddings", member_.position == kSinusoidal);
    theirs.require_flag("add_final_layer_norm", member_.norm_position == NormPosition::pre);
    theirs.require_flag("add_bias_logits", false);
    ours.target_vocab = theirs.integer("decoder_vocab_size", 1, kMaxSize, ours.source_vocab);
    require(!ours.tied || ours.target_vocab == ours.source_vocab, ErrorCode::unsupported,
            theirs.file(), ": decoder_vocab_size is ", ours.target_vocab, " and vocab_size is ",
            ours.source_vocab, ": with shared embeddings there is one vocabulary");
    // Marian's decoder reads it as START, so its row keeps its bits in a training.
    const std::vector<int64_t> padding =
        theirs.integers("pad_token_id", 0, std::min(ours.source_vocab, ours.target_vocab) - 1);
    if (!padding.empty()) ours.frozen_token = padding.front();
    return ours;
  }

  std::vector<TensorMap> tensors(const TransformerConfig& ours) const override {
    std::vector<TensorMap> maps;
    if (ours.tied) {
      maps.push_back({"embedding.weight",
                      {"model.shared.weight", "model.encoder.embed_tokens.weight",
                       "model.decoder.embed_tokens.weight", "lm_head.weight"}});
    } else {
      maps.push_back({"source_embedding.weight", {"model.encoder.embed_tokens.weight"}});
      maps.push_back({"target_embedding.weight", {"model.decoder.embed_tokens.weight"}});
      if (ours.share_target_output) {
        maps.back().theirs.push_back("lm_head.weight");
      } else {
        maps.push_back({"output.weight", {"lm_head.weight"}});
      }
    }
    if (ours.output_bias) {
      maps.push_back({.ours = "output.bias",
                      .theirs = {"final_logits_bias"},
                      .transform = Transform::as_row,
                      .optional = true});
    }
    add_stack(ours, "encoder", "source", ours.encoder_layers, maps);
    add_stack(ours, "decoder", "target", ours.decoder_layers, maps);
    for (TensorMap& map : maps) add_bare_names(map.theirs);
    return maps;
  }

  // Sinusoids, which folders of earlier versions store, and a number that fairseq's had.
  bool is_computed(std::string_view tensor) const override {
    const std::string_view bare = without_prefix(tensor);
    if (bare == "encoder.version" || bare == "decoder.version") return true;
    if (member_.position != kSinusoidal) return false;
    return bare == "encoder.embed_positions.weight" || bare == "decoder.embed_positions.weight" ||
           bare == "encoder.embed_positions.weights" || bare == "decoder.embed_positions.weights";
  }

  std::vector<float> computed(const ForeignTensor& tensor,
                              const TransformerConfig& ours) const override {
    const std::string_view bare = without_prefix(tensor.name());
    const bool is_table = bare.ends_with("embed_positions.weight");
    if (!is_table || tensor.shape() != Shape{ours.max_length, ours.model}) return {};
    return sinusoidal_values(ours);
  }

 private:
  static constexpr std::string_view kPrefix = "model.";
  static std::string_view without_prefix(std::string_view name) {
    return name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
  }
  // A folder that was saved without its output layer, as facebook/bart-base, has no prefix.
  static void add_bare_names(std::vector<std::string>& names) {
    const size_t count = names.size();
    for (size_t i = 0; i < count; ++i) {
      if (names[i].starts_with(kPrefix)) names.emplace_back(names[i].substr(kPrefix.size()));
    }
  }

  static void add_pair(const std::string& ours, const std::string& theirs,
                       std::vector<TensorMap>& maps) {
    maps.push_back({ours + ".weight", {theirs + ".weight"}});
    maps.push_back({ours + ".bias", {theirs + ".bias"}});
  }
  static void add_attention(const std::string& ours, const std::string& theirs,
                            const std::string& their_norm, std::vector<TensorMap>& maps) {
    add_pair(ours + ".query", theirs + ".q_proj", maps);
    add_pair(ours + ".key", theirs + ".k_proj", maps);
    add_pair(ours + ".value", theirs + ".v_proj", maps);
    add_pair(ours + ".output", theirs + ".out_proj", maps);
    add_pair(ours + "_norm", their_norm, maps);
  }

  void add_stack(const TransformerConfig& ours, const std::string& stack, const std::string& side,
                 int64_t layers, std::vector<TensorMap>& maps) const {
    const std::string model = "model." + stack + ".";
    if (member_.position == kLearned) {
      maps.push_back({.ours = side + "_position.weight",
                      .theirs = {model + "embed_positions.weight"},
                      .transform = Transform::rows,
                      .first = member_.unused_positions});
    }
    if (ours.embedding_norm) {
      add_pair(side + "_embedding_norm", model + "layernorm_embedding", maps);
    }
    for (int64_t i = 0; i < layers; ++i) {
      const std::string at = concat(stack, ".", i, ".");
      const std::string layer = concat(model, "layers.", i, ".");
      add_attention(at + "attention", layer + "self_attn", layer + "self_attn_layer_norm", maps);
      if (stack == "decoder") {
        add_attention(at + "cross_attention", layer + "encoder_attn",
                      layer + "encoder_attn_layer_norm", maps);
      }
      add_pair(at + "feed_forward.in", layer + "fc1", maps);
      add_pair(at + "feed_forward.out", layer + "fc2", maps);
      add_pair(at + "feed_forward_norm", layer + "final_layer_norm", maps);
    }
    if (ours.norm_position == NormPosition::pre)
      add_pair(stack + ".norm", model + "layer_norm", maps);
  }

  Member member_;
};

}  // namespace

const std::vector<const Family*>& bart_families() {
  static const std::vector<BartFamily> members(std::begin(kMembers), std::end(kMembers));
  static const std::vector<const Family*> list = [] {
    std::vector<const Family*> families;
    for (const BartFamily& member : members) families.push_back(&member);
    return families;
  }();
  return list;
}

}  // namespace tril::hub
