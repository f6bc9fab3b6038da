#include "hub/hub_support.h"

#include <fstream>
#include <iterator>
#include <utility>

#include "tril/hub/import.h"
#include "tril/models/session.h"
#include "tril/models/session_state.h"

namespace tril::testing {

namespace fs = std::filesystem;

const std::vector<HubModel>& hub_models() {
  static const std::vector<HubModel> models = {
      {"bart", ""},
      {"bart_long", "bart"},
      {"gpt2", "gpt2_files"},
      {"llama", "llama"},
      {"llama_tied", "llama3"},
      {"m2m_100", "nllb"},
      {"marian", "marian"},
      {"marian_separate", "marian_separate"},
      {"mbart", "mbart25"},
      {"mistral", "llama"},
      {"pegasus", "marian"},
      {"t5", "t5"},
      {"t5_v1_1", "t5"},
      {"mt5", "t5"},
  };
  return models;
}

fs::path hub_folder(const std::string& name) { return fs::path(TRIL_HUB_FOLDER) / name; }

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

Expected::Expected(const std::string& name) {
  // Weights are looked for under this name.
  fs::copy_file(hub_folder(name) / "expected.safetensors",
                fs::path(folder_.path()) / "model.safetensors");
  tensors_.emplace(folder_.path());
  const auto numbers = [&](const std::string& of) {
    const ForeignTensor& tensor = tensors_->get(of);
    std::vector<float> values(static_cast<size_t>(tensor.size()));
    tensor.read(values);
    return values;
  };
  for (const char* what : {"source", "target", "greedy", "beam"}) {
    const std::vector<float> all = numbers(what);
    auto next = all.begin();
    for (const float length : numbers(std::string(what) + ".lengths")) {
      const auto end = next + static_cast<int64_t>(length);
      Tokens tokens;
      for (; next != end; ++next) tokens.push_back(static_cast<int32_t>(*next));
      lists_[what].push_back(std::move(tokens));
    }
  }
}

std::vector<double> Expected::doubles(const std::string& name) const {
  const ForeignTensor* tensor = tensors_->find(name);
  if (tensor == nullptr) return {};
  std::vector<double> values(static_cast<size_t>(tensor->size()));
  tensor->read_bytes({reinterpret_cast<char*>(values.data()), values.size() * sizeof(double)});
  return values;
}

Tokens long_tokens(int64_t vocab) {
  Tokens tokens;
  for (int64_t i = 0; i < kHubLong; ++i) {
    tokens.push_back(static_cast<int32_t>((7 * i + 3) % (vocab - 8) + 4));
  }
  return tokens;
}

std::vector<float> logits_of(const Transformer& model, const Tokens& source, const Tokens& target) {
  Session session(model, 1);
  Rows rows;
  Memory memory;
  if (!model.config().decoder_only()) {
    rows.add_sequence(source, {.slot = 0});
    memory = model.encode(rows, session);
    session.reset();
    rows.clear();
  }
  rows.add_sequence(target, {.slot = session->cache.open(), .segment = 0});
  const Tensor logits = model.logits(model.forward(rows, memory, session), session);
  return {logits.data(), logits.data() + logits.size()};
}

double distance(const std::vector<float>& ours, const std::vector<double>& right) {
  double squares = 0.0, error = 0.0;
  const size_t skipped = ours.size() - right.size();
  for (size_t i = 0; i < right.size(); ++i) {
    const double difference = static_cast<double>(ours[skipped + i]) - right[i];
    squares += right[i] * right[i];
    error += difference * difference;
  }
  return error / squares;
}

Tokens searched(const Transformer& model, const SearchRequest& request,
                const SearchOptions& options) {
  Session session(model, 1);
  Tokens tokens;
  bool given = false;
  search(
      model, options, options.beam,
      [&]() -> std::optional<SearchRequest> {
        if (std::exchange(given, true)) return std::nullopt;
        return request;
      },
      [&](SearchResult&& result) {
        tokens = result.hypotheses.front().tokens;
        return true;
      },
      session);
  tokens.erase(tokens.begin(), tokens.begin() + std::ssize(request.prefix));
  return tokens;
}

TheirFolder::TheirFolder(const HubModel& model) {
  fs::copy(hub_folder(model.name), path(), fs::copy_options::recursive);
  fs::remove(path() / "expected.safetensors");
  if (model.tokenizer.empty()) return;
  for (const auto& file :
       fs::directory_iterator(fs::path(TRIL_TOKENIZERS_FOLDER) / model.tokenizer)) {
    if (file.path().filename() != "cases.json") fs::copy(file.path(), path());
  }
}

std::string TheirFolder::error() const {
  std::string error = raised_by([&] { hub::import(path().string(), to()); }).text;
  const std::string folder = path().string() + "/";
  for (size_t i = error.find(folder); i != std::string::npos; i = error.find(folder)) {
    error.erase(i, folder.size());
  }
  const std::string name = path().string();
  for (size_t i = error.find(name); i != std::string::npos; i = error.find(name)) {
    error.replace(i, name.size(), "theirs");
  }
  return error;
}

std::string TheirFolder::error_with(const std::string& file, const std::string& from,
                                    const std::string& to_text) const {
  const std::string before = text(file);
  std::string changed = before;
  const size_t at = changed.find(from);
  if (at == std::string::npos) return "nothing to replace: " + from;
  write(file, changed.replace(at, from.size(), to_text));
  std::string raised = error();
  write(file, before);
  return raised;
}

}  // namespace tril::testing
