// Sentences and models that the tests of the page share.
#pragma once

#include <string>

#include "support/models.h"
#include "tril/explain/explain.h"

namespace tril::testing {

// Learnt from a few English and Hindi lines; the same every time.
const Tokenizer& example_tokenizer();

// Random weights over that tokenizer: 2 + 2 layers, 3 heads of 8, quick to run.
TransformerConfig small_config(Family family = Family::encoder_decoder);
Translator example_translator(const TransformerConfig& config, uint64_t seed = 7);

// The largest a page is promised for: 60 tokens on either side, 6 + 6 layers of 8 heads, 512 wide.
Translator long_translator();
std::string long_sentence();  // 60 tokens with END
ExplainOptions long_options();

// Text that must never be read as HTML.
std::string hostile_sentence();

}  // namespace tril::testing
