#include "train/trainer_support.h"

#include <algorithm>
#include <filesystem>

#include "support/temp_folder.h"
#include "support/testing.h"
#include "tril/io/atomic_file.h"
#include "tril/train/checkpoint.h"
#include "tril/train/log.h"

namespace tril::testing {

std::vector<std::pair<std::string, std::string>> made_up_pairs(uint64_t seed, int count) {
  const std::vector<std::string> words = {"ba", "de", "fi", "go", "ku", "la", "me", "no", "su"};
  const std::vector<std::string> other = {"AB", "ED", "IF", "OG", "UK", "AL", "EM", "ON", "US"};
  Random random(seed);
  std::vector<std::pair<std::string, std::string>> pairs;
  for (int i = 0; i < count; ++i) {
    std::string source;
    std::string target;
    for (uint32_t n = random.below(4) + 1; n > 0; --n) {
      const size_t word = random.below(9);
      source += words[word] + (n > 1 ? " " : "");
      target += other[word] + (n > 1 ? " " : "");
    }
    pairs.emplace_back(source, target);
  }
  return pairs;
}

TrainingText made_up_text() {
  return {Corpus::of(made_up_pairs(1, 300)), Corpus::of(made_up_pairs(2, 20))};
}

TrainOptions small_training() {
  TrainOptions options;
  options.tokenizer.vocab = 300;
  options.model.model = 16;
  options.model.heads = 2;
  options.model.feed_forward = 32;
  options.model.encoder_layers = options.model.decoder_layers = 1;
  options.model.max_length = 64;
  options.max_tokens = 32;
  options.updates = 12;
  options.batch_tokens = 128;
  options.micro_batch_tokens = 64;
  options.schedule.peak = 5e-3;
  options.schedule.warm_up = 4;
  options.log_every = 3;
  options.evaluate_every = 4;
  options.bpe_dropout = 0.1;
  return options;
}

std::string contents(const std::string& path) { return read_file(path, 1 << 28); }

std::vector<std::string> outcome(const std::string& folder) {
  std::vector<std::string> files;
  for (const char* name : {"/config.json", "/model.safetensors", "/tokenizer.model",
                           "/last/model.safetensors", "/training/options.toml"}) {
    files.push_back(contents(folder + name));
  }
  // The log without seconds and speed, which cannot be reproduced.
  const TrainState state = load_state(folder + "/training/checkpoint.safetensors");
  const TempFolder scratch;
  std::filesystem::copy(folder + "/training/log.jsonl", scratch / "log");
  const TrainingLog log(scratch / "log", state.update, std::max<int64_t>(state.last_evaluation, 0));
  for (const LogRecord& record : log.records()) {
    std::string line = concat(record.update);
    for (const auto& [name, value] : record.values) {
      if (name != "seconds" && name != "tokens_per_second") line += concat(" ", name, " ", value);
    }
    files.push_back(line);
  }
  files.push_back(concat(state.update, " ", state.best, " ", state.best_update, " ", state.worse));
  return files;
}

RunOn on(int threads) { return {threads, placement()}; }

TrainSummary run(const TrainOptions& options, const std::string& folder, RunStart start,
                 int threads, const TrainEvents& events) {
  TrainingText text = made_up_text();
  return train(text, options, folder, start, on(threads), events);
}

}  // namespace tril::testing
