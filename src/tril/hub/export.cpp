#include "tril/hub/export.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "tril/base/rounding.h"
#include "tril/hub/described.h"
#include "tril/hub/generation_settings.h"
#include "tril/hub/import.h"
#include "tril/hub/kept.h"
#include "tril/hub/native_export.h"
#include "tril/hub/our_weights.h"
#include "tril/io/atomic_file.h"
#include "tril/io/folder_update.h"
#include "tril/io/json.h"
#include "tril/models/folder.h"
#include "tril/text/tokenizer.h"

namespace tril::hub {
namespace {

constexpr std::string_view kIndexFile = "model.safetensors.index.json";
constexpr std::string_view kBinIndexFile = "pytorch_model.bin.index.json";

bool is_float(StoredType type) {
  return type == StoredType::f16 || type == StoredType::bf16 || type == StoredType::f32 ||
         type == StoredType::f64;
}

// pytorch_model-00001-of-00002.bin -> model-00001-of-00002.safetensors
std::string safetensors_name(const std::string& name) {
  constexpr std::string_view kBin = ".bin", kTorch = "pytorch_";
  if (!name.ends_with(kBin)) return name;
  const std::string stem = name.substr(0, name.size() - kBin.size());
  return stem.substr(stem.starts_with(kTorch) ? kTorch.size() : 0) + ".safetensors";
}

// config.json with another type of weights: transformers loads them in the type it names.
std::string with_type(std::string text, StoredType type) {
  const std::string name = type == StoredType::f16    ? "float16"
                           : type == StoredType::bf16 ? "bfloat16"
                                                      : "float32";
  for (const std::string_view field : {"\"torch_dtype\"", "\"dtype\""}) {
    const size_t at = text.find(field);
    if (at == text.npos) continue;
    const size_t begin = text.find_first_not_of(" \t\r\n:", at + field.size());
    if (begin == text.npos || text[begin] != '"') continue;
    const size_t end = text.find('"', begin + 1);
    if (end != text.npos) text.replace(begin + 1, end - begin - 1, name);
  }
  return text;
}

// The names of weights, shards and indexes in a folder that an export may replace.
std::vector<std::string> weights_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    const bool begins = name.starts_with("model.safetensors") || name.starts_with("model-") ||
                        name.starts_with("pytorch_model.") || name.starts_with("pytorch_model-");
    const bool ends =
        name.ends_with(".safetensors") || name.ends_with(".bin") || name.ends_with(".index.json");
    if (begins && ends) names.push_back(name);
  }
  return names;
}

// What is written, before the weights are read.
struct Plan {
  Kept kept;
  const Family* family = nullptr;
  std::vector<TensorMap> maps{};
  TokenizerFiles tokenizer{};
  std::vector<int64_t> features{};
};

class FolderWriter {
 public:
  FolderWriter(const std::string& model, Plan plan, const ExportOptions& options)
      : model_(model), plan_(std::move(plan)), options_(options), weights_(model, plan_.features) {
    for (const TensorMap& map : plan_.maps) {
      for (const std::string& name : map.theirs) by_name_[name].push_back(&map);
    }
    add_tensors();
    add_absent();
  }

  ExportReport write(const std::string& to) {
    FolderUpdate update(to, std::string(kConfigFile));
    ExportReport report{.family = std::string(plan_.family->name())};
    for (const std::string& name : weights_in(to)) {
      if (!is_written(name)) update.remove(name);
    }
    for (size_t file = 0; file < plan_.kept.weight_files.size(); ++file) {
      std::vector<StoredTensor> tensors;
      for (const TheirTensor& tensor : tensors_[file]) {
        tensors.push_back(weights_.stored(tensor));
        report.bytes += tensor.shape.size() * size_of(tensor.type);
      }
      report.tensors += std::ssize(tensors);
      write_safetensors(update.replace(safetensors_name(plan_.kept.weight_files[file])), tensors,
                        metadata());
    }
    report.rounded = weights_.rounded();
    for (const auto& [name, contents] : files(report.bytes)) update.replace(name).write(contents);
    update.commit();
    return report;
  }

 private:
  bool from_bin() const { return plan_.kept.weight_files.front().ends_with(".bin"); }

  bool is_written(std::string_view name) const {
    const auto& weights = plan_.kept.weight_files;
    return std::any_of(weights.begin(), weights.end(),
                       [&](const std::string& w) { return safetensors_name(w) == name; }) ||
           (name == kIndexFile && is_sharded());
  }
  bool is_sharded() const {
    return plan_.kept.weight_files.size() > 1 ||
           plan_.kept.files.contains(std::string(from_bin() ? kBinIndexFile : kIndexFile));
  }

  StoredType type_of(StoredType before) const {
    return options_.type && is_float(before) ? *options_.type : before;
  }

  void add_tensors() {
    const Kept& kept = plan_.kept;
    tensors_.resize(kept.weight_files.size());
    for (const KeptTensor& tensor : kept.tensors) {
      TheirTensor one{tensor.name, tensor.type, tensor.shape};
      if (tensor.data) one.data = kept.data[*tensor.data];
      const auto maps = by_name_.find(tensor.name);
      if (maps != by_name_.end()) {
        one.maps = maps->second;
        one.type = type_of(tensor.type);
      }
      check_data(one, tensor.type);
      tensors_[tensor.file].push_back(std::move(one));
      written_.insert(tensor.name);
    }
  }

  // Rows that were kept are in the type of before.
  void check_data(TheirTensor& tensor, StoredType before) {
    const int64_t all = tensor.shape.size() * size_of(before);
    const bool fits =
        tensor.maps.empty() ? std::ssize(tensor.data) == all : std::ssize(tensor.data) <= all;
    require(fits && (!tensor.maps.empty() || tensor.type == before) &&
                std::ssize(tensor.data) % size_of(before) == 0,
            ErrorCode::bad_format, path_in(model_, kHubFile), ": damaged: the elements of '",
            printable(tensor.name), "'");
    if (tensor.data.empty() || tensor.type == before) return;
    std::vector<float> values(tensor.data.size() / static_cast<size_t>(size_of(before)));
    read_elements(before, tensor.data.data(), values);
    std::string& bytes =
        converted_.emplace_back(values.size() * static_cast<size_t>(size_of(tensor.type)), '\0');
    write_elements(tensor.type, values, bytes.data());
    tensor.data = bytes;
  }

  // Parameters that the folder had no tensor for, and that were zero: after a training they are
  // not.
  void add_absent() {
    for (const TensorMap& map : plan_.maps) {
      const bool there = std::any_of(map.theirs.begin(), map.theirs.end(),
                                     [&](const auto& name) { return written_.contains(name); });
      if (there) continue;
      const Shape* shape = weights_.shape_of(map.ours);
      if (shape == nullptr || (map.optional && weights_.is_zero(map.ours))) continue;
      require(map.optional, ErrorCode::bad_format, path_in(model_, kHubFile),
              ": has no tensor for the parameter '", map.ours, "'");
      const StoredType type =
          plan_.kept.tensors.empty() ? StoredType::f32 : plan_.kept.tensors.front().type;
      tensors_.front().push_back(
          {map.theirs.front(), type_of(type), shape_there(map, *shape), {&map}});
      added_ = true;
    }
  }

  SafetensorsMetadata metadata() const {
    SafetensorsMetadata metadata = plan_.kept.metadata;
    metadata.emplace("format", "pt");  // without which transformers refuses a file
    return metadata;
  }

  std::string index(int64_t bytes) const {
    std::string map;
    for (size_t file = 0; file < tensors_.size(); ++file) {
      const std::string name = json_quoted(safetensors_name(plan_.kept.weight_files[file]));
      for (const TheirTensor& tensor : tensors_[file]) {
        map += concat(map.empty() ? "" : ",", "\n    ", json_quoted(tensor.name), ": ", name);
      }
    }
    return concat("{\n  \"metadata\": {\n    \"total_size\": ", bytes,
                  "\n  },\n  \"weight_map\": {", map, "\n  }\n}\n");
  }

  // All other files of the folder.
  std::map<std::string, std::string> files(int64_t bytes) const {
    std::map<std::string, std::string> files = plan_.kept.files;
    for (const auto& [name, contents] : plan_.tokenizer) files.emplace(name, contents);
    files.erase(std::string(kBinIndexFile));  // of files that are not written
    if (is_sharded() && (from_bin() || options_.type || added_)) {
      files.insert_or_assign(std::string(kIndexFile), index(bytes));
    }
    if (options_.type) {
      std::string& config = files.at(std::string(kConfigFile));
      config = with_type(std::move(config), *options_.type);
    }
    return files;
  }

  const std::string& model_;
  Plan plan_;
  const ExportOptions& options_;
  OurWeights weights_;
  std::map<std::string, std::vector<const TensorMap*>, std::less<>> by_name_;
  std::vector<std::vector<TheirTensor>> tensors_;  // by file
  std::set<std::string, std::less<>> written_;
  std::deque<std::string> converted_;
  bool added_ = false;
};

// A file of the model folder, compared with the seal of the weights.
std::string sealed_file(const std::string& folder, std::string_view name, const FolderSeal& seal) {
  std::string contents = read_model_file(folder, name);
  seal.check(folder, name, contents);
  return contents;
}

Plan plan_of_imported(const std::string& model, const TransformerConfig& config,
                      const FolderSeal& seal) {
  const std::string file = path_in(model, kHubFile);
  Plan plan{.kept = read_kept(sealed_file(model, kHubFile, seal), file)};
  const auto text = plan.kept.files.find(std::string(kConfigFile));
  require(text != plan.kept.files.end() && !plan.kept.weight_files.empty(), ErrorCode::bad_format,
          file, ": damaged: it has no ", kConfigFile);
  const Described described(text->second, concat(file, ": ", kConfigFile));
  plan.family = &described.family();
  TransformerConfig before = described.ours();
  before.dropout = config.dropout;  // which a training may choose
  plan.family->copy_settled(config, before);
  require(before == config, ErrorCode::bad_format, file,
          ": describes another model than config.json beside it");
  plan.maps = plan.family->tensors(config);
  plan.tokenizer = Tokenizer::from_bytes(sealed_file(model, kTokenizerFile, seal),
                                         path_in(model, kTokenizerFile))
                       .files();
  return plan;
}

// An import is given back with the settings of generate() that it came with. What the model's own
// were changed to since then would be lost without a word.
void tell_other_settings(const std::string& model, const std::string& to,
                         const TransformerConfig& config, const FolderSeal& seal,
                         const ExportOptions& options) {
  if (!options.notice || !file_exists(path_in(model, kGenerationFile))) return;
  const std::string file = path_in(model, kGenerationFile);
  const GenerationSettings now =
      generation_from_json(sealed_file(model, kGenerationFile, seal), file);
  const Tokenizer tokenizer = Tokenizer::from_bytes(sealed_file(model, kTokenizerFile, seal),
                                                    path_in(model, kTokenizerFile));
  if (now == read_generation_settings(to, tokenizer, config).settings) return;
  std::string language;
  for (const Language& each : tokenizer.languages()) {
    if (each.code != now.to_language) continue;
    language = concat(" (it writes ", each.code, " by default: forced_bos_token_id=", each.token,
                      " in generate())");
  }
  options.notice(concat(
      to, ": the settings of generate() are those of the imported folder, not the model's own",
      language));
}

Plan plan_of_ours(const std::string& model, const TransformerConfig& config,
                  const FolderSeal& seal) {
  const std::string file = path_in(model, kTokenizerFile);
  require(file_exists(file), ErrorCode::unsupported, model,
          ": has no tokenizer, without which nobody could use the export");
  const Tokenizer tokenizer = Tokenizer::from_bytes(sealed_file(model, kTokenizerFile, seal), file);
  require(tokenizer.files().empty(), ErrorCode::unsupported, file,
          ": comes from another model, which this one was not imported from");
  GenerationSettings settings;
  const std::string generation_file = path_in(model, kGenerationFile);
  if (file_exists(generation_file)) {
    settings = generation_from_json(sealed_file(model, kGenerationFile, seal), generation_file);
  }
  NativeExport made = native_export(config, settings, tokenizer, model);
  return {.kept = std::move(made.kept),
          .family = made.family,
          .maps = std::move(made.maps),
          .features = std::move(made.features)};
}

void check_target(const std::string& to, const ExportOptions& options) {
  if (!file_exists(path_in(to, kConfigFile))) return;
  require(is_foreign_folder(to), ErrorCode::invalid_argument, to,
          ": holds a model of tril: choose another folder");
  require(options.overwrite == Overwrite::yes, ErrorCode::invalid_argument, Field{"overwrite"}, to,
          ": holds a model already");
}

}  // namespace

ExportReport export_model(const std::string& model, const std::string& to,
                          const ExportOptions& options) {
  const StandardRounding rounding;
  require(!options.type || *options.type == StoredType::f32 || *options.type == StoredType::f16 ||
              *options.type == StoredType::bf16,
          ErrorCode::invalid_argument, "export: weights are written in F32, F16 or BF16");
  const FolderSeal seal = read_seal(model);
  check_target(to, options);
  const std::string config_file = path_in(model, kConfigFile);
  const TransformerConfig config =
      config_from_json(sealed_file(model, kConfigFile, seal), config_file).completed();
  const bool imported = file_exists(path_in(model, kHubFile));
  FolderWriter writer(
      model, imported ? plan_of_imported(model, config, seal) : plan_of_ours(model, config, seal),
      options);
  ExportReport report = writer.write(to);
  report.decoder_only = config.decoder_only();
  if (imported) tell_other_settings(model, to, config, seal, options);
  if (report.rounded > 0 && options.notice) {
    options.notice({Field{"type"}, concat(to, ": ", report.rounded, " of ", report.tensors,
                                          " tensors were rounded to the type they are stored in")});
  }
  return report;
}

}  // namespace tril::hub
