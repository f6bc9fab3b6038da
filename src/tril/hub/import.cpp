#include "tril/hub/import.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "tril/base/rounding.h"
#include "tril/hub/family.h"
#include "tril/io/atomic_file.h"
#include "tril/io/foreign/foreign_tensors.h"
#include "tril/models/folder.h"
#include "tril/text/tokenizer.h"

namespace tril::hub {
namespace {

constexpr int64_t kMaxFile = 64 << 20;
constexpr std::string_view kGenerationFile = "generation_config.json";

Tokenizer read_tokenizer(const std::string& folder, const TokenizerSettings& settings) {
  TokenizerFiles files;
  for (const std::string_view name : Tokenizer::file_names()) {
    const std::string file = path_in(folder, name);
    if (file_exists(file)) files.emplace(name, read_file(file, kMaxFile));
  }
  return Tokenizer::from_files(std::move(files), settings, folder);
}

bool same_values(const ForeignTensor& a, const ForeignTensor& b) {
  if (a.same_elements(b)) return true;
  if (a.type() != b.type() || !(a.shape() == b.shape())) return false;
  constexpr int64_t kBlock = 1 << 16;
  std::vector<float> one, other;
  for (int64_t first = 0; first < a.size(); first += kBlock) {
    const auto count = static_cast<size_t>(std::min(kBlock, a.size() - first));
    one.resize(count);
    other.resize(count);
    a.read(one, first);
    b.read(other, first);
    if (std::memcmp(one.data(), other.data(), count * sizeof(float)) != 0) return false;
  }
  return true;
}

// The shape that their tensor must have to become this parameter.
Shape shape_there(const TensorMap& map, const Shape& ours) {
  switch (map.transform) {
    case Transform::same: return ours;
    case Transform::as_row: return {1, ours[0]};
    case Transform::positions_on: return {ours[0] + map.skipped, ours[1]};
  }
  return ours;
}

class Weights {
 public:
  Weights(const std::string& folder, const Family& family) : tensors_(folder), family_(family) {}

  void fill(Transformer& model, const TransformerConfig& ours) {
    std::map<std::string, TensorMap> maps;
    for (TensorMap& map : family_.tensors(ours)) {
      std::string name = map.ours;
      maps.emplace(std::move(name), std::move(map));
    }
    for (const Transformer::NamedParameter& parameter : model.writable_parameters()) {
      const auto found = maps.find(parameter.name);
      require(found != maps.end(), ErrorCode::internal, "hub: ", family_.name(),
              " has no tensor for '", parameter.name, "'");
      fill_one(found->second, parameter.tensor);
    }
    check_surplus();
    Context context(1, model.placement());
    model.weights_changed(context);
    context.queue.wait();  // sessions read the weights in queues of their own
  }

 private:
  void fill_one(const TensorMap& map, const Tensor& ours) {
    const ForeignTensor* from = nullptr;
    for (const std::string& name : map.theirs) {
      const ForeignTensor* tensor = tensors_.find(name);
      if (tensor == nullptr) continue;
      used_.insert(name);
      if (from == nullptr) {
        from = tensor;
        continue;
      }
      require(same_values(*from, *tensor), ErrorCode::unsupported, tensor->file(), ": tensor '",
              name, "' differs from '", from->name(), "': tril has one matrix for both");
    }
    std::vector<float> values(static_cast<size_t>(ours.size()), 0.0f);
    if (from != nullptr) {
      const Shape expected = shape_there(map, ours.shape());
      require(from->shape() == expected, ErrorCode::bad_format, from->file(), ": tensor '",
              from->name(), "' is ", from->shape(), ", config.json asks for ", expected);
      from->read(values, map.skipped * (map.skipped > 0 ? ours.shape()[1] : 0));
    } else {
      require(map.optional, ErrorCode::bad_format, tensors_.folder(), ": tensor '",
              map.theirs.front(), "' is missing");
    }
    set_values(ours, values);
  }

  void check_surplus() const {
    for (const ForeignTensor& tensor : tensors_.all()) {
      require(used_.contains(tensor.name()) || family_.is_computed(tensor.name()),
              ErrorCode::unsupported, tensor.file(), ": tensor '", printable(tensor.name()),
              "' is not part of a model of family ", family_.name());
    }
  }

  ForeignTensors tensors_;
  const Family& family_;
  std::set<std::string> used_;
};

// Settings of generate() that change its results, and the values with which they do not.
constexpr std::pair<std::string_view, double> kGenerationSettings[] = {
    {"num_beams", 1.0},          {"length_penalty", 1.0},       {"early_stopping", 0.0},
    {"min_length", 0.0},         {"no_repeat_ngram_size", 0.0}, {"repetition_penalty", 1.0},
    {"forced_bos_token_id", -1}, {"forced_eos_token_id", -1},   {"bad_words_ids", -1},
    {"do_sample", 0.0},          {"renormalize_logits", 0.0},
};

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
                 "forced_bos_token_id",
                 "forced_eos_token_id",
                 "bad_words_ids",
                 "num_beams",
                 "max_length",
                 "min_length",
                 "length_penalty",
                 "early_stopping",
                 "no_repeat_ngram_size",
                 "num_return_sequences",
                 "task_specific_params",
                 "prefix",
                 "return_dict",
                 "output_past",
                 "save_step",
                 "extra_pos_embeddings",
                 "force_bos_token_to_be_generated",
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

// What config.json, and generation_config.json where there is one, say of a folder's model.
class Described {
 public:
  explicit Described(const std::string& folder)
      : folder_(folder),
        config_(read_config_file(folder)),
        family(family_named(config_.text("model_type"), config_.file())),
        ours(family.config(config_)) {
    try {
      ours = ours.completed();
      ours.check();
    } catch (const Error& error) {
      fail(ErrorCode::unsupported, config_.file(), ": ", error.what());
    }
    ignore_harmless(config_);
  }

  TokenizerSettings settings() {
    TokenizerSettings settings{.family = std::string(family.name()),
                               .source_vocab = ours.source_vocab,
                               .target_vocab = ours.target_vocab};
    add_special_tokens(config_, settings);
    // Where there is one, it is the newer of the two.
    const std::string file = path_in(folder_, kGenerationFile);
    if (file_exists(file)) {
      ForeignConfig generation(read_file(file, kMaxFile), file);
      add_special_tokens(generation, settings);
    }
    return settings;
  }

  void tell_unknown(const ImportOptions& options) const {
    if (!options.notice) return;
    std::string names;
    for (const std::string& name : config_.unknown()) {
      names += concat(names.empty() ? "" : ", ", printable(name));
    }
    if (!names.empty()) {
      options.notice(concat(config_.file(), ": ignored, because tril does not know: ", names));
    }
    tell_settings(config_, options);
    const std::string file = path_in(folder_, kGenerationFile);
    if (file_exists(file)) tell_settings(ForeignConfig(read_file(file, kMaxFile), file), options);
  }

  ImportReport report(const Transformer& model) const {
    return {.family = std::string(family.name()),
            .config = ours,
            .parameters = model.parameter_count(),
            .unknown_fields = config_.unknown()};
  }

 private:
  static ForeignConfig read_config_file(const std::string& folder) {
    const std::string file = path_in(folder, kConfigFile);
    std::error_code none;
    require(std::filesystem::exists(folder, none), ErrorCode::io, folder, ": no such folder");
    require(std::filesystem::is_directory(folder, none), ErrorCode::io, folder, ": not a folder");
    require(file_exists(file), ErrorCode::io, folder, ": has no ", kConfigFile);
    ForeignConfig config(read_file(file, kMaxFile), file);
    require(!config.differs("architecture", -1), ErrorCode::invalid_argument, folder,
            ": holds a model of tril already: there is nothing to import");
    return config;
  }
  static void tell_settings(const ForeignConfig& from, const ImportOptions& options) {
    std::string names;
    for (const auto& [name, neutral] : kGenerationSettings) {
      if (from.differs(name, neutral)) names += concat(names.empty() ? "" : ", ", name);
    }
    if (names.empty()) return;
    options.notice(
        concat(from.file(), ": settings of generate() that tril does not take over: ", names));
  }

  void add_special_tokens(ForeignConfig& from, TokenizerSettings& settings) const {
    const int64_t most = ours.target_vocab - 1;
    const std::vector<int64_t> start = from.integers("decoder_start_token_id", 0, most);
    if (!start.empty()) settings.start = static_cast<int32_t>(start.front());
    const std::vector<int64_t> ends = from.integers("eos_token_id", 0, most);
    if (!ends.empty()) settings.ends.assign(ends.begin(), ends.end());
  }

  std::string folder_;
  ForeignConfig config_;

 public:
  const Family& family;
  TransformerConfig ours;
};

}  // namespace

bool is_foreign_folder(const std::string& folder) {
  const std::string file = path_in(folder, kConfigFile);
  if (!file_exists(file)) return false;
  const JsonValue config = parse_json(read_file(file, kMaxFile), file, kForeignJson);
  return config.kind == JsonValue::Kind::object && config.find("model_type") != nullptr;
}

Transformer read_model(const std::string& folder, const ImportOptions& options,
                       ImportReport* report) {
  const StandardRounding rounding;
  Described described(folder);
  described.tell_unknown(options);
  Weights weights(folder, described.family);
  Transformer model(described.ours, 0);
  weights.fill(model, described.ours);
  if (report != nullptr) *report = described.report(model);
  return model;
}

ImportReport import(const std::string& folder, const std::string& to,
                    const ImportOptions& options) {
  require(!is_foreign_folder(to), ErrorCode::invalid_argument, to,
          ": holds a model of Hugging Face's transformers: choose another folder");
  require(options.overwrite == Overwrite::yes || !file_exists(path_in(to, kConfigFile)),
          ErrorCode::invalid_argument, Field{"overwrite"}, to, ": holds a model already");
  Described described(folder);
  const Tokenizer tokenizer = read_tokenizer(folder, described.settings());
  ImportReport report;
  const Transformer model = read_model(folder, options, &report);
  model.save(to, {.beside = {{std::string(kTokenizerFile), tokenizer.bytes()}},
                  .notes = {{"imported_from", report.family}}});
  for (const Language& language : tokenizer.languages()) report.languages.push_back(language.code);
  return report;
}

}  // namespace tril::hub
