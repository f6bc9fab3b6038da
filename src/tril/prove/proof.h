// `tril prove`: the whole proof on one model, as a report of five sections.
//
//   1. table       training against inference, with evidence (table.h)
//   2. agreement   the parallel pass against step by step, bit for bit (agreement.h)
//   3. leaks       what a row may not see does not reach it (leak.h)
//   4. sequential  training prefix by prefix against all at once (sequential.h)
//   5. every input the configuration on expressions, whatever weights and tokens are
//                  (for_every_input.h), gradients included (every_gradient.h)
//
// Every figure is computed in this run. How much is done depends on the size of the model, so that
// a base model (512 wide, 6 + 6 layers, 32,000 tokens) takes less than two minutes on two cores.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "tril/models/transformer.h"
#include "tril/prove/report.h"

namespace tril {

struct ProofOptions {
  int threads = 0;  // 0: all cores
  Masking masking = Masking::causal;
  // Run everything on the model itself, however long it takes.
  bool full = false;
  // The token that ends a target, and those a model may not write: see SearchOptions. START is the
  // first token of the first pair's target.
  int32_t end = 3;
  std::vector<int32_t> forbidden{};
  // What every target begins with after START, also when the model writes: a language.
  std::vector<int32_t> forced{};
  std::vector<SequentialCase> sequential = {{1, 4}, {1, 16}, {1, 64}, {1, 300}, {16, 300}};
  // The most operations of a run of the proof for every input: beyond it the lengths are fewer,
  // then a tiny model of the same kind is used. Without limit if `full`.
  double every_input_operations = 3e9;
  // Its lengths, if they are to be these: every one up to the first, and the second alone. 0:
  // chosen.
  int64_t every_length = 0;
  int64_t one_length = 0;
  // The current activity and its progress; may be empty.
  std::function<void(std::string_view what, int64_t done, int64_t all)> progress{};
};

// Pairs as the model reads them. Raises `invalid_argument` naming the pair for one that the model
// cannot read, and when no target has two tokens. What changes a weight or needs it in another form
// works on a copy: others may use the model meanwhile.
ProofReport prove(const Transformer& model, std::span<const TokenPair> pairs,
                  const ProofOptions& options);

}  // namespace tril
