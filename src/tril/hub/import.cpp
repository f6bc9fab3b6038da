#include "tril/hub/import.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "tril/base/rounding.h"
#include "tril/hub/described.h"
#include "tril/hub/generation_settings.h"
#include "tril/hub/kept.h"
#include "tril/hub/their_weights.h"
#include "tril/io/atomic_file.h"
#include "tril/models/folder.h"
#include "tril/tensor/context.h"
#include "tril/text/tokenizer.h"

namespace tril::hub {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxFile = 64 << 20;

TokenizerFiles tokenizer_files(const std::string& folder) {
  TokenizerFiles files;
  for (const std::string_view name : Tokenizer::file_names()) {
    const std::string file = path_in(folder, name);
    if (!file_exists(file)) continue;
    require_regular(file);
    files.emplace(name, read_file(file, kMaxFile));
  }
  return files;
}

std::string joined(std::span<const std::string> names) {
  std::string list;
  for (const std::string& name : names) list += concat(list.empty() ? "" : ", ", printable(name));
  return list;
}

// The names in a folder, sorted.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  require(!error, ErrorCode::io, folder, ": ", error.message());
  std::sort(names.begin(), names.end());
  return names;
}

// Without git-lfs, git leaves small texts in the place of large files.
bool is_pointer(const std::string& path) {
  constexpr std::string_view kBegin = "version https://git-lfs.github.com/";
  constexpr int64_t kPointerBytes = 1024;
  std::error_code none;
  return fs::is_regular_file(path, none) && file_bytes(path) <= kPointerBytes &&
         read_file(path, kPointerBytes).starts_with(kBegin);
}

// Whether an import reads a file of this name, among those that are in the folder.
bool is_needed(const std::string& name, std::span<const std::string> names) {
  const auto holds = [&](std::string_view wanted) {
    return std::find(names.begin(), names.end(), wanted) != names.end();
  };
  if (name.ends_with(".safetensors")) {
    return name == "model.safetensors" ||
           (name.starts_with("model-") && !holds("model.safetensors"));
  }
  if (name.ends_with(".bin")) {
    return name.starts_with("pytorch_model") && !holds("model.safetensors") &&
           !holds("model.safetensors.index.json");
  }
  const auto tokenizer = Tokenizer::file_names();
  return name.ends_with(".json") ||
         std::find(tokenizer.begin(), tokenizer.end(), name) != tokenizer.end();
}

void refuse_pointers(const std::string& folder) {
  const std::vector<std::string> names = names_in(folder);
  std::vector<std::string> pointers;
  for (const std::string& name : names) {
    if (is_needed(name, names) && is_pointer(path_in(folder, name))) pointers.push_back(name);
  }
  require(pointers.empty(), ErrorCode::bad_format, folder, ": ", joined(pointers),
          ": pointers of Git LFS, not the files: run 'git lfs pull' there, or download them again");
}

// Names all that is missing at once.
void require_files(const std::string& folder, const Described& described,
                   const TokenizerFiles& files) {
  std::vector<std::string> missing;
  if (!ForeignTensors::are_in(folder)) {
    missing.emplace_back("weights (model.safetensors or pytorch_model.bin)");
  }
  if (described.family().name() == "marian") {
    std::vector<std::string> names = {"source.spm", "target.spm", "vocab.json"};
    if (!described.ours().tied) names.emplace_back("target_vocab.json");
    for (const std::string& name : names) {
      if (!files.contains(name)) missing.push_back(name);
    }
  } else if (files.empty()) {
    missing.emplace_back("files of the tokenizer (tokenizer.json)");
  }
  require(missing.empty(), ErrorCode::bad_format, folder, ": missing: ", joined(missing),
          ": download ", missing.size() > 1 ? "them" : "it", " from where the model is from");
}

// Weights in forms that are not read, which transformers' folders may have besides.
bool is_other_weights(std::string_view name) {
  static constexpr std::string_view kEndings[] = {".bin", ".safetensors", ".h5",   ".msgpack",
                                                  ".ot",  ".onnx",        ".gguf", ".pt"};
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

// Keeps the files that are neither weights nor the tokenizer's. Returns the names of those that
// are not kept.
std::vector<std::string> keep_files(const std::string& folder, const TheirWeights& weights,
                                    const TokenizerFiles& tokenizer, Kept& kept) {
  constexpr int64_t kKeptBytes = 64 << 20;
  std::vector<std::string> left_out;
  const auto& read = weights.tensors().files();
  int64_t total = 0;
  std::vector<std::string> names = names_in(folder);
  // What an export cannot do without comes first.
  std::stable_partition(names.begin(), names.end(), [](const std::string& name) {
    return name == kConfigFile || name == kGenerationConfigFile || name.ends_with(".index.json");
  });
  for (const std::string& name : names) {
    const std::string path = path_in(folder, name);
    if (tokenizer.contains(name)) continue;
    if (std::find(read.begin(), read.end(), name) != read.end() && !name.ends_with(".json")) {
      continue;
    }
    std::error_code none;
    const bool regular = fs::is_regular_file(path, none);
    if (!regular && name.starts_with('.')) continue;  // .git, .cache
    const int64_t bytes = regular ? file_bytes(path) : 0;
    if (!regular || !is_file_name(name) || is_other_weights(name) || is_pointer(path) ||
        total + bytes > kKeptBytes) {
      left_out.push_back(name);
      continue;
    }
    kept.files.emplace(name, read_file(path, kKeptBytes));
    total += bytes;
  }
  return left_out;
}

void tell_left_out(const std::string& folder, std::span<const std::string> names,
                   const ImportOptions& options) {
  if (names.empty() || !options.notice) return;
  options.notice(concat(folder, ": not kept, so that an export will not have it: ", joined(names)));
}

int64_t count_of(std::span<const StoredTensor> parameters) {
  int64_t count = 0;
  for (const StoredTensor& parameter : parameters) count += parameter.shape.size();
  return count;
}

ImportReport report_of(const Described& described, const TheirWeights& weights,
                       std::span<const StoredTensor> parameters) {
  return {.family = std::string(described.family().name()),
          .config = weights.config(),
          .parameters = count_of(parameters),
          .unknown_fields = described.unknown_fields()};
}

// Languages to try a model with: from English where it has that, and only the second where the
// first need not be named.
LanguagePair example_of(const Tokenizer& tokenizer) {
  const std::vector<Language>& all = tokenizer.languages();
  const auto english = std::find_if(all.begin(), all.end(), [](const Language& language) {
    return language.code.starts_with("en");
  });
  const std::string from = english == all.end() ? all.front().code : english->code;
  const auto other = std::find_if(all.begin(), all.end(),
                                  [&](const Language& language) { return language.code != from; });
  const std::string to = other == all.end() ? from : other->code;
  try {
    (void)tokenizer.encode_source("", {.to = to});
    return {.to = to};
  } catch (const Error&) {
    return {.from = from, .to = to};
  }
}

}  // namespace

bool is_foreign_folder(const std::string& folder) {
  const std::string file = path_in(folder, kConfigFile);
  if (!file_exists(file)) return false;
  const JsonValue config = parse_json(read_file(file, kMaxConfigBytes), file, kForeignJson);
  return config.kind == JsonValue::Kind::object && config.find("model_type") != nullptr;
}

Transformer read_model(const std::string& folder, const ImportOptions& options,
                       ImportReport* report) {
  const StandardRounding rounding;
  const Described described(folder);
  described.tell(options.notice);
  const TheirWeights weights(folder, described.family(), described.ours());
  const std::vector<StoredTensor> parameters = weights.parameters();
  Transformer model(weights.config(), 0);
  const std::vector<Transformer::NamedParameter> writable = model.writable_parameters();
  for (const Transformer::NamedParameter& to : writable) {
    const auto from =
        std::find_if(parameters.begin(), parameters.end(),
                     [&](const StoredTensor& parameter) { return parameter.name == to.name; });
    std::vector<float> values(static_cast<size_t>(to.tensor.size()));
    from->read(0, {reinterpret_cast<char*>(values.data()), values.size() * sizeof(float)});
    set_values(to.tensor, values);
  }
  Context context(1, model.placement());
  model.weights_changed(context);
  context.queue.wait();  // sessions read the weights in queues of their own
  if (report != nullptr) *report = report_of(described, weights, parameters);
  return model;
}

ImportReport import(const std::string& folder, const std::string& to,
                    const ImportOptions& options) {
  const StandardRounding rounding;
  require(!is_foreign_folder(to), ErrorCode::invalid_argument, to,
          ": holds a model of Hugging Face's transformers: choose another folder");
  require(options.overwrite == Overwrite::yes || !file_exists(path_in(to, kConfigFile)),
          ErrorCode::invalid_argument, Field{"overwrite"}, to, ": holds a model already");
  Described described(folder);
  refuse_pointers(folder);
  const TokenizerFiles files = tokenizer_files(folder);
  require_files(folder, described, files);
  const Tokenizer tokenizer = Tokenizer::from_files(files, described.settings(), folder);
  const ImportedGeneration generation =
      read_generation_settings(folder, tokenizer, described.ours());
  described.tell(options.notice);
  for (const std::string& line : generation.notices) {
    if (options.notice) options.notice(line);
  }
  const SearchSettings& search = generation.settings.search;
  if (options.notice && search.renormalize.value_or(false) && search.beam.value_or(1) > 1) {
    options.notice(
        "renormalize_logits: with a beam the CPU chooses the tokens, also for a model on a GPU, "
        "which is slower there");
  }
  const TheirWeights weights(folder, described.family(), described.ours());
  Kept kept{.family = std::string(described.family().name())};
  std::vector<std::string> left_out = weights.keep(kept);
  for (std::string& name : keep_files(folder, weights, files, kept)) {
    left_out.push_back(std::move(name));
  }
  tell_left_out(folder, left_out, options);
  const std::vector<StoredTensor> parameters = weights.parameters();
  Transformer::save_stored(to, weights.config(), parameters,
                           {.beside = {{std::string(kTokenizerFile), tokenizer.bytes()},
                                       {std::string(kGenerationFile), to_json(generation.settings)},
                                       {std::string(kHubFile), to_bytes(kept)}},
                            .notes = {{"imported_from", kept.family}}});
  ImportReport report = report_of(described, weights, parameters);
  for (const Language& language : tokenizer.languages()) report.languages.push_back(language.code);
  if (!report.languages.empty()) report.example = example_of(tokenizer);
  return report;
}

}  // namespace tril::hub
