#include "tril/train/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <type_traits>

#include "tril/io/json.h"
#include "tril/io/toml.h"
#include "tril/train/option_list.h"

namespace tril {
namespace {

// Far beyond what anyone needs, and small enough that no sum or product of them overflows.
constexpr int64_t kMaxUpdates = 1'000'000'000;         // and everything counted in updates
constexpr int64_t kMaxBatchTokens = int64_t{1} << 24;  // more would not fit into any memory
constexpr int64_t kMaxBeam = 1024;
constexpr int64_t kMaxCheckpoints = 1000;  // each is a copy of the weights in memory

// A TOML value. TOML's strings, numbers and booleans are written as JSON's are.
template <class Value>
std::string toml_value(const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return json_quoted(word_for(value));
  } else if constexpr (std::is_same_v<Value, std::string>) {
    return json_quoted(value);
  } else if constexpr (std::is_same_v<Value, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_same_v<Value, float>) {
    char text[32];  // 0.9, where concat would write 0.9f as a double
    return {text, std::to_chars(std::begin(text), std::end(text), value).ptr};
  } else {
    return concat(value);
  }
}

void write_list(std::string& text, std::string_view name, const std::vector<std::string>& list) {
  if (list.empty()) return;
  text += concat(name, " = [");
  for (size_t i = 0; i < list.size(); ++i) {
    text += concat(i == 0 ? "" : ", ", json_quoted(list[i]));
  }
  text += "]\n";
}

void write_corpus(std::string& text, const std::string& prefix, const CorpusFiles& files) {
  write_list(text, prefix + "source", files.source);
  write_list(text, prefix + "target", files.target);
  write_list(text, prefix + "tsv", files.tsv);
  write_list(text, prefix + "text", files.text);
}

const TomlOption* find(const std::vector<TomlOption>& options, const std::string& name) {
  const auto found = std::find_if(options.begin(), options.end(),
                                  [&](const TomlOption& option) { return option.name == name; });
  return found == options.end() ? nullptr : &*found;
}

// For messages: the values of an option, or that it is missing.
std::string text_of(const TomlOption* option) {
  if (option == nullptr) return "not given";
  std::string text;
  for (const std::string& value : option->values) {
    text += concat(text.empty() ? "" : " ", printable(value));
  }
  return text;
}

}  // namespace

void apply_preset(Preset preset, TransformerConfig& config) {
  struct Sizes {
    int64_t model, heads, feed_forward, layers;
    double dropout;
  };
  constexpr Sizes kSizes[] = {{128, 4, 256, 4, 0.3},
                              {256, 4, 1024, 3, 0.3},
                              {512, 8, 2048, 6, 0.1},
                              {1024, 16, 4096, 6, 0.3}};
  const Sizes& sizes = kSizes[static_cast<size_t>(preset)];
  config.model = sizes.model;
  config.heads = sizes.heads;
  config.feed_forward = sizes.feed_forward;
  config.encoder_layers = config.decoder_layers = sizes.layers;
  config.dropout = sizes.dropout;
}

TransformerConfig default_model() {
  TransformerConfig config;
  apply_preset(Preset::tiny, config);
  config.norm_position = NormPosition::pre;
  return config;
}

LanguagePair languages_from(const std::string& text) {
  const size_t hyphen = text.find('-');
  require(hyphen != std::string::npos && hyphen > 0 && hyphen + 1 < text.size(),
          ErrorCode::invalid_argument, "train: languages must be two codes, as in en-hi, not '",
          printable(text), "'");
  return {.from = text.substr(0, hyphen), .to = text.substr(hyphen + 1)};
}

void check(const TrainOptions& o) {
  const auto range = [](std::string_view name, int64_t value, int64_t min, int64_t max) {
    require(min <= value && value <= max, ErrorCode::invalid_argument, "train: ", name,
            " must be from ", min, " to ", max, ", not ", value);
  };
  const auto share = [](std::string_view name, double value) {
    require(value >= 0.0 && value < 1.0, ErrorCode::invalid_argument, "train: ", name,
            " must be in [0, 1), not ", value);
  };
  range("updates", o.updates, 0, kMaxUpdates);
  range("batch-tokens", o.batch_tokens, 1, kMaxBatchTokens);
  range("micro-batch-tokens", o.micro_batch_tokens, 1, kMaxBatchTokens);
  range("log-every", o.log_every, 1, kMaxUpdates);
  range("evaluate-every", o.evaluate_every, 1, kMaxUpdates);
  range("save-every", o.save_every, 0, kMaxUpdates);
  range("patience", o.patience, 0, kMaxUpdates);
  range("warm-up", o.schedule.warm_up, 0, kMaxUpdates);
  range("valid-beam", o.valid_beam, 1, kMaxBeam);
  range("max-tokens", o.max_tokens, 2, kMaxBatchTokens);
  range("tokenizer-lines", o.tokenizer_lines, 1, std::numeric_limits<int64_t>::max());
  range("average-checkpoints", o.average.checkpoints, 1, kMaxCheckpoints);
  require(o.batch_tokens % o.micro_batch_tokens == 0, ErrorCode::invalid_argument,
          "train: micro-batch-tokens (", o.micro_batch_tokens, ") must divide batch-tokens (",
          o.batch_tokens, ")");
  require(o.micro_batch_tokens >= o.max_tokens, ErrorCode::invalid_argument,
          "train: a sentence of max-tokens (", o.max_tokens, ") must fit into micro-batch-tokens (",
          o.micro_batch_tokens, ")");
  require(o.schedule.peak > 0.0 && std::isfinite(o.schedule.peak), ErrorCode::invalid_argument,
          "train: rate must be positive, not ", o.schedule.peak);
  require(
      o.bpe_dropout == 0.0 || !o.tokenizer_file.empty() || o.tokenizer.type == TokenizerType::bpe,
      ErrorCode::invalid_argument, "train: bpe-dropout needs tokenizer-type bpe");
  check(o.tokenizer);
  check(o.optimizer);
  if (!o.model_languages.empty()) languages_from(o.model_languages);
  TransformerConfig sizes = o.model;  // any vocabulary will do to check the rest
  sizes.target_vocab = 1000;
  sizes.frozen_token = -1;
  sizes.source_vocab = sizes.decoder_only() ? 0 : sizes.target_vocab;
  sizes.completed().check();
  share("label-smoothing", o.smoothing);
  share("bpe-dropout", o.bpe_dropout);
  share("average-decay", o.average.decay);
}

std::string to_toml(const TrainOptions& options) {
  std::string text;
  write_corpus(text, "", options.train);
  write_corpus(text, "valid-", options.valid);
  for_each_tuning_option(options, [&](std::string_view name, const auto& value, std::string_view) {
    if (value.empty()) return;
    if constexpr (std::is_same_v<decltype(value), const std::string&>) {
      text += concat(name, " = ", toml_value(value), "\n");
    } else {
      write_list(text, name, value);
    }
  });
  for_each_option(
      options, [&](std::string_view name, const auto& value, std::string_view, std::string_view) {
        text += concat(name, " = ", toml_value(value), "\n");
      });
  return text;
}

std::vector<OptionChange> changed_options(const std::string& record, const TrainOptions& options,
                                          const std::string& file) {
  const std::vector<TomlOption> now = parse_toml(to_toml(options), file);
  const std::vector<TomlOption> recorded = parse_toml(record, file);
  std::vector<OptionChange> changes;
  for (const TomlOption& option : now) {
    const TomlOption* before = find(recorded, option.name);
    if (before != nullptr && before->values == option.values) continue;
    changes.push_back({option.name, text_of(before), text_of(&option)});
  }
  for (const TomlOption& option : recorded) {
    if (find(now, option.name) != nullptr) continue;
    changes.push_back({option.name, text_of(&option), text_of(nullptr)});
  }
  return changes;
}

}  // namespace tril
