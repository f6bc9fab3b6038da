#include "tril/decode/generation.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <span>

#include "tril/decode/search.h"
#include "tril/io/json.h"

namespace tril {
namespace {

constexpr int64_t kMostCount = int64_t{1} << 20;
constexpr double kMostNumber = 1e9;
constexpr double kLeastPositive = 1e-9;
constexpr size_t kMostCode = 64;  // bytes of a language's code

// Calls `visit` for every field of SearchSettings that generation.json holds: the one list that
// reading and writing share.
template <class Settings, class Visit>
void each_field(Settings& s, Visit& visit) {
  visit.integer("beam", s.beam, 1, kMostCount);
  visit.number("length_penalty", s.length_penalty, -kMostNumber, kMostNumber);
  visit.choice("early_stopping", s.early_stopping);
  visit.choice("cut", s.cut);
  visit.flag("rank_prefix", s.rank_prefix);
  visit.integer("max_tokens", s.max_tokens, 0, int64_t{1} << 30);
  visit.integer("min_tokens", s.min_tokens, 0, kMostCount);
  visit.number("max_ratio", s.max_ratio, 0.0, kMostNumber);
  visit.integer("no_repeat_ngram", s.no_repeat_ngram, 0, kMostCount);
  visit.number("repetition_penalty", s.repetition_penalty, kLeastPositive, kMostNumber);
  visit.flag("renormalize", s.renormalize);
  visit.flag("sample", s.sample);
  visit.number("temperature", s.temperature, kLeastPositive, kMostNumber);
  visit.integer("top_k", s.top_k, 0, int64_t{1} << 30);
  visit.number("top_p", s.top_p, kLeastPositive, 1.0);
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& file)
      : file_(file), object_(parse_json(text, file)) {
    require(object_.kind == Kind::object, ErrorCode::bad_format, file_,
            ": expected an object, got ", describe(object_));
  }

  void integer(std::string_view field, std::optional<int64_t>& value, int64_t min, int64_t max) {
    const JsonValue* found = find(field);
    if (found == nullptr) return;
    if (!is_integer(*found, min, max)) {
      fail_field(field, concat("an integer from ", min, " to ", max), *found);
    }
    value = found->integer;
  }
  void number(std::string_view field, std::optional<double>& value, double min, double max) {
    const JsonValue* found = find(field);
    if (found == nullptr) return;
    const bool numeric = found->kind == Kind::integer || found->kind == Kind::number;
    if (!numeric || found->number < min || found->number > max) {
      fail_field(field, concat("a number from ", min, " to ", max), *found);
    }
    value = found->number;
  }
  void flag(std::string_view field, std::optional<bool>& value) {
    const JsonValue* found = find(field);
    if (found == nullptr) return;
    if (found->kind != Kind::boolean) fail_field(field, "true or false", *found);
    value = found->boolean;
  }
  template <class Enum>
  void choice(std::string_view field, std::optional<Enum>& value) {
    const JsonValue* found = find(field);
    if (found == nullptr) return;
    const auto& words = Words<Enum>::kList;
    const auto* at = std::find(std::begin(words), std::end(words), found->text);
    if (found->kind != Kind::string || at == std::end(words)) {
      std::string expected = "one of";
      for (const std::string_view word : words) expected += concat(" \"", word, "\"");
      fail_field(field, expected, *found);
    }
    value = static_cast<Enum>(at - std::begin(words));
  }
  void tokens(std::string_view field, std::vector<int32_t>& value) {
    if (const JsonValue* found = find(field)) value = list_of(field, *found);
  }
  void sequences(std::string_view field, std::vector<std::vector<int32_t>>& value) {
    const JsonValue* found = find(field);
    if (found == nullptr) return;
    if (found->kind != Kind::array) fail_field(field, "lists of tokens", *found);
    for (const JsonValue& item : found->items) {
      value.push_back(list_of(field, item));
      if (value.back().empty()) fail_field(field, "lists of at least one token", *found);
    }
  }
  void languages(std::string& from, std::string& to) {
    const JsonValue* found = find("languages");
    if (found == nullptr) return;
    if (found->kind != Kind::object) fail_field("languages", "an object", *found);
    for (size_t i = 0; i < found->names.size(); ++i) {
      const JsonValue& item = found->items[i];
      const bool is_from = found->names[i] == "from";
      require(is_from || found->names[i] == "to", ErrorCode::bad_format, file_,
              ": languages: there is no field ", printable(found->names[i]));
      if (item.kind != Kind::string || item.text.empty() || item.text.size() > kMostCode) {
        fail_field(is_from ? "languages: from" : "languages: to", "the code of a language", item);
      }
      (is_from ? from : to) = item.text;
    }
  }

  void finish() const {
    for (const std::string& name : object_.names) {
      require(known_.contains(name), ErrorCode::bad_format, file_, ": there is no field ",
              printable(name));
    }
  }

 private:
  using Kind = JsonValue::Kind;

  static bool is_integer(const JsonValue& value, int64_t min, int64_t max) {
    return value.kind == Kind::integer && value.integer >= min && value.integer <= max;
  }
  std::vector<int32_t> list_of(std::string_view field, const JsonValue& from) {
    if (from.kind != Kind::array) fail_field(field, "a list of tokens", from);
    std::vector<int32_t> list;
    for (const JsonValue& item : from.items) {
      if (!is_integer(item, 0, std::numeric_limits<int32_t>::max())) {
        fail_field(field, "tokens", item);
      }
      list.push_back(static_cast<int32_t>(item.integer));
    }
    return list;
  }
  const JsonValue* find(std::string_view field) {
    known_.emplace(field);
    return object_.find(field);
  }
  [[noreturn]] void fail_field(std::string_view field, std::string_view expected,
                               const JsonValue& value) const {
    fail(ErrorCode::bad_format, file_, ": ", field, ": expected ", expected, ", got ",
         describe(value));
  }

  std::string file_;
  JsonValue object_;
  std::set<std::string, std::less<>> known_;
};

std::string text_of(std::span<const int32_t> tokens) {
  std::string text = "[";
  for (const int32_t token : tokens) text += concat(text.size() == 1 ? "" : ", ", token);
  return text + "]";
}

struct Writer {
  JsonWriter json;

  void integer(std::string_view field, const std::optional<int64_t>& value, int64_t, int64_t) {
    if (value) json.set(field, *value);
  }
  void number(std::string_view field, const std::optional<double>& value, double, double) {
    if (value) json.set(field, *value);
  }
  void flag(std::string_view field, const std::optional<bool>& value) {
    if (value) json.set(field, *value);
  }
  template <class Enum>
  void choice(std::string_view field, const std::optional<Enum>& value) {
    if (value) json.set(field, word_for(*value));
  }
  void tokens(std::string_view field, const std::vector<int32_t>& value) {
    if (!value.empty()) json.set_raw(field, text_of(value));
  }
  void sequences(std::string_view field, const std::vector<std::vector<int32_t>>& value) {
    if (value.empty()) return;
    std::string all;
    for (const auto& sequence : value) all += (all.empty() ? "" : ", ") + text_of(sequence);
    json.set_raw(field, "[" + all + "]");
  }
  void languages(const std::string& from, const std::string& to) {
    std::string both;
    if (!from.empty()) both = "\"from\": " + json_quoted(from);
    if (!to.empty()) both += (both.empty() ? "\"to\": " : ", \"to\": ") + json_quoted(to);
    if (!both.empty()) json.set_raw("languages", "{" + both + "}");
  }
};

// Reading and writing alike.
template <class Settings, class Visit>
void each_setting(Settings& s, Visit& visit) {
  each_field(s.search, visit);
  visit.sequences("forbidden", s.forbidden);
  visit.tokens("forced_first", s.forced_first);
  visit.languages(s.from_language, s.to_language);
}

template <class Value>
void take(const std::optional<Value>& named, Value& value) {
  if (named) value = *named;
}

}  // namespace

SearchRule SearchSettings::over(SearchRule below) const {
  SearchRule rule = below;
  take(beam, rule.beam);
  take(n_best, rule.n_best);
  take(length_penalty, rule.length_penalty);
  take(early_stopping, rule.early_stopping);
  take(cut, rule.cut);
  take(rank_prefix, rule.rank_prefix);
  take(max_tokens, rule.max_tokens);
  take(min_tokens, rule.min_tokens);
  take(max_ratio, rule.max_ratio);
  take(no_repeat_ngram, rule.no_repeat_ngram);
  take(repetition_penalty, rule.repetition_penalty);
  take(renormalize, rule.renormalize);
  take(sample, rule.sample);
  take(temperature, rule.temperature);
  take(top_k, rule.top_k);
  take(top_p, rule.top_p);
  take(seed, rule.seed);
  if (beam && !sample) rule.sample = false;
  if (rule.sample && !beam) rule.beam = 1;
  return rule;
}

void check_sampling(const SearchSettings& named, bool samples) {
  if (samples) return;
  const char* field = named.top_k.value_or(0) != 0             ? "top_k"
                      : named.top_p.value_or(1.0) != 1.0       ? "top_p"
                      : named.temperature.value_or(1.0) != 1.0 ? "temperature"
                      : named.seed                             ? "seed"
                                                               : nullptr;
  if (field == nullptr) return;
  fail(ErrorCode::invalid_argument, Field{field}, field,
       ": nothing is drawn by chance without sampling");
}

SearchOptions search_options(const GenerationSettings& model, const SearchRule& rule) {
  SearchOptions options{rule};
  for (const std::vector<int32_t>& sequence : model.forbidden) {
    if (sequence.size() == 1) {
      options.forbidden.push_back(sequence[0]);
    } else {
      options.forbidden_sequences.push_back(sequence);
    }
  }
  options.forced_end = model.forced_end;
  return options;
}

std::string to_json(const GenerationSettings& settings) {
  Writer writer;
  writer.integer("format", 1, 1, 1);
  each_setting(settings, writer);
  if (settings.forced_end) writer.integer("forced_end", *settings.forced_end, 0, 0);
  if (settings.special_tokens != SpecialTokens::forbidden) {
    writer.choice<SpecialTokens>("special_tokens", settings.special_tokens);
  }
  std::string text = writer.json.to_string();
  try {
    (void)generation_from_json(text, "generation settings");
  } catch (const Error& error) {
    fail(ErrorCode::invalid_argument, error.what());
  }
  return text;
}

GenerationSettings generation_from_json(std::string_view text, const std::string& file) {
  GenerationSettings settings;
  Reader reader(text, file);
  std::optional<int64_t> format, forced_end;
  reader.integer("format", format, 1, 1);
  require(format.has_value(), ErrorCode::bad_format, file, ": format is missing, expected 1");
  each_setting(settings, reader);
  reader.integer("forced_end", forced_end, 0, std::numeric_limits<int32_t>::max());
  if (forced_end) settings.forced_end = static_cast<int32_t>(*forced_end);
  std::optional<SpecialTokens> special;
  reader.choice("special_tokens", special);
  settings.special_tokens = special.value_or(SpecialTokens::forbidden);
  reader.finish();
  return settings;
}

void check_tokens(const GenerationSettings& settings, int64_t vocab, const std::string& file) {
  const auto check = [&](std::string_view field, int32_t token) {
    require(token < vocab, ErrorCode::bad_format, file, ": ", field, ": token ", token,
            " is not below the vocabulary of ", vocab);
  };
  for (const auto& sequence : settings.forbidden) {
    for (const int32_t token : sequence) check("forbidden", token);
  }
  for (const int32_t token : settings.forced_first) check("forced_first", token);
  if (settings.forced_end) check("forced_end", *settings.forced_end);
}

}  // namespace tril
