// Between text and tokens: a line becomes a request, hypotheses become a translation. Internal to
// translate/.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tril/translate/state.h"

namespace tril {

// What a line and the options of its call ask the engine for. Raises `unsupported` or
// `invalid_argument` for options that cannot be used.
std::shared_ptr<const SearchOptions> search_options(const TranslatorState& state,
                                                    const TranslateOptions& options);
// Raises `invalid_argument` where the line cannot be used.
SearchRequest request_of(const TranslatorState& state, const TextRequest& text, int64_t number);
// A line without a word needs no model.
bool says_nothing(const TranslatorState& state, const SearchRequest& request);
Translation empty_translation(int64_t number, const std::string& skipped);
// `source` is the request's, for alignments.
Translation translation_of(TranslatorState& state, int64_t number,
                           std::vector<Hypothesis>&& hypotheses, const std::vector<int32_t>& source,
                           const TranslateOptions& options);

}  // namespace tril
