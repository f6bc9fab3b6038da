#include "explain/examples.h"

namespace tril::testing {

const Tokenizer& example_tokenizer() {
  static const Tokenizer learnt = [] {
    const std::string lines[] = {
        "how are you", "I am fine, thank you",          "where are they going?", "मैं ठीक हूँ",
        "आप कैसे हैं",     "the theory that they gathered", "I am with you",         "धन्यवाद"};
    size_t next = 0;
    return Tokenizer::train(
        [&](std::string& line) {
          if (next == std::size(lines)) return false;
          line = lines[next++];
          return true;
        },
        {.vocab = 360});
  }();
  return learnt;
}

TransformerConfig small_config(Family family) {
  TransformerConfig config = tiny_config(family);
  config.target_vocab = example_tokenizer().vocab();
  if (family != Family::decoder_only) config.source_vocab = config.target_vocab;
  config.model = 24;
  config.heads = 3;
  config.kv_heads = 0;
  config.head_dim = 8;
  config.feed_forward = 32;
  config.encoder_layers = family == Family::decoder_only ? 0 : 2;
  config.decoder_layers = 2;
  config.max_length = 200;
  return config.completed();
}

Translator example_translator(const TransformerConfig& config, uint64_t seed) {
  Transformer model(config, seed);
  // Larger weights than a model begins with: attention that is not the same everywhere.
  Random random(seed, 1);
  for (const auto& parameter : model.writable_parameters()) {
    for (int64_t i = 0; i < parameter.tensor.size(); ++i) {
      parameter.tensor.data()[i] += random.uniform(-0.4f, 0.4f);
    }
  }
  Context context(1);
  model.weights_changed(context);
  return {model, example_tokenizer(), 1};
}

Translator long_translator() {
  TransformerConfig config;
  config.source_vocab = config.target_vocab = example_tokenizer().vocab();
  config.model = 512;
  config.heads = 8;
  config.feed_forward = 64;
  config.encoder_layers = config.decoder_layers = 6;
  config.max_length = 128;
  return {Transformer(config.completed(), 3), example_tokenizer(), 2};
}

std::string long_sentence() {
  const Tokenizer& tokenizer = example_tokenizer();
  const std::string words[] = {"how", "are", "you", "मैं", "ठीक", "हूँ", "they", "gathered", "धन्यवाद"};
  std::string sentence = words[0];
  for (size_t i = 1; tokenizer.encode(sentence).size() < 59; ++i) {
    sentence += " " + words[i % std::size(words)];
  }
  while (tokenizer.encode(sentence).size() > 59) sentence.pop_back();
  return sentence;
}

ExplainOptions long_options() {
  ExplainOptions options;
  options.target = long_sentence();
  options.threads = 2;
  return options;
}

std::string hostile_sentence() {
  return "</script><script>alert(1)</script> \"you\" 'are' <!-- & \\u0041 &lt; "
         "\xE2\x80\xAE\xD8\xB3\xD9\x84\xD8\xA7\xD9\x85\xE2\x80\xAC \xE2\x80\xA8" +
         std::string(40, 'x');
}

}  // namespace tril::testing
