#include "tril/train/checkpoint.h"

#include <algorithm>
#include <charconv>

#include "tril/io/atomic_file.h"
#include "tril/io/json.h"
#include "tril/io/safetensors.h"

namespace tril {
namespace {

constexpr int64_t kFormat = 1;
constexpr int64_t kMaxCount = int64_t{1} << 53;
// Tensors of bytes: the tokenizer, and files by their names.
constexpr const char* kTokenizer = "tokenizer";
constexpr const char* kFile = "file.";

// Numbers separated by blanks, in order.
std::string to_text(const std::vector<StreamPlace::Waiting>& waiting) {
  std::string text;
  for (const auto& [epoch, pair] : waiting) text += concat(epoch, " ", pair, " ");
  return text;
}

std::vector<StreamPlace::Waiting> waiting_from(const std::string& text, const std::string& file) {
  std::vector<int64_t> numbers;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    int64_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    require(error == std::errc() && next != end && *next == ' ', ErrorCode::bad_format, file,
            ": waiting: expected numbers, got ", printable(text));
    numbers.push_back(number);
    at = next + 1;
  }
  require(numbers.size() % 2 == 0, ErrorCode::bad_format, file, ": waiting: an odd count");
  std::vector<StreamPlace::Waiting> result;
  for (size_t i = 0; i < numbers.size(); i += 2) result.push_back({numbers[i], numbers[i + 1]});
  return result;
}

// All 64 bits, which a JSON number cannot hold.
uint64_t number_from(JsonReader& json, std::string_view field, const std::string& file) {
  const std::string text = json.get_string(field);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  require(error == std::errc() && end == text.data() + text.size(), ErrorCode::bad_format, file,
          ": ", field, ": expected a number, got ", printable(text));
  return number;
}

std::string to_json(const TrainState& state) {
  JsonWriter json;
  json.set("format", kFormat);
  json.set("update", state.update);
  json.set("optimizer_steps", state.optimizer_steps);
  json.set("epoch", state.place.epoch);
  json.set("next", state.place.next);
  json.set("waiting", to_text(state.place.waiting));
  json.set("target_tokens", state.target_tokens);
  json.set("seconds", state.seconds);
  json.set("bad_updates", state.bad_updates);
  json.set("last_loss", state.last_loss);
  json.set("loss_sum", state.loss_sum);
  json.set("loss_tokens", state.loss_tokens);
  json.set("last_evaluation", state.last_evaluation);
  json.set("evaluated", state.evaluated);
  json.set("best", state.best);
  json.set("best_update", state.best_update);
  json.set("worse", state.worse);
  json.set("finished", state.finished);
  json.set("options", std::string_view(state.options));
  json.set("corpus", std::string_view(concat(state.corpus)));
  json.set("valid", std::string_view(concat(state.valid)));
  json.set("tokenizer", std::string_view(concat(state.tokenizer)));
  if (!state.base.empty()) {
    json.set("base", std::string_view(state.base));
    json.set("config", std::string_view(state.config));
  }
  return json.to_string();
}

TrainState state_from(const SafetensorsMetadata& metadata, const std::string& file) {
  const auto found = metadata.find("state");
  require(found != metadata.end(), ErrorCode::bad_format, file,
          ": not a checkpoint: no state in its metadata");
  JsonReader json(found->second, file);
  json.get_int("format", kFormat, kFormat);
  TrainState state;
  constexpr double kLargest = 1e300;
  state.update = json.get_int("update", 0, kMaxCount);
  state.optimizer_steps = json.get_int("optimizer_steps", 0, state.update);
  state.place.epoch = json.get_int("epoch", 0, kMaxCount);
  state.place.next = json.get_int("next", 0, kMaxCount);
  state.place.waiting = waiting_from(json.get_string("waiting"), file);
  state.target_tokens = json.get_int("target_tokens", 0, kMaxCount);
  state.seconds = json.get_double("seconds", 0.0, kLargest);
  state.bad_updates = json.get_int("bad_updates", 0, state.update);
  state.last_loss = json.get_double("last_loss", -kLargest, kLargest);
  state.loss_sum = json.get_double("loss_sum", -kLargest, kLargest);
  state.loss_tokens = json.get_int("loss_tokens", 0, kMaxCount);
  state.last_evaluation = json.get_int("last_evaluation", json.has("base") ? -1 : 0, state.update);
  state.evaluated = json.get_bool("evaluated");
  state.best = json.get_double("best", -kLargest, kLargest);
  state.best_update = json.get_int("best_update", 0, state.update);
  state.worse = json.get_int("worse", 0, kMaxCount);
  state.finished = json.get_bool("finished");
  state.options = json.get_string("options");
  state.corpus = number_from(json, "corpus", file);
  state.valid = number_from(json, "valid", file);
  state.tokenizer = number_from(json, "tokenizer", file);
  if (json.has("base")) {
    state.base = json.get_string("base");
    state.config = json.get_string("config");
    require(!state.base.empty() && !state.config.empty(), ErrorCode::bad_format, file,
            ": base, config: expected texts that are not empty");
  }
  json.finish();
  return state;
}

std::string name_of_weight(const std::string& parameter) { return "weight." + parameter; }

std::string name_of_file(const std::string& file) {
  return file == kTokenizerFile ? kTokenizer : kFile + file;
}
// The file of a tensor; empty for a tensor of another kind.
std::string file_of(const NamedTensor& tensor) {
  if (tensor.tensor.dtype() != DType::i8) return {};
  if (tensor.name == kTokenizer) return std::string(kTokenizerFile);
  if (!tensor.name.starts_with(kFile)) return {};
  std::string name = tensor.name.substr(std::string_view(kFile).size());
  return may_go_beside(name) ? name : "";
}

Tensor as_tensor(const std::string& bytes, Arena& arena) {
  const Tensor tensor(arena, {std::ssize(bytes)}, DType::i8);
  std::copy(bytes.begin(), bytes.end(), static_cast<char*>(tensor.raw()));
  return tensor;
}

}  // namespace

bool may_go_beside(std::string_view name) {
  return !name.empty() && name.find('/') == name.npos && !name.starts_with('.') &&
         !name.ends_with(".safetensors") && name != kConfigFile && name != kTrainingFolder &&
         name != kLastFolder;
}

void save_checkpoint(const std::string& path, const TrainState& state, const ModelFiles& files,
                     const Transformer& model, const AdamWOptimizer& optimizer,
                     const WeightAverage& average) {
  std::vector<NamedConstTensor> tensors;
  for (const auto& [name, tensor] : model.parameters()) {
    tensors.push_back({name_of_weight(name), tensor});
  }
  for (const auto& part : {optimizer.moments(), average.tensors()}) {
    for (const auto& [name, tensor] : part) tensors.push_back({name, tensor});
  }
  Arena arena;
  for (const auto& [name, contents] : files) {
    tensors.push_back({name_of_file(name), as_tensor(contents, arena)});
  }
  AtomicFile file(path, Links::replace);
  write_safetensors(file, tensors, {{"state", to_json(state)}});
  file.commit();
}

TrainState load_state(const std::string& path) {
  return state_from(read_safetensors_info(path).metadata, path);
}

ModelFiles load_files(const std::string& path) {
  // Mapped, because only few tensors are needed. Nothing is believed yet: the state holds a hash of
  // the tokenizer, and load_checkpoint() verifies the whole file before a model is written.
  Arena arena;
  ModelFiles files;
  for (const NamedTensor& one : map_safetensors(path, arena, nullptr, MapVerify::trust)) {
    const std::string name = file_of(one);
    const auto size = static_cast<size_t>(one.tensor.size());
    if (name.empty() || size == 0) continue;
    files.emplace(name, std::string(static_cast<const char*>(one.tensor.raw()), size));
  }
  return files;
}

void load_checkpoint(const std::string& path, const TrainState& state, Transformer& model,
                     AdamWOptimizer& optimizer, WeightAverage& average, Context& context) {
  Arena arena;
  const std::vector<NamedTensor> tensors = load_safetensors(path, arena);
  for (const auto& parameter : model.writable_parameters()) {
    copy_named(tensors, {name_of_weight(parameter.name), parameter.tensor}, path);
  }
  model.weights_changed(context);
  optimizer.restore(state.optimizer_steps, tensors, path);
  average.restore(tensors, path);
}

}  // namespace tril
