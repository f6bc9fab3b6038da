#include "tril/decode/shortlist.h"

#include <algorithm>
#include <limits>

#include "tril/base/error.h"
#include "tril/io/atomic_file.h"
#include "tril/io/safetensors.h"
#include "tril/models/config.h"
#include "tril/models/folder.h"

namespace tril {
namespace {

// The file: two lists of tokens, the index in the second at which each source token's list begins,
// and the vocabulary size.
constexpr const char* kAlways = "always";
constexpr const char* kListed = "listed";
constexpr const char* kBegins = "begins";
constexpr const char* kTargetVocab = "target_vocab";
constexpr const char* kFormat = "tril_shortlist";
constexpr const char* kFormatNow = "1";

std::string file_in(const std::string& folder) { return path_in(folder, kShortlistFile); }

void sort_unique(std::vector<int32_t>& tokens) {
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
}

std::span<const int32_t> numbers_of(std::span<const NamedTensor> tensors, std::string_view name,
                                    const std::string& file) {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
  require(found != tensors.end(), ErrorCode::bad_format, file, ": tensor '", name, "' is missing");
  const Tensor& tensor = found->tensor;
  require(tensor.dtype() == DType::i32 && tensor.shape().rank() == 1, ErrorCode::bad_format, file,
          ": tensor '", name, "' is ", tensor.dtype(), " ", tensor.shape(),
          ", expected a list of i32");
  return {tensor.data<int32_t>(), static_cast<size_t>(tensor.size())};
}

// Ascending, below the vocabulary.
void check_tokens(std::span<const int32_t> tokens, int64_t vocab, std::string_view name,
                  const std::string& file) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    require(tokens[i] >= 0 && tokens[i] < vocab, ErrorCode::bad_format, file, ": ", name,
            ": token ", tokens[i], " is not below the vocabulary of ", vocab);
    require(i == 0 || tokens[i - 1] < tokens[i], ErrorCode::bad_format, file, ": ", name,
            ": token ", tokens[i], " does not follow ", tokens[i > 0 ? i - 1 : 0]);
  }
}

}  // namespace

struct Shortlist::State {
  int64_t target_vocab = 0;
  std::vector<int32_t> always;  // ascending, as each source token's list
  std::vector<int32_t> listed;  // of all source tokens, one after the other
  std::vector<int32_t> begins;  // of each source token's list, and the end of the last
  std::string tokenizer;

  std::span<const int32_t> of(int32_t source) const {
    const auto at = static_cast<size_t>(source);
    return std::span(listed).subspan(static_cast<size_t>(begins[at]),
                                     static_cast<size_t>(begins[at + 1] - begins[at]));
  }
};

Shortlist::Shortlist(const ShortlistTable& table) {
  auto state = std::make_shared<State>();
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  require(table.target_vocab >= 1 && table.target_vocab <= kMost, ErrorCode::invalid_argument,
          "shortlist: a target vocabulary of ", table.target_vocab);
  state->target_vocab = table.target_vocab;
  state->tokenizer = table.tokenizer;
  const auto sorted = [&](std::vector<int32_t> tokens) {
    for (const int32_t token : tokens) {
      require(token >= 0 && token < table.target_vocab, ErrorCode::invalid_argument,
              "shortlist: token ", token, " is not below the vocabulary of ", table.target_vocab);
    }
    sort_unique(tokens);
    return tokens;
  };
  require(!table.always.empty(), ErrorCode::invalid_argument,
          "shortlist: no token is in every set, not even END");
  state->always = sorted(table.always);
  state->begins.push_back(0);
  for (const std::vector<int32_t>& tokens : table.listed) {
    const std::vector<int32_t> list = sorted(tokens);
    require(static_cast<int64_t>(state->listed.size() + list.size()) <= kMost,
            ErrorCode::invalid_argument, "shortlist: more than ", kMost, " tokens listed in all");
    state->listed.insert(state->listed.end(), list.begin(), list.end());
    state->begins.push_back(static_cast<int32_t>(state->listed.size()));
  }
  state_ = std::move(state);
}

Shortlist Shortlist::load(const std::string& folder) {
  const std::string file = file_in(folder);
  require(file_exists(file), ErrorCode::io, file,
          ": there is no shortlist in this folder: 'tril shortlist' makes one");
  Arena arena;
  SafetensorsInfo info;
  const std::vector<NamedTensor> tensors = load_safetensors(file, arena, &info);
  SafetensorsMetadata& metadata = info.metadata;
  require(metadata[kFormat] == kFormatNow, ErrorCode::bad_format, file,
          ": not a shortlist this version of tril made: 'tril shortlist' makes one");
  auto state = std::make_shared<State>();
  state->tokenizer = metadata[kShortlistTokenizer];
  const auto vocab = numbers_of(tensors, kTargetVocab, file);
  require(vocab.size() == 1 && vocab[0] >= 1, ErrorCode::bad_format, file, ": ", kTargetVocab,
          ": expected one number above 0");
  state->target_vocab = vocab[0];
  const auto copy = [&](const char* name) {
    const auto numbers = numbers_of(tensors, name, file);
    return std::vector<int32_t>(numbers.begin(), numbers.end());
  };
  state->always = copy(kAlways);
  state->listed = copy(kListed);
  state->begins = copy(kBegins);
  require(!state->always.empty(), ErrorCode::bad_format, file, ": ", kAlways, ": is empty");
  check_tokens(state->always, vocab[0], kAlways, file);
  const std::vector<int32_t>& begins = state->begins;
  require(!begins.empty() && begins.front() == 0 && std::is_sorted(begins.begin(), begins.end()) &&
              static_cast<size_t>(begins.back()) == state->listed.size(),
          ErrorCode::bad_format, file, ": ", kBegins, ": the lists do not cover the ",
          state->listed.size(), " tokens listed");
  for (size_t source = 0; source + 1 < begins.size(); ++source) {
    check_tokens(state->of(static_cast<int32_t>(source)), vocab[0], kListed, file);
  }
  return Shortlist(std::move(state));
}

void Shortlist::save(const std::string& folder) const {
  Arena arena;
  const auto tensor_of = [&](const std::vector<int32_t>& numbers) {
    const Tensor tensor(arena, {static_cast<int64_t>(numbers.size())}, DType::i32);
    if (!numbers.empty()) std::copy(numbers.begin(), numbers.end(), tensor.data<int32_t>());
    return tensor;
  };
  const NamedTensor tensors[] = {
      {kAlways, tensor_of(state_->always)},
      {kListed, tensor_of(state_->listed)},
      {kBegins, tensor_of(state_->begins)},
      {kTargetVocab, tensor_of({static_cast<int32_t>(state_->target_vocab)})}};
  // A link could lead to another model's shortlist.
  AtomicFile file(file_in(folder), Links::replace);
  write_safetensors(file, tensors,
                    {{kFormat, kFormatNow}, {kShortlistTokenizer, state_->tokenizer}});
  file.commit();
}

int64_t Shortlist::source_vocab() const { return static_cast<int64_t>(state_->begins.size()) - 1; }
int64_t Shortlist::target_vocab() const { return state_->target_vocab; }
const std::string& Shortlist::tokenizer() const { return state_->tokenizer; }

void Shortlist::choose(std::span<const int32_t> source, std::span<const int32_t> prefix,
                       std::vector<int32_t>& set) const {
  set.assign(state_->always.begin(), state_->always.end());
  set.insert(set.end(), prefix.begin(), prefix.end());
  for (const int32_t token : source) {
    const std::span<const int32_t> list = state_->of(token);
    set.insert(set.end(), list.begin(), list.end());
  }
  sort_unique(set);
}

bool Shortlist::always(int32_t token) const {
  return std::binary_search(state_->always.begin(), state_->always.end(), token);
}

void Shortlist::check_fits(std::string_view operation, const TransformerConfig& config) const {
  require(!config.decoder_only(), ErrorCode::unsupported, operation,
          ": a decoder-only model has no source to choose a shortlist by");
  require(source_vocab() == config.source_vocab && target_vocab() == config.target_vocab,
          ErrorCode::invalid_argument, operation, ": the shortlist is for vocabularies of ",
          source_vocab(), " and ", target_vocab(), " tokens, the model has ", config.source_vocab,
          " and ", config.target_vocab);
}

}  // namespace tril
