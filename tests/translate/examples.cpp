#include "translate/examples.h"

#include <algorithm>

namespace tril::testing {

const std::vector<std::string>& lines() {
  static const std::vector<std::string> all = {"how are you",
                                               "I am fine, thank you",
                                               "",
                                               "where are they going today?",
                                               "मैं ठीक हूँ",
                                               "   ",
                                               "the theory that they themselves gathered",
                                               "banana bandana ananas"};
  return all;
}

const Tokenizer& tokenizer() {
  static const Tokenizer learnt = [] {
    size_t next = 0;
    return Tokenizer::train(
        [&](std::string& line) {
          if (next == lines().size()) return false;
          line = lines()[next++];
          return true;
        },
        {.vocab = 330});
  }();
  return learnt;
}

Transformer model_for(Family family, float end_bias, const Tokenizer& pieces) {
  TransformerConfig config = testing::tiny_config(family);
  config.target_vocab = pieces.vocab();
  if (family == Family::encoder_decoder) config.source_vocab = config.target_vocab;
  config.max_length = 40;
  config.output_bias = true;
  Transformer model(config, 7, placement());
  Random random(7, 1);
  change_weights(model, [&](const std::string& name, std::vector<float>& values, const Shape&) {
    for (float& value : values) value += random.uniform(-0.4f, 0.4f);
    if (name == "output.bias") values[static_cast<size_t>(pieces.end())] += end_bias;
  });
  return model;
}

Translator translator_for(Family family, int threads) {
  return {model_for(family), tokenizer(), threads};
}

TranslateOptions quick_options() {
  TranslateOptions options;
  options.search.max_tokens = 12;
  return options;
}

bool same_translation(const Translation& a, const Translation& b) {
  if (a.number != b.number || a.skipped != b.skipped) return false;
  return std::equal(a.hypotheses.begin(), a.hypotheses.end(), b.hypotheses.begin(),
                    b.hypotheses.end(), [](const TextHypothesis& x, const TextHypothesis& y) {
                      return x.text == y.text && x.tokens == y.tokens && x.pieces == y.pieces &&
                             equal_bits(x.log_probs, y.log_probs) && x.score == y.score &&
                             x.rank == y.rank && x.ended == y.ended && x.links == y.links &&
                             x.alignment.weights == y.alignment.weights;
                    });
}

std::vector<TextScore> score_all(const Translator& translator,
                                 const std::vector<ScoreTextRequest>& requests,
                                 const ScoreTextOptions& options) {
  size_t taken = 0;
  std::vector<TextScore> scores;
  translator.score(
      [&]() -> std::optional<ScoreTextRequest> {
        if (taken == requests.size()) return std::nullopt;
        return requests[taken++];
      },
      [&](TextScore&& text) {
        scores.push_back(std::move(text));
        return true;
      },
      options);
  return scores;
}

}  // namespace tril::testing
