// TextCall: what a client wants done with its texts, checked; and how that is written down.
//
// Every API turns its requests into one of these, so that all of them give the same answers. The
// written form names everything an answer depends on besides the model, in one order: cached
// answers, entity tags and receipts are made from it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tril/decode/search.h"
#include "tril/serve/model_set.h"
#include "tril/serve/request_fields.h"
#include "tril/translate/text_plan.h"

namespace tril::serve {

// Bounds on what one request may ask for.
struct CallLimits {
  int64_t max_texts = 256;
  int64_t max_units = 4096;  // sentences, of all texts
  int64_t max_beam = 16;     // also n_best and the number of samples
  int64_t slots = 64;        // hypotheses decoded at a time
  std::chrono::milliseconds timeout{60'000};
  Split split = Split::too_long;  // of requests that do not say
};

struct TextCall {
  const ServedModel* model = nullptr;
  std::vector<std::string> texts{};
  std::vector<std::string> prefixes{};  // of each text, or none at all
  std::vector<Chosen> chosen{};         // of each text: texts of one call may differ in language
  Split split = Split::too_long;
  TranslateOptions options{};  // without languages: see `chosen`
  bool details = false;        // pieces, probabilities and scores too
  bool receipt = false;
  std::chrono::milliseconds timeout{60'000};

  bool generates() const { return model->decoder_only(); }
  LanguagePair languages_of(size_t text) const { return chosen[text].languages; }
};

// The fields of /v1/translate, or with `generate` of /v1/generate; raises an ApiError for what is
// wrong. `fields` is finished by the caller, who may read more of them.
TextCall read_call(RequestFields& fields, const ModelSet& models, const CallLimits& limits,
                   bool generate);

// For a call whose texts are there: chooses its model and each text's languages. Raises an ApiError
// where texts of one call need different models. `generate`: whether the model must be one that
// continues text; without a value, either will do.
void choose_model(TextCall& call, const ModelSet& models, Wanted wanted,
                  std::optional<bool> generate);

// When its options were read: as `tril generate` does, text is continued greedily unless somebody
// says otherwise; and there are as many slots as the limits say, or as its hypotheses need.
void complete_options(TextCall& call, const CallLimits& limits);

// What its search comes to: with the model's own settings, and tril's, for what it does not name.
SearchOptions search_of(const TextCall& call);

// The options as JSON, without texts: what is named, in one order.
std::string options_text(const TextCall& call);
// The whole request as JSON that read_call() reads: of a receipt.
std::string request_text(const TextCall& call);
// What the result of a unit depends on, besides the model: the key of a cached answer.
// `options`: options_text(call).
std::string unit_key(const TextCall& call, std::string_view options, size_t text,
                     std::string_view source, int64_t number);

}  // namespace tril::serve
