// Examples: learning from text.
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "examples.h"
#include "tril/tril.h"

namespace reference {
namespace {

void corpus() {
  // [Corpus]
  const std::vector<std::pair<std::string, std::string>> pairs = {{"yes", "हाँ"}, {"no", "नहीं"}};
  const tril::Corpus corpus = tril::Corpus::of(pairs);
  std::cout << corpus.size() << " pairs, the second: " << corpus.source(1) << " "
            << corpus.target(1) << "\n";
  // [/Corpus]
}

void train(const std::string& scratch) {
  // [train]
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const char* word : {"ab", "cd", "ef", "gh"}) pairs.emplace_back(word, word);
  tril::TrainingText text{tril::Corpus::of(pairs), {}};
  tril::TrainOptions options;
  options.tokenizer.vocab = 270;
  options.model.model = 16;
  options.model.heads = 2;
  options.model.feed_forward = 32;
  options.model.encoder_layers = options.model.decoder_layers = 1;
  options.updates = 4;
  options.batch_tokens = options.micro_batch_tokens = 256;
  tril::TrainEvents events;
  int64_t seen = 0;
  events.progress = [&](const tril::TrainStatus& status) { seen = status.update; };
  const tril::TrainSummary summary =
      train(text, options, scratch + "/trained", tril::RunStart::fresh, {}, events);
  std::cout << (summary.finished ? "finished" : "cancelled") << " after " << summary.last.update
            << " updates\n";
  // [/train]
}

void train_options() {
  // [TrainOptions]
  tril::TrainOptions options;
  apply_preset(tril::Preset::small, options.model);
  options.schedule.peak = 1e-3;
  check(options);
  const std::string toml = to_toml(options);
  std::cout << toml.substr(toml.find("\nrate"), 13).substr(1) << "\n";
  // [/TrainOptions]
}

void evaluate(const std::string& folder) {
  // [evaluate]
  const tril::Translator translator = tril::Translator::load(folder);
  const std::vector<std::pair<std::string, std::string>> pairs = {{"Thank you", "धन्यवाद"},
                                                                  {"I am fine", "मैं ठीक हूँ"}};
  const tril::Corpus corpus = tril::Corpus::of(pairs);
  tril::Transformer model = tril::Transformer::load(folder, {.purpose = tril::Purpose::study});
  tril::Session session(model);
  const tril::Evaluation result = evaluate(model, translator.tokenizer(), corpus, {}, session);
  std::cout << result.exact << " of " << corpus.size()
            << " as in the reference, the first: " << result.outputs.front() << "\n";
  // [/evaluate]
}

}  // namespace

void run_training(const Folders& folders) {
  begin("Corpus"), corpus();
  begin("TrainOptions"), train_options();
  begin("train"), train(folders.scratch);
  begin("evaluate"), evaluate(folders.model);
}

}  // namespace reference
