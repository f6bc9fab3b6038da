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
#include <string>
#include <string_view>
#include <vector>

#include "tril/prove/agreement.h"
#include "tril/prove/every_gradient.h"
#include "tril/prove/for_every_input.h"
#include "tril/prove/leak.h"
#include "tril/prove/sequential.h"
#include "tril/prove/table.h"

namespace tril {

enum class Section { table, agreement, leaks, sequential, every_input };
template <>
struct Words<Section> {
  static constexpr std::string_view kList[] = {"table", "agreement", "leaks", "sequential",
                                               "every-input"};
};

struct AgreementLine {
  Writing writing = Writing::teacher_forced;
  Company company = Company::alone;
  // A beam that reached END before any hypothesis was forked is run again without END: then all
  // hypotheses get as long as they may.
  bool without_end = false;
  Agreement figures{};
  // A beam whose hypotheses were never forked shows nothing about forking.
  bool holds() const { return figures.same() && (writing != Writing::beam || figures.moved > 0); }
};

struct SequentialCase {
  int64_t rows = 1;  // targets in a batch
  int64_t length = 0;
};

struct SequentialLine : SequentialCase {
  bool on_tiny_model = false;  // tiny_config_like(), because the model itself would take too long
  // A model with bf16 activations is compared in fp32: the bounds of bf16 sums would be as large as
  // the sums.
  bool in_fp32 = false;
  SequentialComparison figures{};
};

// A run of prove_for_every_input(), with this form of weights, these kernels and these lengths. A
// weight of bf16 is one number like one of fp32, so fp32 stands for both.
struct EveryInputLine {
  Compute compute = Compute::fp32;
  KernelOrder order = KernelOrder::cpu;
  int64_t length = 0;
  bool every_length = false;   // every length up to this
  bool on_tiny_model = false;  // tiny_config_like(), because the model itself would take too long
  EveryInputResult figures{};
};

// Gradients are stored with their weights, some 80 bytes for each, so a model with more weights
// than this is never differentiated itself.
constexpr int64_t kMostGradients = 4'000'000;

// A run of prove_every_gradient(): the losses of every position of a sentence of this length, or of
// the last but one alone.
struct EveryGradientLine {
  int64_t length = 0;
  bool every_position = false;
  bool on_tiny_model = false;
  EveryGradientResult figures{};
};

struct ProofReport {
  int64_t sentences = 0;
  int64_t positions = 0;  // of their targets
  int64_t longest = 0;    // target in section 2; made from the sentences if none is as long
  size_t shown = 0;       // the sentence of the table: one with a wrong prediction, if there is one

  TableEvidence table;
  std::vector<AgreementLine> agreement;
  LeakProbe leaks;
  std::vector<SequentialLine> sequential;
  std::vector<EveryInputLine> every_input;
  std::vector<EveryGradientLine> every_gradient;
  // Why the model cannot be trained, so that section 4 and the gradients of section 5 have nothing
  // to show; empty: it can.
  std::string without_gradients;

  bool holds(Section section) const;
  bool holds() const { return failed().empty(); }
  std::vector<Section> failed() const;
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
  TestHooks hooks{};
  // The current activity and its progress; may be empty.
  std::function<void(std::string_view what, int64_t done, int64_t all)> progress{};
};

// Pairs as the model reads them. Raises `invalid_argument` naming the pair for one that the model
// cannot read, and when no target has two tokens. What changes a weight or needs it in another form
// works on a copy: others may use the model meanwhile.
ProofReport prove(const Transformer& model, std::span<const TokenPair> pairs,
                  const ProofOptions& options);

}  // namespace tril
