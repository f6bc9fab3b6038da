// A translator of the smallest model, whose tokenizer reads any text.
#pragma once

#include <string>

#include "tiny_model.h"
#include "tril/translate/translator.h"

namespace tril::fuzz {

inline Translator tiny_translator(bool decoder_only = false) {
  const std::string lines[] = {"how are you", "मैं ठीक हूँ"};
  size_t next = 0;
  Tokenizer tokenizer = Tokenizer::train(
      [&](std::string& line) {
        if (next == std::size(lines)) return false;
        line = lines[next++];
        return true;
      },
      {.vocab = 300});
  TransformerConfig config = decoder_only ? minimal_config() : tiny_config();
  config.target_vocab = tokenizer.vocab();
  config.source_vocab = decoder_only ? 0 : tokenizer.vocab();
  config.max_length = 24;
  return {Transformer(config, 1), tokenizer, 1};
}

}  // namespace tril::fuzz
