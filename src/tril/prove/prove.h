// Proves on a model what `tril prove` does: that its parallel training pass and token-by-token
// decoding are the same function. Five sections, each of which holds or fails:
//
//   table        training against inference: the same weights, the same mask, different calls
//   agreement    the parallel pass against step by step, bit for bit: given tokens, greedy search
//                and beams, alone and in batches
//   leaks        what a row may not see is poisoned, and does not reach it
//   sequential   training prefix by prefix gives the gradients of training all at once
//   every-input  the configuration on expressions, whatever weights and tokens are
//
// Every figure is computed in this run. How much is done depends on the size of the model, so that
// a base model (512 wide, 6 + 6 layers, 32,000 tokens) takes less than two minutes on two cores.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/function.h"
#include "tril/base/words.h"
#include "tril/models/transformer.h"

namespace tril {

struct TokenPair {
  std::vector<int32_t> source;  // as the encoder reads it; empty for a decoder-only model
  std::vector<int32_t> target;  // as the decoder reads it: START and what follows
  // The token after the target: the label of its last row in training.
  int32_t next = 0;
};

enum class Section { table, agreement, leaks, sequential, every_input };
template <>
struct Words<Section> {
  static constexpr std::string_view kList[] = {"table", "agreement", "leaks", "sequential",
                                               "every-input"};
};

struct SequentialCase {
  int64_t rows = 1;  // targets in a batch
  int64_t length = 0;
};

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
  Function<void(std::string_view what, int64_t done, int64_t all)> progress{};
};

// What was found, section by section.
struct Proof {
  int64_t sentences = 0;
  int64_t positions = 0;  // of their targets
  std::vector<Section> held{};
  std::vector<Section> failed{};
  // Why the model cannot be trained, so that there was nothing to compare gradients with; empty: it
  // can.
  std::string without_gradients{};

  bool holds() const { return failed.empty(); }
};

// Pairs as the model reads them. Raises `invalid_argument` naming the pair for one that the model
// cannot read, and when no target has two tokens. What changes a weight or needs it in another form
// works on a copy: others may use the model meanwhile.
Proof prove(const Transformer& model, std::span<const TokenPair> pairs,
            const ProofOptions& options = {});

}  // namespace tril
