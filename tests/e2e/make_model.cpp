// A model folder for tests of the program: random weights, a tokenizer of a few sentences. Or a
// base model (512 wide, 8 heads, 6 + 6 layers, 32,000 tokens) or one of preset tiny (8,000 tokens),
// without a tokenizer, base with that of another folder where one is named. `other` has another
// tokenizer. Those that transformers has too: `pre` has its norms before the sub-layers, `llama`
// and `mistral` are decoder-only.
//   make_model FOLDER translate|generate|other|pre|llama|mistral|base|tiny [SEED
//   [TOKENIZER-FOLDER]]
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "tril/tril.h"

int main(int argc, char** argv) {
  if (argc < 3 || argc > 5) return 2;
  const uint64_t seed = argc >= 4 ? std::stoull(argv[3]) : 5;
  const std::string folder = argv[1];
  if (std::string(argv[2]) == "base") {
    tril::TransformerConfig base;  // the defaults are the base model's
    base.source_vocab = base.target_vocab = 32000;
    tril::SaveOptions options;
    if (argc == 5) {
      const std::string path = std::string(argv[4]) + "/tokenizer.model";
      std::ifstream file(path, std::ios::binary);
      const auto tokenizer =
          tril::Tokenizer::from_bytes({std::istreambuf_iterator<char>(file), {}}, path);
      base.source_vocab = base.target_vocab = tokenizer.vocab();
      options.beside = {{"tokenizer.model", tokenizer.bytes()}};
    }
    tril::Transformer(base.completed(), seed).save(folder, options);
    return 0;
  }
  if (std::string(argv[2]) == "tiny") {
    tril::TransformerConfig tiny;
    tril::apply_preset(tril::Preset::tiny, tiny);
    tiny.source_vocab = tiny.target_vocab = 8000;
    tril::Transformer(tiny.completed(), seed).save(folder);
    return 0;
  }
  const std::string kind = argv[2];
  const bool llama = kind == "llama" || kind == "mistral";
  const bool decoder_only = kind == "generate" || llama;
  const std::string sentences[] = {"how are you", "I am fine, thank you", "where are they going?",
                                   "मैं ठीक हूँ", "the theory that they gathered"};
  size_t next = 0;
  const tril::Tokenizer tokenizer = tril::Tokenizer::train(
      [&](std::string& line) {
        if (next == std::size(sentences)) return false;
        line = sentences[next++];
        return true;
      },
      {.vocab = kind == "other" ? 310 : 320});
  tril::TransformerConfig config;
  config.target_vocab = tokenizer.vocab();
  config.source_vocab = decoder_only ? 0 : config.target_vocab;
  config.model = 16;
  config.heads = 2;
  config.feed_forward = 32;
  config.encoder_layers = decoder_only ? 0 : 1;
  config.decoder_layers = 2;
  config.max_length = 64;
  if (kind == "pre" || llama) config.norm_position = tril::NormPosition::pre;
  if (llama) {
    config.norm = tril::NormType::rms;
    config.position = tril::PositionType::rotary;
    config.activation = tril::ActivationType::silu;
    config.gated = true;
    config.bias = false;
    config.kv_heads = 1;
    config.window = kind == "mistral" ? 4 : 0;
  }
  tril::Transformer(config.completed(), seed)
      .save(folder, {.beside = {{"tokenizer.model", tokenizer.bytes()}}});
}
