// Shared by the tests of the Translator: a few lines, a tokenizer learnt from them, and small
// random models with its pieces.
#pragma once

#include <string>
#include <vector>

#include "support/models.h"
#include "tril/translate/translator.h"

namespace tril::testing {

// Words, another script, and two lines that say nothing.
const std::vector<std::string>& lines();
const Tokenizer& tokenizer();

// The larger `end_bias`, the sooner translations end.
Transformer model_for(Family family, float end_bias = 0.0f, const Tokenizer& pieces = tokenizer());
Translator translator_for(Family family, int threads = 1);
// Translations of twelve tokens at most.
TranslateOptions quick_options();

// Every field, log-probabilities bit for bit.
bool same_translation(const Translation& a, const Translation& b);

std::vector<TextScore> score_all(const Translator& translator,
                                 const std::vector<ScoreTextRequest>& requests,
                                 const ScoreTextOptions& options = {});

}  // namespace tril::testing
