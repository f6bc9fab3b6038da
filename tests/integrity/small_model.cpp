#include "small_model.h"

#include "support/models.h"
#include "tril/base/rng.h"
#include "tril/train/learn_shortlist.h"

namespace tril::testing {

Corpus made_up_corpus(bool other) {
  const std::vector<std::string> words = {"ba", "de", "fi", "go", "ku", "la", "me", "no", "su"};
  const std::vector<std::string> more = {"pa", "te", "ri", "xo", "wu", "za", "ce", "vo", "hu"};
  Random random(7);
  std::vector<std::pair<std::string, std::string>> pairs;
  for (int i = 0; i < 200; ++i) {
    std::string source, target;
    for (uint32_t n = random.below(4) + 1; n > 0; --n) {
      const size_t word = random.below(9);
      const std::string& chosen = other ? more[word] : words[word];
      source += chosen + (n > 1 ? " " : "");
      target += std::string{chosen[1], chosen[0]} + (n > 1 ? " " : "");
    }
    pairs.emplace_back(source, target);
  }
  return Corpus::of(pairs);
}

void make_small_model(const std::string& folder, uint64_t seed, bool other) {
  TrainOptions options;
  options.seed = seed;
  options.tokenizer.vocab = 285;
  options.model.model = 8;
  options.model.heads = 2;
  options.model.feed_forward = 16;
  options.model.encoder_layers = options.model.decoder_layers = 1;
  options.model.max_length = 32;
  options.max_tokens = 32;
  options.updates = 4;
  options.evaluate_every = 2;
  options.batch_tokens = 64;
  options.micro_batch_tokens = 64;
  options.schedule.warm_up = 1;
  const std::string model = folder + "/model";
  TrainingText text{made_up_corpus(other), std::nullopt};
  train(text, options, model, RunStart::fresh, {1}, {});
  const Tokenizer tokenizer =
      Tokenizer::from_bytes(read_model_file(model, kTokenizerFile), "tokenizer");
  learn_shortlist(text.train, tokenizer, {.best = 3, .frequent = 5, .threads = 1}).save(model);
  for (const Compute compute : all_forms()) {
    Transformer::save_packed(model, folder + "/" + std::string(word_for(compute)), compute);
  }
}

std::string translated(const std::string& folder, bool shortlist) {
  const Translator translator = Translator::load(folder, {}, 1);
  TranslateOptions options;
  options.search.beam = 2;
  options.search.max_tokens = 8;
  if (shortlist) options.shortlist = Shortlist::load(folder);
  const std::vector<std::string> lines = {"ba de fi", "su", "no me la ku"};
  std::string all;
  for (const Translation& one : translator.translate(lines, options)) {
    all += concat(one.text(), " ", one.hypotheses.front().score, "\n");
  }
  return all;
}

}  // namespace tril::testing
