#include "tril/hub/native_export.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tril/base/error.h"
#include "tril/base/math.h"
#include "tril/decode/search.h"
#include "tril/hub/json_text.h"
#include "tril/hub/native_tokenizer.h"
#include "tril/models/transformer.h"

namespace tril::hub {
namespace {

// The fields that every configuration there has.
JsonObject described(std::string_view type, std::string_view architecture,
                     const TransformerConfig& config, const Tokenizer& tokenizer) {
  JsonObject json;
  json.set_raw("architectures", json_list({json_quoted(architecture)}))
      .set("model_type", type)
      .set("dtype", "float32")
      .set("vocab_size", config.target_vocab)
      .set("max_position_embeddings", config.max_length)
      .set("bos_token_id", tokenizer.start())
      .set("eos_token_id", tokenizer.end());
  if (tokenizer.pad()) json.set("pad_token_id", *tokenizer.pad());
  return json;
}

// How tril translates with the model unless told otherwise; tokens that it never writes are
// forbidden there too.
std::string generation(const TransformerConfig& config, const GenerationSettings& settings,
                       const Tokenizer& tokenizer) {
  std::vector<std::string> forbidden;
  for (const std::vector<int32_t>& sequence : settings.forbidden) {
    std::vector<std::string> tokens;
    for (const int32_t token : sequence) tokens.push_back(concat(token));
    forbidden.push_back(json_list(tokens));
  }
  for (const int32_t token : tokenizer.unwritable()) {
    if (token != tokenizer.end()) forbidden.push_back(json_list({concat(token)}));
  }
  JsonObject json;
  json.set("bos_token_id", tokenizer.start()).set("eos_token_id", tokenizer.end());
  if (tokenizer.pad()) json.set("pad_token_id", *tokenizer.pad());
  if (!config.decoder_only()) json.set("decoder_start_token_id", tokenizer.start());
  json.set("max_length", config.max_length);
  const SearchRule rule = settings.search.over({.beam = config.decoder_only() ? 1 : 5});
  if (rule.beam > 1) {
    json.set("num_beams", rule.beam).set("length_penalty", rule.length_penalty);
    if (rule.early_stopping == EarlyStopping::never) {
      json.set("early_stopping", "never");
    } else {
      json.set("early_stopping", rule.early_stopping == EarlyStopping::yes);
    }
    if (rule.renormalize) json.set("renormalize_logits", true);
  }
  if (rule.max_tokens > 0) json.set("max_new_tokens", rule.max_tokens);
  if (rule.min_tokens > 0) json.set("min_new_tokens", rule.min_tokens);
  if (rule.no_repeat_ngram > 0) json.set("no_repeat_ngram_size", rule.no_repeat_ngram);
  if (rule.repetition_penalty != 1.0) json.set("repetition_penalty", rule.repetition_penalty);
  if (rule.sample) {
    json.set("do_sample", true).set("temperature", rule.temperature).set("top_k", rule.top_k);
    json.set("top_p", rule.top_p);
  }
  json.set_raw("bad_words_ids", json_list(forbidden));
  return json.text() + "\n";
}

class Exporter {
 public:
  Exporter(const TransformerConfig& config, const GenerationSettings& settings,
           const Tokenizer& tokenizer, const std::string& model)
      : config_(config), settings_(settings), tokenizer_(tokenizer), model_(model) {
    made_.kept.metadata = {{"format", "pt"}};
    made_.kept.weight_files = {"model.safetensors"};
  }

  NativeExport encoder_decoder() {
    const bool pre = config_.norm_position == NormPosition::pre;
    begin(pre ? "pegasus" : "marian");
    refuse(config_.position != PositionType::sinusoidal, "position", word_for(config_.position));
    refuse(config_.sinusoid == Sinusoid::fairseq, "sinusoid", word_for(config_.sinusoid));
    refuse(config_.first_position != 0, "first_position", config_.first_position);
    refuse(config_.norm != NormType::layer, "norm", word_for(config_.norm));
    refuse(config_.norm_epsilon != 1e-5, "norm_epsilon", config_.norm_epsilon);
    refuse(config_.gated, "gated", "true");
    refuse(!config_.tied, "tied", "false");
    refuse(config_.embedding_norm, "embedding_norm", "true");
    refuse(config_.kv_heads != config_.heads, "kv_heads", config_.kv_heads);
    refuse(config_.head_dim * config_.heads != config_.model, "head_dim", config_.head_dim);
    refuse(config_.window != 0, "window", config_.window);
    refuse(config_.model % 2 != 0, "model", config_.model);
    refuse_scales();
    TransformerConfig theirs = config_;
    theirs.bias = theirs.output_bias = true;  // zeros where there are none
    theirs.bias_in = BiasIn::all;
    add_tensors(theirs);
    if (config_.sinusoid == Sinusoid::interleaved) permute();
    if (pre) add_sinusoids();
    JsonObject json =
        described(made_.kept.family, pre ? "PegasusForConditionalGeneration" : "MarianMTModel",
                  config_, tokenizer_);
    if (!pre) json.set("decoder_vocab_size", config_.target_vocab);
    json.set("d_model", config_.model)
        .set("encoder_layers", config_.encoder_layers)
        .set("decoder_layers", config_.decoder_layers)
        .set("encoder_attention_heads", config_.heads)
        .set("decoder_attention_heads", config_.heads)
        .set("encoder_ffn_dim", config_.feed_forward)
        .set("decoder_ffn_dim", config_.feed_forward)
        .set("activation_function", name_of(config_.activation))
        .set("dropout", config_.dropout)
        .set("attention_dropout", 0.0)
        .set("activation_dropout", 0.0)
        .set("scale_embedding", config_.embedding_scale)
        .set("share_encoder_decoder_embeddings", true)
        .set("tie_word_embeddings", true)
        .set("is_encoder_decoder", true)
        .set("decoder_start_token_id", tokenizer_.start())
        .set_raw("forced_eos_token_id", "null");
    return finished(json, marian_files(tokenizer_, config_.max_length));
  }

  NativeExport decoder() {
    begin(config_.window > 0 ? "mistral" : "llama");
    refuse(config_.position != PositionType::rotary, "position", word_for(config_.position));
    refuse(config_.norm != NormType::rms, "norm", word_for(config_.norm));
    refuse(config_.norm_position != NormPosition::pre, "norm_position", "post");
    refuse(!config_.gated, "gated", "false");
    refuse(config_.output_bias, "output_bias", "true");
    refuse(config_.embedding_norm, "embedding_norm", "true");
    refuse(config_.bias && config_.window > 0, "bias", "true");
    refuse(config_.bias && config_.bias_in == BiasIn::attention_input, "bias_in",
           word_for(config_.bias_in));
    refuse_scales();
    TransformerConfig theirs = config_;
    // Embeddings are not scaled there: they are multiplied beforehand, and not tied.
    if (config_.embedding_scale) theirs.tied = false;
    add_tensors(theirs);
    if (config_.embedding_scale) scale_embeddings();
    JsonObject json =
        described(made_.kept.family, config_.window > 0 ? "MistralForCausalLM" : "LlamaForCausalLM",
                  config_, tokenizer_);
    json.set("hidden_size", config_.model)
        .set("intermediate_size", config_.feed_forward)
        .set("num_hidden_layers", config_.decoder_layers)
        .set("num_attention_heads", config_.heads)
        .set("num_key_value_heads", config_.kv_heads)
        .set("head_dim", config_.head_dim)
        .set("hidden_act", name_of(config_.activation))
        .set("rms_norm_eps", config_.norm_epsilon)
        .set("tie_word_embeddings", theirs.tied);
    add_rotary(json);
    if (config_.window > 0) {
      json.set("sliding_window", config_.window);
    } else {
      json.set("attention_bias", config_.bias && config_.bias_in != BiasIn::feed_forward)
          .set("mlp_bias", config_.bias && config_.bias_in != BiasIn::attention);
    }
    return finished(json, fast_files(tokenizer_, config_.max_length, model_));
  }

 private:
  void begin(std::string_view family) {
    made_.kept.family = family;
    made_.family = &family_named(family, model_);
  }

  template <class Value>
  void refuse(bool other, std::string_view field, const Value& value) const {
    require(!other, ErrorCode::unsupported, model_, ": ", field, " is ", value,
            ", which no model of family ", made_.kept.family, " has: it cannot be exported");
  }
  void refuse_scales() const {
    refuse(config_.attention_scale != 0.0, "attention_scale", config_.attention_scale);
    refuse(config_.output_scale != 1.0, "output_scale", config_.output_scale);
  }

  void add_tensors(const TransformerConfig& theirs) {
    made_.maps = made_.family->tensors(theirs);
    const auto shapes = Transformer::parameter_shapes(theirs);
    for (const TensorMap& map : made_.maps) {
      const auto found = std::find_if(shapes.begin(), shapes.end(),
                                      [&](const auto& each) { return each.name == map.ours; });
      require(found != shapes.end(), ErrorCode::internal, "hub: no parameter ", map.ours);
      made_.kept.tensors.push_back(
          {map.theirs.front(), StoredType::f32, shape_there(map, found->shape)});
    }
  }

  // Pegasus stores the table that Marian computes.
  void add_sinusoids() {
    const int64_t half = config_.model / 2;
    std::vector<float> table;
    table.reserve(static_cast<size_t>(config_.max_length * config_.model));
    for (int64_t row = 0; row < config_.max_length; ++row) {
      for (int64_t i = 0; i < config_.model; ++i) {
        const double exponent =
            2.0 * static_cast<double>(i % half) / static_cast<double>(config_.model);
        const double angle = static_cast<double>(row) / math::pow(10000.0, exponent);
        table.push_back(static_cast<float>(i < half ? math::sin(angle) : math::cos(angle)));
      }
    }
    std::string bytes(table.size() * sizeof(float), '\0');
    write_elements(StoredType::f32, table, bytes.data());
    const size_t data = made_.kept.add_data(std::move(bytes));
    for (const char* stack : {"encoder", "decoder"}) {
      made_.kept.tensors.push_back({concat("model.", stack, ".embed_positions.weight"),
                                    StoredType::f32,
                                    {config_.max_length, config_.model},
                                    0,
                                    data});
    }
  }

  void permute() {
    const int64_t half = config_.model / 2;
    for (int64_t i = 0; i < config_.model; ++i) {
      made_.features.push_back(i < half ? 2 * i : 2 * (i - half) + 1);
    }
  }

  void scale_embeddings() {
    for (TensorMap& map : made_.maps) {
      if (map.ours == "target_embedding.weight") {
        map.factor = static_cast<float>(std::sqrt(static_cast<double>(config_.model)));
      } else if (map.ours != "output.weight") {
        continue;
      }
      if (config_.tied) map.ours = "embedding.weight";
    }
  }

  void add_rotary(JsonObject& json) const {
    JsonObject rotary;
    rotary.set("rope_theta", config_.rotary_base);
    if (config_.rotary_scaling == RotaryScaling::none) {
      rotary.set("rope_type", "default");
    } else {
      rotary.set("rope_type", word_for(config_.rotary_scaling))
          .set("factor", config_.rotary_factor);
    }
    if (config_.rotary_scaling == RotaryScaling::llama3) {
      rotary.set("low_freq_factor", config_.rotary_low)
          .set("high_freq_factor", config_.rotary_high)
          .set("original_max_position_embeddings", config_.rotary_length);
    }
    json.set_raw("rope_parameters", rotary.text());
  }

  NativeExport finished(const JsonObject& json, std::map<std::string, std::string> files) {
    made_.kept.files = std::move(files);
    made_.kept.files.emplace("config.json", json.text() + "\n");
    made_.kept.files.emplace("generation_config.json", generation(config_, settings_, tokenizer_));
    return std::move(made_);
  }

  const TransformerConfig& config_;
  const GenerationSettings& settings_;
  const Tokenizer& tokenizer_;
  const std::string& model_;
  NativeExport made_;
};

}  // namespace

NativeExport native_export(const TransformerConfig& config, const GenerationSettings& settings,
                           const Tokenizer& tokenizer, const std::string& model) {
  Exporter exporter(config, settings, tokenizer, model);
  return config.decoder_only() ? exporter.decoder() : exporter.encoder_decoder();
}

}  // namespace tril::hub
