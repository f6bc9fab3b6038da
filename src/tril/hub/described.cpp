#include "tril/hub/described.h"

#include <filesystem>

#include "tril/hub/generation_settings.h"
#include "tril/io/atomic_file.h"
#include "tril/models/folder.h"

namespace tril::hub {
namespace {

// Fields that change nothing that tril computes: for training, for other tasks, for generate(), or
// told by the files of the tokenizer.
void ignore_harmless(ForeignConfig& config) {
  config.ignore({"architectures",
                 "model_type",
                 "transformers_version",
                 "torch_dtype",
                 "dtype",
                 "_name_or_path",
                 "use_cache",
                 "num_hidden_layers",
                 "init_std",
                 "attention_dropout",
                 "activation_dropout",
                 "classifier_dropout",
                 "classif_dropout",
                 "encoder_layerdrop",
                 "decoder_layerdrop",
                 "gradient_checkpointing",
                 "id2label",
                 "label2id",
                 "num_labels",
                 "_num_labels",
                 "bos_token_id",
                 "pad_token_id",
                 "unk_token_id",
                 "eos_token_id",
                 "decoder_start_token_id",
                 "task_specific_params",
                 "prefix",
                 "return_dict",
                 "output_past",
                 "save_step",
                 "extra_pos_embeddings",
                 "tokenizer_class",
                 "output_attentions",
                 "output_hidden_states",
                 "is_decoder",
                 "torchscript",
                 "add_cross_attention",
                 "chunk_size_feed_forward",
                 "problem_type",
                 "layerdrop"});
}

// Fields of other architectures, or of quantized weights, with which the same tensors mean another
// function.
constexpr std::string_view kFieldsThatMatter[] = {
    "quantization_config",
    "auto_map",
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "query_pre_attn_scalar",
    "use_qk_norm",
    "logit_scale",
    "logits_scaling",
    "embedding_multiplier",
    "residual_multiplier",
    "attention_multiplier",
    "text_config",
    "pruned_heads",
};

void refuse_what_matters(const ForeignConfig& config) {
  for (const std::string_view name : kFieldsThatMatter) {
    require(!config.is_set(name), ErrorCode::unsupported, config.file(), ": ", name,
            ": tril does not compute models with this field");
  }
}

ForeignConfig read_config_file(const std::string& folder) {
  const std::string file = path_in(folder, kConfigFile);
  std::error_code none;
  require(std::filesystem::exists(folder, none), ErrorCode::io, folder,
          ": no such folder (tril downloads nothing: get the model's files first)");
  require(std::filesystem::is_directory(folder, none), ErrorCode::io, folder, ": not a folder");
  require(file_exists(file), ErrorCode::io, folder, ": has no ", kConfigFile);
  require_regular(file);
  ForeignConfig config(read_file(file, kMaxConfigBytes), file);
  require(!config.is_set("architecture"), ErrorCode::invalid_argument, folder,
          ": holds a model of tril already: there is nothing to import");
  return config;
}

}  // namespace

Described::Described(const std::string& folder)
    : folder_(folder), config_(read_config_file(folder)) {
  read_family();
}

Described::Described(std::string_view config, const std::string& file) : config_(config, file) {
  read_family();
}

void Described::read_family() {
  family_ = &family_named(config_.text("model_type"), config_.file());
  refuse_what_matters(config_);
  try {
    ours_ = family_->config(config_).completed();
    ours_.check();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    fail(ErrorCode::unsupported, config_.file(), ": ", error.what());
  }
  ignore_harmless(config_);
  for (const std::string_view field : generation_fields()) config_.ignore({field});
  unknown_ = config_.unknown();
}

TokenizerSettings Described::settings() {
  TokenizerSettings settings{.family = std::string(family_->name()),
                             .source_vocab = ours_.source_vocab,
                             .target_vocab = ours_.target_vocab};
  add_special_tokens(config_, settings);
  const std::string file = path_in(folder_, kGenerationConfigFile);
  if (!folder_.empty() && file_exists(file)) {
    ForeignConfig generation(read_file(file, kMaxConfigBytes), file);
    add_special_tokens(generation, settings);
  }
  return settings;
}

void Described::add_special_tokens(ForeignConfig& from, TokenizerSettings& settings) const {
  const int64_t most = ours_.target_vocab - 1;
  const std::vector<int64_t> start = from.integers("decoder_start_token_id", 0, most);
  if (!start.empty()) settings.start = static_cast<int32_t>(start.front());
  const std::vector<int64_t> ends = from.integers("eos_token_id", 0, most);
  if (!ends.empty()) settings.ends.assign(ends.begin(), ends.end());
}

void Described::tell(const Function<void(const Notice&)>& notice) const {
  if (!notice) return;
  std::string names;
  for (const std::string& name : unknown_) {
    names += concat(names.empty() ? "" : ", ", printable(name));
  }
  if (!names.empty()) {
    notice(concat(config_.file(), ": ignored, because tril does not know: ", names));
  }
}

}  // namespace tril::hub
