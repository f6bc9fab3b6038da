// What a Hugging Face folder says about generate(), as the settings of a model of tril.
//
// generation_config.json counts where there is one, otherwise config.json, as in transformers.
// Defaults that transformers would fill in are filled in (one beam, a length penalty of 1, top_k of
// 50 where it samples), so that an imported model translates as generate() does; but not its
// max_length of 20 where a folder names none.
#pragma once

#include <string>
#include <vector>

#include "tril/decode/generation.h"
#include "tril/models/config.h"
#include "tril/text/tokenizer.h"

namespace tril::hub {

// The fields of generation_config.json that are looked at; older folders have them in config.json.
std::vector<std::string_view> generation_fields();

struct ImportedGeneration {
  GenerationSettings settings;  // for the model folder's generation.json
  // Settings that would change a result and are not taken over, each with the reason: one line
  // each, naming the file.
  std::vector<std::string> notices;
};

// What must be known of a model to read its settings.
struct GenerationFacts {
  int64_t vocab = 0;
  bool decoder_only = false;
  std::vector<int32_t> ends{};
  std::vector<Language> languages{};
  std::vector<int32_t> forced_first{};  // by the tokenizer, whatever the language
};
// From the text of a generation_config.json or config.json. Raises `bad_format`, naming file and
// field.
ImportedGeneration generation_settings(const std::string& text, const std::string& file,
                                       const GenerationFacts& facts);

// From a folder, with the tokenizer and the configuration of the imported model.
ImportedGeneration read_generation_settings(const std::string& folder, const Tokenizer& tokenizer,
                                            const TransformerConfig& config);

}  // namespace tril::hub
