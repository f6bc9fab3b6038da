// Settings of a search that somebody named, and generation.json: the settings that belong to a
// model.
//
// A setting that nobody named has the value of the one below: what a caller names comes before what
// the model's folder names, and that before tril's own defaults. generation.json is sealed with the
// weights, like the tokenizer. A model without the file has tril's defaults.
//
//   {
//     "format": 1,
//     "beam": 4,
//     "length_penalty": 1.0,
//     "early_stopping": "no",
//     "forbidden": [[58100], [12, 7]],
//     "languages": {"from": "en", "to": "hi"}
//   }
// Every field but `format` may be missing; one that is not known is an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tril/decode/search_rule.h"

namespace tril {

struct SearchOptions;  // decode/search.h

// The fields of SearchRule, each named or not.
struct SearchSettings {
  std::optional<int64_t> beam{};
  std::optional<int64_t> n_best{};
  std::optional<double> length_penalty{};
  std::optional<EarlyStopping> early_stopping{};
  std::optional<CutHypotheses> cut{};
  std::optional<bool> rank_prefix{};
  std::optional<int64_t> max_tokens{};
  std::optional<int64_t> min_tokens{};
  std::optional<double> max_ratio{};
  std::optional<int64_t> no_repeat_ngram{};
  std::optional<double> repetition_penalty{};
  std::optional<bool> renormalize{};
  std::optional<bool> sample{};
  std::optional<double> temperature{};
  std::optional<int64_t> top_k{};
  std::optional<double> top_p{};
  std::optional<uint64_t> seed{};

  // These settings, and those of `below` for what they do not name. Whoever names a beam and
  // not `sample` wants no sampling; whoever wants sampling and names no beam has one of 1.
  SearchRule over(SearchRule below) const;
  bool operator==(const SearchSettings&) const = default;
};

// Raises `invalid_argument`, with its field, for a named setting of sampling where none is done.
// `samples`: whether it is, by these settings and those below them. Values that leave every token
// as likely as it is (a top_p or temperature of 1, a top_k of 0) do no harm.
void check_sampling(const SearchSettings& named, bool samples);

// Whether tokens that stand for no text (<unk>, <s>, ...) may be written: they show as nothing.
// Models of tril never write them; generate() of transformers does not forbid them.
enum class SpecialTokens { forbidden, allowed };
template <>
struct Words<SpecialTokens> {
  static constexpr std::string_view kList[] = {"forbidden", "allowed"};
};

// What generation.json holds.
struct GenerationSettings {
  SearchSettings search{};  // but for n_best and seed, which belong to a call
  // Never chosen: tokens, and tokens that may not follow one another in this way.
  std::vector<std::vector<int32_t>> forbidden{};
  // What every target begins with, where the tokenizer does not say so itself (languages).
  std::vector<int32_t> forced_first{};
  // What a target ends with that reaches the limit; absent: it is cut.
  std::optional<int32_t> forced_end{};
  SpecialTokens special_tokens = SpecialTokens::forbidden;
  // Codes of languages, "" for none. A model that translates in one direction: which one. Of a
  // tokenizer with several languages: those to use where a caller names none.
  std::string from_language{};
  std::string to_language{};

  bool operator==(const GenerationSettings&) const = default;
};

// What a search takes from a model's settings: the rule, and tokens that are forbidden or forced.
// START, END and tokens forbidden by the tokenizer are the caller's.
SearchOptions search_options(const GenerationSettings& model, const SearchRule& rule);

// The contents of a generation.json, to be saved beside the weights (SaveOptions::beside); the same
// settings give the same bytes. Raises `invalid_argument` for what generation_from_json() would
// refuse.
std::string to_json(const GenerationSettings& settings);
// Raises `bad_format`, naming `file` and the field.
GenerationSettings generation_from_json(std::string_view text, const std::string& file);

// Raises `bad_format`, naming `file` and the field, for a token that is not below `vocab`.
void check_tokens(const GenerationSettings& settings, int64_t vocab, const std::string& file);

}  // namespace tril
