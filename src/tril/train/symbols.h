// The smallest task that needs attention: copy or reverse a sequence of symbols.
//
// A small encoder–decoder is trained by teacher forcing on random sequences and then decodes unseen
// ones greedily, token by token. It learns every sequence exactly or something is wrong, which
// makes it the first test of the whole library and a measure of its speed.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tril/models/transformer.h"

namespace tril {

enum class SymbolTask { copy, reverse };

struct SymbolOptions {
  SymbolTask task = SymbolTask::reverse;
  int32_t alphabet = 26;
  int32_t length = 20;
  int64_t steps = 800;
  int64_t batch = 32;       // sequences per step
  int64_t held_out = 1000;  // sequences decoded at the end, none of them seen in training
  uint64_t seed = 1;
  int threads = 0;
  // Called after each step; may be empty.
  std::function<void(int64_t step, double loss)> progress{};
};

struct SymbolResult {
  int64_t exact = 0;  // of held_out, decoded without an error
  double last_loss = 0.0;
  double train_seconds = 0.0;
  double decode_seconds = 0.0;
};

SymbolResult learn_symbols(const SymbolOptions& options);

}  // namespace tril
