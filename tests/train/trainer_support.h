// Runs of the trainer that take a second, for its tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tril/train/trainer.h"

namespace tril::testing {

// A language of nine words and its translation, word by word.
std::vector<std::pair<std::string, std::string>> made_up_pairs(uint64_t seed, int count);
TrainingText made_up_text();
TrainOptions small_training();

std::string contents(const std::string& path);
// The results of a run that must not depend on how it got there.
std::vector<std::string> outcome(const std::string& folder);

// Where the tests run.
RunOn on(int threads);
// Trains on made_up_text().
TrainSummary run(const TrainOptions& options, const std::string& folder, RunStart start,
                 int threads = 1, const TrainEvents& events = {});

}  // namespace tril::testing
