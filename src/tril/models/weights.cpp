#include "tril/models/weights.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "tril/base/fingerprint.h"
#include "tril/base/math.h"
#include "tril/base/rounding.h"
#include "tril/io/atomic_file.h"
#include "tril/io/json.h"
#include "tril/io/safetensors.h"
#include "tril/kernels/rotary.h"

namespace tril {
namespace {

using nn::Bias;
using nn::Init;

// The paper's section 3.5: sines in the even features, cosines in the odd ones.
Tensor sinusoidal_table(Arena& arena, int64_t positions, int64_t model) {
  const Tensor table(arena, {positions, model});
  std::vector<float> to(static_cast<size_t>(table.size()));
  for (int64_t feature = 0; feature < model; ++feature) {
    const double exponent =
        -static_cast<double>(feature - feature % 2) / static_cast<double>(model);
    const double frequency = math::pow(10000.0, exponent);
    for (int64_t position = 0; position < positions; ++position) {
      const double angle = static_cast<double>(position) * frequency;
      to[static_cast<size_t>(position * model + feature)] =
          static_cast<float>(feature % 2 == 0 ? math::sin(angle) : math::cos(angle));
    }
  }
  set_values(table, to);
  return table;
}

// Head h loses 2^(-8 (h+1) / heads) for every position of distance.
Tensor alibi_table(Arena& arena, int64_t heads, int64_t max_length) {
  const Tensor table(arena, {heads, 2 * max_length - 1});
  std::vector<float> to;
  to.reserve(static_cast<size_t>(table.size()));
  for (int64_t head = 0; head < heads; ++head) {
    const double slope =
        math::pow(2.0, -8.0 * static_cast<double>(head + 1) / static_cast<double>(heads));
    for (int64_t i = 0; i < 2 * max_length - 1; ++i) {
      const double distance = std::fabs(static_cast<double>(i - (max_length - 1)));
      to.push_back(static_cast<float>(-slope * distance));
    }
  }
  set_values(table, to);
  return table;
}

// Builds layers with the sizes of one configuration.
struct Builder {
  const TransformerConfig& c;
  nn::ParameterSet& set;

  Bias bias() const { return c.bias ? Bias::present : Bias::none; }
  nn::Norm norm(const std::string& name) const {
    return {set, name, c.norm, c.model, static_cast<float>(c.norm_epsilon)};
  }
  nn::MultiHeadAttention attention(const std::string& name) const {
    return {set, name, c.model, c.heads, c.kv_heads, c.head_dim, bias()};
  }
  nn::FeedForward feed_forward(const std::string& name) const {
    const auto form = c.gated ? nn::FeedForward::Form::gated : nn::FeedForward::Form::plain;
    return {set, name, c.model, c.feed_forward, c.activation, form, bias()};
  }
};

std::string join(const std::string& folder, std::string_view file) {
  return concat(folder, folder.ends_with('/') ? "" : "/", file);
}

void make_folder(const std::string& folder) {
  struct stat info {};
  const bool is_folder = stat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  require(is_folder || mkdir(folder.c_str(), 0777) == 0, ErrorCode::io, "'", folder,
          "': cannot make the folder: ", std::strerror(errno));
}

bool exists(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0;
}

constexpr std::string_view kTensorFile = "model.safetensors";

std::string packed_name(Compute compute) {
  return concat("packed.", word_for(compute), ".safetensors");
}

std::string packed_file(const std::string& folder, Compute compute) {
  return join(folder, packed_name(compute));
}

// What a folder has packed.
std::vector<Compute> packed_kinds(const std::string& folder) {
  std::vector<Compute> kinds;
  for (const Compute compute : {Compute::int8, Compute::bf16_dot, Compute::bf16, Compute::fp32}) {
    if (exists(packed_file(folder, compute))) kinds.push_back(compute);
  }
  return kinds;
}

// "packed.int8.safetensors and packed.bf16.safetensors".
std::string names_of(std::span<const Compute> kinds) {
  std::string names;
  for (const Compute compute : kinds) {
    names += concat(names.empty() ? "" : " and ", packed_name(compute));
  }
  return names;
}

// For what needs the weights as they were learnt: packed ones do not give them back.
void require_weights(const std::string& folder) {
  if (exists(join(folder, kTensorFile))) return;
  const std::vector<Compute> kinds = packed_kinds(folder);
  require(
      kinds.empty(), ErrorCode::io, folder, ": has only packed weights (", names_of(kinds),
      "), which infer on the CPU and nothing else (load_for_inference()): for this give the folder "
      "they were made from, the one with ",
      kTensorFile);
}

TransformerConfig read_config(const std::string& folder) {
  const std::string file = join(folder, "config.json");
  const bool missing = !exists(file) && errno == ENOENT;
  const bool in_training = missing && exists(join(folder, "training"));
  require(!missing, ErrorCode::io, file, ": there is no model in this folder",
          in_training ? " yet: its training has not come to the first evaluation" : "");
  return config_from_json(read_file(file, int64_t{1} << 20), file);
}

// The tensor of this name; raises when it is not there.
Tensor find_named(std::span<const NamedTensor> sorted, const std::string& name,
                  const std::string& file) {
  const auto found =
      std::lower_bound(sorted.begin(), sorted.end(), name,
                       [](const NamedTensor& a, const std::string& b) { return a.name < b; });
  require(found != sorted.end() && found->name == name, ErrorCode::bad_format, file, ": tensor '",
          name, "' is missing");
  return found->tensor;
}

}  // namespace

Transformer::State::State(const TransformerConfig& given, const Placement& placement,
                          nn::ParameterSet::Gate gate)
    : config(given.completed()),
      parameters(placement, std::move(gate)),
      tables_arena(placement.device) {
  check_usable(placement.device);
  build();
}

Transformer::State::State(const TransformerConfig& given, Compute compute,
                          nn::ParameterSet::Find find)
    : config(given.completed()), parameters(compute, std::move(find)) {
  build();
}

void Transformer::State::build() {
  const TransformerConfig& c = config;
  c.check();
  const Builder build{c, parameters};
  const bool with_encoder = !c.decoder_only();
  const auto table = [&](const std::string& name, int64_t vocab) -> ops::LinearWeight& {
    return parameters.add_matrix(name, vocab, c.model, Init::normal, nn::ParameterSet::Use::table);
  };
  ops::LinearWeight* tied = nullptr;
  if (c.tied) {
    tied = &table("embedding.weight", c.target_vocab);
    source_embedding = target_embedding = tied;
  } else {
    if (with_encoder) source_embedding = &table("source_embedding.weight", c.source_vocab);
    target_embedding = &table("target_embedding.weight", c.target_vocab);
  }
  if (c.position == PositionType::learned) {
    if (with_encoder) {
      source_positions =
          parameters.add("source_position.weight", {c.max_length, c.model}, Init::normal);
    }
    target_positions =
        parameters.add("target_position.weight", {c.max_length, c.model}, Init::normal);
  }
  if (c.embedding_norm) {
    if (with_encoder) source_embedding_norm = build.norm("source_embedding_norm");
    target_embedding_norm = build.norm("target_embedding_norm");
  }
  for (int64_t i = 0; i < c.encoder_layers; ++i) {
    const std::string at = concat("encoder.", i, ".");
    encoder.push_back({build.attention(at + "attention"), build.norm(at + "attention_norm"),
                       build.feed_forward(at + "feed_forward"),
                       build.norm(at + "feed_forward_norm")});
  }
  for (int64_t i = 0; i < c.decoder_layers; ++i) {
    const std::string at = concat("decoder.", i, ".");
    DecoderBlock block;
    block.attention = build.attention(at + "attention");
    block.attention_norm = build.norm(at + "attention_norm");
    if (with_encoder) {
      block.cross_attention = build.attention(at + "cross_attention");
      block.cross_attention_norm = build.norm(at + "cross_attention_norm");
    }
    block.feed_forward = build.feed_forward(at + "feed_forward");
    block.feed_forward_norm = build.norm(at + "feed_forward_norm");
    decoder.push_back(block);
  }
  if (c.norm_position == NormPosition::pre) {
    if (with_encoder) encoder_norm = build.norm("encoder.norm");
    decoder_norm = build.norm("decoder.norm");
  }
  const Tensor output_bias =
      c.output_bias ? parameters.add("output.bias", {c.target_vocab}, Init::zero) : Tensor();
  ops::LinearWeight& output_weight =
      tied != nullptr ? *tied
                      : parameters.add_matrix("output.weight", c.target_vocab, c.model,
                                              Init::xavier, nn::ParameterSet::Use::linear);
  parameters.use_as_linear(output_weight, output_bias);
  output = nn::Linear(output_weight);

  // Tables come last: by now the parameters are known to fit.
  if (c.position == PositionType::sinusoidal) {
    target_positions = sinusoidal_table(tables_arena, c.max_length, c.model);
    source_positions = target_positions;
  } else if (c.position == PositionType::rotary) {
    rotary_table = Tensor(tables_arena, {c.max_length, c.head_dim});
    std::vector<float> values(static_cast<size_t>(rotary_table.size()));
    kernels::fill_rotary_table(c.max_length, c.head_dim, 10000.0, values.data());
    set_values(rotary_table, values);
  } else if (c.position == PositionType::alibi) {
    alibi_bias = alibi_table(tables_arena, c.heads, c.max_length);
  }
}

Transformer::Transformer(const TransformerConfig& config, uint64_t seed, const Placement& placement)
    : state_() {
  const StandardRounding rounding;
  state_ = std::make_shared<State>(config, placement);
  state_->parameters.initialise(seed);
  Context context(1, placement);
  weights_changed(context);
}

Transformer Transformer::on(const Placement& placement) const {
  require(!state_->parameters.only_packed(), ErrorCode::unsupported,
          "a model loaded for inference stays on its device");
  const StandardRounding rounding;
  auto state = std::make_shared<State>(config(), placement);
  const auto& to = state->parameters.list();
  for (size_t i = 0; i < to.size(); ++i) {
    copy_into(state_->parameters.list()[i].tensor, to[i].tensor);
  }
  Transformer moved(std::move(state));
  Context context(1, placement);
  moved.weights_changed(context);
  return moved;
}

const Placement& Transformer::placement() const { return state_->parameters.placement(); }

const TransformerConfig& Transformer::config() const { return state_->config; }

std::vector<Transformer::NamedParameter> Transformer::parameters() const {
  std::vector<NamedParameter> list;
  for (const nn::Parameter& parameter : state_->parameters.list()) {
    list.push_back({parameter.name, parameter.tensor, state_->parameters.rounded(parameter)});
  }
  return list;
}

int64_t Transformer::parameter_count() const { return state_->parameters.count(); }

void Transformer::weights_changed(Context& context) {
  require(context.placement() == placement(), ErrorCode::invalid_argument, "the model is on ",
          placement().device, ", the context on ", context.device());
  state_->parameters.pack(context);
}

void Transformer::prepare_training(Context& context) {
  state_->parameters.prepare_training();
  state_->parameters.pack(context);
}

Compute Transformer::compute() const { return state_->parameters.compute(); }

void Transformer::save(const std::string& folder) const {
  require(!state_->parameters.only_packed(), ErrorCode::unsupported, "'", folder,
          "': a model loaded for inference cannot be saved");
  make_folder(folder);
  std::vector<NamedTensor> tensors;
  for (const nn::Parameter& parameter : state_->parameters.list()) {
    tensors.push_back({parameter.name, parameter.tensor});
  }
  save_safetensors(join(folder, kTensorFile), tensors);
  write_file_atomically(join(folder, "config.json"), to_json(state_->config));
}

Transformer Transformer::load(const std::string& folder, const Placement& placement) {
  const StandardRounding rounding;
  const TransformerConfig config = read_config(folder);
  require_weights(folder);
  const std::string config_file = join(folder, "config.json");
  const std::string tensor_file = join(folder, kTensorFile);
  Arena arena;
  const std::vector<NamedTensor> tensors = load_safetensors(tensor_file, arena);
  const auto find = [&](const std::string& name) { return find_named(tensors, name, tensor_file); };
  // Names and shapes are compared before memory is taken, so that a huge configuration beside a
  // small file is an error and not an attempt to allocate.
  auto state =
      std::make_shared<State>(config, placement, [&](const std::string& name, const Shape& shape) {
        const Tensor from = find(name);
        require(from.shape() == shape, ErrorCode::bad_format, tensor_file, ": tensor '", name,
                "' is ", from.shape(), ", the configuration asks for ", shape);
      });
  for (const nn::Parameter& parameter : state->parameters.list()) {
    const Tensor from = find(parameter.name);
    require(from.dtype() == DType::f32 || from.dtype() == DType::bf16, ErrorCode::bad_format,
            tensor_file, ": tensor '", parameter.name, "' is of type ", from.dtype(),
            ", expected f32 or bf16");
    copy_into(from, parameter.tensor);
  }
  if (tensors.size() != state->parameters.list().size()) {
    for (const NamedTensor& tensor : tensors) {
      const auto& list = state->parameters.list();
      require(std::any_of(list.begin(), list.end(),
                          [&](const nn::Parameter& p) { return p.name == tensor.name; }),
              ErrorCode::bad_format, tensor_file, ": tensor '", printable(tensor.name),
              "' is not part of the model in ", config_file);
    }
  }
  Transformer model(std::move(state));
  Context context(1, placement);
  model.weights_changed(context);
  return model;
}

// Packed weights: a safetensors file beside the model, in the layout of the kernels.
namespace {

constexpr const char* kMadeFrom = "made_from";  // fingerprint of the model.safetensors
constexpr const char* kPackedFormat = "tril_packed";
constexpr const char* kFormatNow = "1";

// In pieces: a mapped file would count as memory of the process that looks through it.
std::string fingerprint_of_file(const std::string& path) {
  constexpr int64_t kPiece = 1 << 20;
  static_assert(kPiece % FileFingerprint::kStep == 0);
  InputFile file(path);
  std::vector<char> piece(kPiece);
  FileFingerprint result;
  for (int64_t count = kPiece; count == kPiece;) {
    count = file.read(piece.data(), kPiece);
    result.add({piece.data(), static_cast<size_t>(count)});
  }
  return hexadecimal(result.value());
}

}  // namespace

void Transformer::save_packed(const std::string& from, const std::string& folder, Compute compute) {
  const StandardRounding rounding;
  read_config(from);  // first of all, whether there is a model
  require_weights(from);
  const std::string made_from = fingerprint_of_file(join(from, kTensorFile));
  const Transformer model = load(from);
  Arena arena;
  const std::vector<NamedTensor> tensors = model.packed_tensors(compute, arena);
  make_folder(folder);
  const std::string config_file = join(folder, "config.json");
  const bool has_config = exists(config_file);
  // Weights beside a configuration they do not belong to would be another function.
  require(!has_config || read_config(folder) == model.config(), ErrorCode::invalid_argument,
          config_file, ": the configuration of another model; give an empty folder");
  save_safetensors(packed_file(folder, compute), tensors,
                   {{kPackedFormat, kFormatNow}, {kMadeFrom, made_from}});
  if (!has_config) write_file_atomically(config_file, to_json(model.config()));
}

Transformer Transformer::load_for_inference(const std::string& folder,
                                            std::optional<Compute> wanted, const Notice& notice) {
  const StandardRounding rounding;
  const TransformerConfig config = read_config(folder);
  const std::string tensor_file = join(folder, kTensorFile);
  const bool has_weights = exists(tensor_file);
  const std::vector<Compute> kinds = has_weights ? std::vector<Compute>() : packed_kinds(folder);
  if (!wanted && !kinds.empty()) {
    require(kinds.size() == 1, ErrorCode::invalid_argument, folder, ": has ", names_of(kinds),
            " and no ", kTensorFile, ": say which to use, as in --compute ", word_for(kinds[0]));
    wanted = kinds[0];
  }
  const Compute compute = wanted.value_or(Compute::fp32);
  const std::string file = packed_file(folder, compute);
  if (exists(file)) {
    auto arena = std::make_shared<Arena>();
    SafetensorsMetadata metadata;
    const std::vector<NamedTensor> tensors = map_safetensors(file, *arena, &metadata);
    const bool this_format = metadata[kPackedFormat] == kFormatNow;
    require(this_format || has_weights, ErrorCode::bad_format, file,
            ": packed by another version of tril: `tril quantize` packs it anew");
    if (this_format && (!has_weights || metadata[kMadeFrom] == fingerprint_of_file(tensor_file))) {
      return from_packed(config, compute, tensors, std::move(arena), file);
    }
    // Weights that were trained on since, or packed by another version, are packed again, in
    // memory.
    if (notice) {
      notice(concat(file, ": not used, it was ",
                    this_format ? "made from other weights" : "packed by another version of tril",
                    ": 'tril quantize ", folder, " --to ", word_for(compute), "' packs it anew"));
    }
  }
  if (!kinds.empty()) {
    fail(ErrorCode::invalid_argument, folder, ": has only ", names_of(kinds),
         ", nothing for --compute ", word_for(compute), ": give --compute ", word_for(kinds[0]),
         ", or the folder they were made from, the one with ", kTensorFile);
  }
  require(has_weights, ErrorCode::io, tensor_file, ": not there, and no ", file, " either");
  return load(folder).packed(compute);
}

Transformer Transformer::from_packed(const TransformerConfig& config, Compute compute,
                                     std::span<const NamedTensor> tensors,
                                     std::shared_ptr<Arena> arena, const std::string& file) {
  ops::check_supported(compute);
  auto state = std::make_shared<State>(
      config, compute, [&](const std::string& name, const Shape& shape, DType type) {
        const Tensor found = find_named(tensors, name, file);
        require(found.shape() == shape && found.dtype() == type, ErrorCode::bad_format, file,
                ": tensor '", name, "' is ", found.dtype(), " ", found.shape(),
                ", the configuration asks for ", type, " ", shape);
        return found;
      });
  state->packed_arena = std::move(arena);
  return Transformer(std::move(state));
}

Transformer Transformer::packed(Compute compute) const {
  const StandardRounding rounding;
  auto arena = std::make_shared<Arena>();
  return from_packed(config(), compute, packed_tensors(compute, *arena), arena, "this model");
}

std::vector<NamedTensor> Transformer::packed_tensors(Compute compute, Arena& arena) const {
  Context context(0);
  std::vector<NamedTensor> tensors;
  for (const nn::Parameter& p : state_->parameters.packed(context, compute, arena)) {
    tensors.push_back({p.name, p.tensor});
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
  return tensors;
}

}  // namespace tril
