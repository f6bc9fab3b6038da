// Transformers in model folders: saved, loaded, packed.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "tril/base/error.h"
#include "tril/base/rounding.h"
#include "tril/io/folder_update.h"
#include "tril/io/json.h"
#include "tril/io/safetensors.h"
#include "tril/models/folder_files.h"
#include "tril/models/weights.h"

namespace tril {
namespace {

// For operations that need the original weights, which packed ones do not contain.
void require_weights(const std::string& folder) {
  if (file_exists(path_in(folder, kWeightsFile))) return;
  const std::vector<Compute> kinds = packed_kinds(folder);
  require(
      kinds.empty(), ErrorCode::io, folder, ": has only packed weights (", names_of(kinds),
      "), which are for inference on the CPU; for this the folder they were made from is needed, "
      "the one with ",
      kWeightsFile);
}

// Where a model is computed, and in what.
Placement placement_of(const LoadOptions& options) {
  const DType best = activation_type(options.device);
  const Placement placement{options.device, options.compute == Compute::fp32 ? DType::f32 : best};
  require(options.purpose == Purpose::inference || !options.compute ||
              *options.compute == ops::form_for(placement).compute(),
          ErrorCode::unsupported, "load: weights in ",
          word_for(options.compute.value_or(Compute::fp32)),
          " are for inference, not for study or training on ", options.device);
  return placement;
}

// The tensor of this name; raises if there is none.
Tensor find_named(std::span<const NamedTensor> sorted, const std::string& name,
                  const std::string& file) {
  const auto found =
      std::lower_bound(sorted.begin(), sorted.end(), name,
                       [](const NamedTensor& a, const std::string& b) { return a.name < b; });
  require(found != sorted.end() && found->name == name, ErrorCode::bad_format, file, ": tensor '",
          name, "' is missing");
  return found->tensor;
}

// Compares the configuration with the seal of the weights, and reports if there is none.
void check_config(const FolderSeal& seal, const std::string& folder, const ConfigFile& config,
                  const LoadOptions& options) {
  if (options.any_files || seal.check(folder, kConfigFile, config.text) || !options.notice) return;
  options.notice(
      {Field{"seal"}, concat(folder, ": not sealed, so damage to its files would go unnoticed")});
}

// The files that go with the weights of a folder, compared with their seal.
ModelFiles files_beside(const std::string& folder, const FolderSeal& seal) {
  ModelFiles files;
  for (const std::string_view name : {kConfigFile, kTokenizerFile, kGenerationFile}) {
    if (!file_exists(path_in(folder, name))) continue;
    std::string contents = read_model_file(folder, name);
    seal.check(folder, name, contents);
    files.emplace(name, std::move(contents));
  }
  return files;
}

bool holds_these(const std::string& folder, const ModelFiles& files) {
  return std::all_of(files.begin(), files.end(), [&](const auto& file) {
    return file_exists(path_in(folder, file.first)) &&
           read_model_file(folder, file.first) == file.second;
  });
}

void stage(FolderUpdate& update, const ModelFiles& files) {
  for (const auto& [name, contents] : files) update.replace(name).write(contents);
}

// The files beside new weights. Those of the same model stay, so that its weights are one file,
// replaced in one step; what only the previous model had goes, or it would be taken for this one's.
void stage_beside(FolderUpdate& update, const ModelFiles& files) {
  bool same = holds_these(update.folder(), files);
  for (const std::string_view name : {kGenerationFile, kHubFile}) {
    if (files.contains(std::string(name)) || !file_exists(path_in(update.folder(), name))) continue;
    update.remove(std::string(name));
    same = false;
  }
  if (!same) stage(update, files);
}

// Replaces a file that belongs to the folder's model whatever the other files are.
void replace_one(const std::string& folder, const ModelFiles& file) {
  if (holds_these(folder, file)) return;
  FolderUpdate update(folder, std::string(kConfigFile));
  stage(update, file);
  update.commit();
}

// NaN and infinity would be packed silently, and give nonsense translations.
void require_finite(const std::string& name, const Tensor& tensor, const std::string& file) {
  const auto all = [&](const auto* from, const auto& finite) {
    return std::all_of(from, from + tensor.size(), finite);
  };
  const bool finite =
      tensor.dtype() == DType::bf16
          ? all(tensor.data<BFloat16>(), [](BFloat16 w) { return std::isfinite(to_f32(w)); })
          : all(tensor.data(), [](float w) { return std::isfinite(w); });
  require(finite, ErrorCode::bad_format, file, ": tensor '", name,
          "' holds numbers that are not finite: a training that diverged, or damage");
}

// Sorted by name.
std::vector<NamedTensor> named(std::span<const nn::Parameter> parameters) {
  std::vector<NamedTensor> tensors;
  for (const nn::Parameter& p : parameters) tensors.push_back({p.name, p.tensor});
  std::sort(tensors.begin(), tensors.end(),
            [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
  return tensors;
}

// Whether this processor can compute with the form of weights to be loaded.
void require_supported(const LoadOptions& options) {
  const Placement placement = placement_of(options);
  const Compute compute = options.compute.value_or(ops::form_for(placement).compute());
  ops::form_for(placement, compute).check_supported();
}

// `write(file, metadata)` writes the weights.
template <class Write>
void save_folder(const std::string& folder, const TransformerConfig& config,
                 const SaveOptions& options, const Write& write) {
  ModelFiles files = options.beside;
  files.insert_or_assign(std::string(kConfigFile), to_json(config));
  SafetensorsMetadata metadata = options.notes;
  add_files(files, metadata);
  FolderUpdate update(folder, std::string(kConfigFile));
  write(update.replace(std::string(kWeightsFile)), metadata);
  stage_beside(update, files);
  update.commit();
}

}  // namespace

// The steps of loading, each a function of the folder.
struct Transformer::Loading {
  // `see` is called with every tensor as it is read.
  using See = std::function<void(const std::string& name, const Tensor& tensor)>;
  static Transformer load_weights(const std::string& folder, const ConfigFile& config,
                                  const LoadOptions& options, const See& see = {});
  static Transformer load_for_inference(const std::string& folder, const ConfigFile& config,
                                        const LoadOptions& options);
  static Transformer load_packed(const std::string& folder, const ConfigFile& config,
                                 Compute compute, const LoadOptions& options);
  static Transformer from_packed(const TransformerConfig& config, Compute compute,
                                 std::span<const NamedTensor> tensors, std::shared_ptr<Arena> arena,
                                 const std::string& file);
};

FolderSeal read_seal(const std::string& folder) {
  read_config(folder);  // first of all, whether there is a model
  require_weights(folder);
  return seal_of(read_safetensors_info(path_in(folder, kWeightsFile)));
}

void Transformer::save(const std::string& folder, const SaveOptions& options) const {
  require(!state_->parameters.only_packed(), ErrorCode::unsupported, "'", folder,
          "': a model loaded for inference cannot be saved");
  std::vector<NamedTensor> tensors;
  for (const nn::Parameter& parameter : state_->parameters.list()) {
    tensors.push_back({parameter.name, parameter.tensor});
  }
  save_folder(folder, state_->config, options,
              [&](AtomicFile& file, const SafetensorsMetadata& metadata) {
                write_safetensors(file, tensors, metadata);
              });
}

void Transformer::save_stored(const std::string& folder, const TransformerConfig& config,
                              std::span<const StoredTensor> tensors, const SaveOptions& options) {
  std::map<std::string_view, const StoredTensor*> given;
  for (const StoredTensor& tensor : tensors) given.emplace(tensor.name, &tensor);
  const std::vector<NamedShape> shapes = parameter_shapes(config);
  for (const auto& [name, shape] : shapes) {
    const auto found = given.find(name);
    require(found != given.end() && found->second->shape == shape, ErrorCode::invalid_argument, "'",
            folder, "': a parameter '", name, "' of shape ", shape, " is needed");
  }
  require(tensors.size() == shapes.size(), ErrorCode::invalid_argument, "'", folder,
          "': ", tensors.size(), " tensors for ", shapes.size(), " parameters");
  save_folder(folder, config, options, [&](AtomicFile& file, const SafetensorsMetadata& metadata) {
    write_safetensors(file, tensors, metadata);
  });
}

Transformer Transformer::load(const std::string& folder, const LoadOptions& options) {
  const StandardRounding rounding;
  const ConfigFile config = read_config(folder);
  Transformer model = options.purpose == Purpose::inference
                          ? Loading::load_for_inference(folder, config, options)
                          : Loading::load_weights(folder, config, options);
  model.state_->frozen = options.purpose != Purpose::training;
  return model;
}

// From model.safetensors. For inference, matrices are kept in the form of `compute` alone.
Transformer Transformer::Loading::load_weights(const std::string& folder, const ConfigFile& config,
                                               const LoadOptions& options, const See& see) {
  const Placement placement = placement_of(options);
  require_weights(folder);
  const std::string tensor_file = path_in(folder, kWeightsFile);
  const SafetensorsFile file(tensor_file);
  const FolderSeal seal = seal_of(file.info());
  check_config(seal, folder, config, options);
  // Names and shapes are compared before memory is allocated, so that a huge configuration beside a
  // small file is an error and not an attempt to allocate.
  std::set<std::string> wanted;
  const auto gate = [&](const std::string& name, const Shape& shape) {
    wanted.insert(name);
    const SafetensorsFile::Description* from = file.find(name);
    require(from != nullptr, ErrorCode::bad_format, tensor_file, ": tensor '", name,
            "' is missing");
    require(from->shape == shape, ErrorCode::bad_format, tensor_file, ": tensor '", name, "' is ",
            from->shape, ", the configuration asks for ", shape);
    require(from->type == DType::f32 || from->type == DType::bf16, ErrorCode::bad_format,
            tensor_file, ": tensor '", name, "' is of type ", from->type, ", expected f32 or bf16");
  };
  const bool infers = options.purpose == Purpose::inference;
  std::shared_ptr<State> state;
  if (infers) {
    const Compute compute = options.compute.value_or(ops::form_for(placement).compute());
    state = std::make_shared<State>(config.config, placement, compute, gate);
  } else {
    state = std::make_shared<State>(config.config, placement, gate);
  }
  for (const SafetensorsFile::Description& tensor : file.tensors()) {
    require(wanted.contains(tensor.name), ErrorCode::bad_format, tensor_file, ": tensor '",
            printable(tensor.name), "' is not part of the model in ", path_in(folder, kConfigFile));
  }
  // What is loaded only to infer is packed, by all threads; the rest is mostly copied.
  Context context(infers ? 0 : 1, placement);
  // One tensor at a time, and the next only when a GPU has read the one before.
  std::optional<Arena> memory;
  state->parameters.fill(context, [&](const std::string& name) {
    context.queue.wait();
    Tensor tensor = file.read(name, memory.emplace());
    if (see) see(name, tensor);
    return tensor;
  });
  state->derive(context);
  context.queue.wait();  // others read it in queues of their own
  state->seal = seal;
  return Transformer(std::move(state));
}

namespace {

// For packed weights that are written to another folder than they are made from: whether it holds
// the same model; raises if it holds something that must not be replaced.
bool same_model_at(const std::string& folder, const ModelFiles& files, const std::string& identity,
                   Overwrite overwrite) {
  constexpr auto kTaken = ErrorCode::invalid_argument;
  const bool has_weights = file_exists(path_in(folder, kWeightsFile));
  require(!has_weights || identity_of(path_in(folder, kWeightsFile)) == identity, kTaken, folder,
          ": holds the weights of another model: choose another folder");
  require((has_weights || !file_exists(path_in(folder, kTrainingFolder))) &&
              !file_exists(path_in(folder, kCheckpointFile)),
          kTaken, folder, ": holds a training: choose another folder");
  const std::vector<Compute> kinds = packed_kinds(folder);
  const bool same_weights = std::all_of(kinds.begin(), kinds.end(), [&](Compute kind) {
    const std::string file = path_in(folder, packed_file_name(kind));
    return read_safetensors_info(file).metadata[kMadeFrom] == identity;
  });
  if (same_weights && holds_these(folder, files)) return true;
  // Nothing yet, or what an interrupted packing left.
  const bool nothing_else =
      same_weights && std::all_of(files.begin(), files.end(), [&](const auto& file) {
        return !file_exists(path_in(folder, file.first)) ||
               read_model_file(folder, file.first) == file.second;
      });
  require(nothing_else || overwrite == Overwrite::yes, kTaken, Field{"overwrite"}, folder,
          ": holds another model, or an older state of this one");
  return false;
}

}  // namespace

void Transformer::save_packed(const std::string& from, const std::string& folder, Compute compute,
                              Overwrite overwrite) {
  const StandardRounding rounding;
  const ConfigFile config = read_config(from);  // first of all, whether there is a model
  require_weights(from);
  const std::string from_file = path_in(from, kWeightsFile);
  const std::string identity = identity_of(from_file);
  // What is packed is held, and one tensor of the file. It may be for another processor.
  const Transformer model = Loading::load_weights(
      from, config, {.compute = compute}, [&](const std::string& name, const Tensor& tensor) {
        require_finite(name, tensor, from_file);
      });
  require(identity == (model.seal().sealed() ? model.seal().identity : identity), ErrorCode::io,
          from_file, ": was replaced while it was read: try again");
  const std::vector<NamedTensor> tensors = named(model.state_->parameters.packed());
  const ModelFiles files = files_beside(from, model.seal());
  SafetensorsMetadata metadata = {{kPackedFormat, kPackedFormatNow},
                                  {kMadeFrom, identity},
                                  {kCompute, std::string(word_for(compute))}};
  add_files(files, metadata);

  ModelFiles shortlist;
  if (file_exists(path_in(from, kShortlistFile))) {
    shortlist.emplace(kShortlistFile, read_model_file(from, kShortlistFile));
  }
  std::error_code ignored;
  const bool in_place = std::filesystem::equivalent(from, folder, ignored);
  const bool same = in_place || same_model_at(folder, files, identity, overwrite);
  if (same) {
    // Both belong to the model that is there, so each may be replaced by itself.
    if (!in_place && !shortlist.empty()) replace_one(folder, shortlist);
    FolderUpdate update(folder, std::string(kConfigFile));
    write_safetensors(update.replace(packed_file_name(compute)), tensors, metadata);
    update.commit();
    return;
  }
  FolderUpdate update(folder, std::string(kConfigFile));
  write_safetensors(update.replace(packed_file_name(compute)), tensors, metadata);
  for (const Compute kind : packed_kinds(folder)) {
    if (kind != compute) update.remove(packed_file_name(kind));
  }
  for (const std::string_view name : {kTokenizerFile, kGenerationFile}) {
    if (!files.contains(std::string(name))) update.remove(std::string(name));
  }
  if (shortlist.empty()) update.remove(std::string(kShortlistFile));
  stage(update, files);
  stage(update, shortlist);
  update.commit();
}

Transformer Transformer::Loading::load_for_inference(const std::string& folder,
                                                     const ConfigFile& config,
                                                     const LoadOptions& options) {
  if (options.device != Device::cpu) {
    require_weights(folder);
    require_supported(options);
    return load_weights(folder, config, options);
  }
  std::optional<Compute> compute = options.compute;
  const std::string tensor_file = path_in(folder, kWeightsFile);
  const bool has_weights = file_exists(tensor_file);
  const std::vector<Compute> kinds = has_weights ? std::vector<Compute>() : packed_kinds(folder);
  if (!compute && !kinds.empty()) {
    require(kinds.size() == 1, ErrorCode::invalid_argument, Field{"compute"}, folder, ": has ",
            names_of(kinds), " and no ", kWeightsFile);
    compute = kinds[0];
  }
  const Compute form = compute.value_or(Compute::fp32);
  const std::string file = path_in(folder, packed_file_name(form));
  if (file_exists(file)) {
    std::string format = read_safetensors_info(file).metadata[kPackedFormat];
    const bool this_format = format == kPackedFormatNow;
    const bool older = format == kPackedFormatUnsealed && !has_weights;
    require(this_format || older || has_weights, ErrorCode::bad_format, Field{"packed"}, file,
            ": packed by another version of tril");
    const bool made_from_these =
        this_format && has_weights &&
        read_safetensors_info(file).metadata[kMadeFrom] == identity_of(tensor_file);
    if (older || (this_format && !has_weights) || made_from_these) {
      return load_packed(folder, config, form, options);
    }
    // If the weights were trained further since, or packed by another version, they are packed
    // again in memory.
    if (options.notice) {
      options.notice({Field{"packed"}, concat(file, ": not used, it was ",
                                              this_format ? "made from other weights"
                                                          : "packed by another version of tril")});
    }
  }
  if (!kinds.empty()) {
    fail(ErrorCode::invalid_argument, Field{"compute"}, folder, ": has only ", names_of(kinds),
         ", nothing for ", word_for(form), " (", kWeightsFile,
         " is in the folder they were made from)");
  }
  require(has_weights, ErrorCode::io, tensor_file, ": not there, and no ", file, " either");
  require_supported(options);
  return load_weights(folder, config, options);
}

Transformer Transformer::Loading::load_packed(const std::string& folder, const ConfigFile& config,
                                              Compute compute, const LoadOptions& options) {
  const std::string file = path_in(folder, packed_file_name(compute));
  auto arena = std::make_shared<Arena>();
  SafetensorsInfo info;
  const std::vector<NamedTensor> tensors =
      options.map
          ? map_safetensors(file, *arena, &info, options.trust ? MapVerify::trust : MapVerify::yes)
          : load_safetensors(file, *arena, &info);
  const FolderSeal seal = seal_of(info);
  const std::string form(word_for(compute));
  require(!seal.sealed() || info.metadata[kCompute] == form, ErrorCode::bad_format, file,
          ": holds weights packed in ", info.metadata[kCompute], ", not in ", form);
  check_config(seal, folder, config, options);
  Transformer model = from_packed(config.config, compute, tensors, std::move(arena), file);
  model.state_->seal = seal;
  return model;
}

Transformer Transformer::Loading::from_packed(const TransformerConfig& config, Compute compute,
                                              std::span<const NamedTensor> tensors,
                                              std::shared_ptr<Arena> arena,
                                              const std::string& file) {
  ops::form_for(Placement(), compute).check_supported();
  auto state = std::make_shared<State>(
      config, compute, [&](const std::string& name, const Shape& shape, DType type) {
        const Tensor found = find_named(tensors, name, file);
        require(found.shape() == shape && found.dtype() == type, ErrorCode::bad_format, file,
                ": tensor '", name, "' is ", found.dtype(), " ", found.shape(),
                ", the configuration asks for ", type, " ", shape);
        return found;
      });
  Context context(1);
  state->derive(context);
  state->packed_arena = std::move(arena);
  state->frozen = true;
  return Transformer(std::move(state));
}

Transformer Transformer::packed(Compute compute) const {
  const StandardRounding rounding;
  auto arena = std::make_shared<Arena>();
  Context context(0);
  const auto parameters = state_->parameters.packed(context, compute, *arena);
  return Loading::from_packed(config(), compute, named(parameters), arena, "this model");
}

const FolderSeal& Transformer::seal() const { return state_->seal; }

}  // namespace tril
