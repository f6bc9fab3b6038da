// Between text and tokens: a line becomes a request, hypotheses become a translation. Internal to
// translate/.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tril/translate/state.h"

namespace tril {

// The engine's options for the options of a call; consecutive calls with the same options share
// them. Raises `unsupported` or `invalid_argument` for options that cannot be used.
std::shared_ptr<const SearchOptions> checked_options(TranslatorState& state,
                                                     const TranslateOptions& options);
// Raises `invalid_argument` if the line cannot be used.
SearchRequest request_of(const TranslatorState& state, const TextRequest& text, int64_t number,
                         const LanguagePair& languages);
// Whether the line has no word, so that no model is needed.
bool says_nothing(const TranslatorState& state, const SearchRequest& request);
Translation empty_translation(int64_t number, const std::string& skipped);
// `source` is that of the request, for alignments.
Translation translation_of(TranslatorState& state, int64_t number,
                           std::vector<Hypothesis>&& hypotheses, const std::vector<int32_t>& source,
                           const TranslateOptions& options);

}  // namespace tril
