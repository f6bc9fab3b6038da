// Lesson `forcing`: does teacher forcing or the mask let training compute all positions in one
// call? The phrasebook is learnt four times, with each combination of the two.
//
// With teacher forcing the decoder reads the true target. Without it ("own predictions") it reads
// what the current model writes: before each update the batch's targets are decoded greedily, one
// token per call, to the length of the true ones, and the labels stay the true tokens. Then one
// call under a tape computes the loss, with the mask or without it. All four runs begin with the
// same weights and see the same sentences in the same order.
//
// Two questions are asked of each. Are all inputs of a training step known before the decoder has
// run? Calls of forward() are counted inside the model. And does the one call compute what
// inference computes, token by token, from the same inputs? The log-probability of every label is
// compared as bits, without dropout. The first depends on forcing alone and the second on the mask
// alone, so only both together train, in one call, the function that inference computes.
//
// Also measured: the norm of each update's whole gradient before clipping. Notes say that teacher
// forcing makes training faster and gradients stable.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "tril/base/words.h"
#include "tril/models/session.h"
#include "tril/tensor/context.h"

namespace tril {

// What the decoder reads in training: the true tokens (teacher forcing), or its own predictions.
enum class Feeding { truth, own };

template <>
struct Words<Feeding> {
  static constexpr std::string_view kList[] = {"teacher forcing", "own predictions"};
};

struct ForcingRun {
  Feeding feeding = Feeding::truth;
  Masking masking = Masking::causal;

  // Calls of forward() over all updates: before the inputs of a step are known, and then under the
  // tape. And the same before the very first step, whose longest target has this many tokens, END
  // included.
  int64_t calls_before = 0, calls_learning = 0;
  int64_t first_calls_before = 0, first_longest = 0;

  std::vector<double> curve{};  // training loss per token, mean over each tenth of the updates
  std::vector<double> norms{};  // of the gradients, one per update
  double first_norm = 0.0;
  // Over the second half of the updates: mean, standard deviation / mean, largest / mean.
  double norm_mean = 0.0, norm_spread = 0.0, norm_peak = 0.0;
  int64_t clipped = 0;  // updates whose gradient was longer than 1 and clipped to that

  // On unseen sentences, with inputs as in its training, without dropout: the loss per token in one
  // call, masked as trained; the same token by token with a cache, which is what inference
  // computes; and the number of label log-probabilities whose bits differ between the two.
  int64_t positions = 0, positions_differing = 0;
  double loss_one_call = 0.0, loss_token_by_token = 0.0;
  double loss_forced = 0.0;  // per token: the true tokens as inputs, under the mask
  // What it writes in inference.
  int64_t exact = 0;
  double bleu = 0.0;

  bool inputs_known() const { return calls_before == 0; }
  // One call is the function that inference computes.
  bool same_bits() const { return positions > 0 && positions_differing == 0; }
};

struct ForcingLesson {
  int64_t updates = 0;
  int64_t held_out = 0;  // sentences
  ForcingRun forcing_masked, forcing_unmasked, own_masked, own_unmasked;

  // Teacher forcing alone decides whether the inputs are known, the mask alone whether one call is
  // what inference computes.
  bool forcing_gives_inputs = false;
  bool mask_gives_function = false;
  // Only the first combination has both, and it writes more unseen sentences right than each of the
  // others.
  bool both_are_needed = false;
  bool best_with_both = false;

  // The claim that forcing trains faster: after the same updates a lower loss on unseen sentences
  // (true tokens, masked) and more of them right than with own predictions, from fewer calls.
  bool faster_with_forcing = false;
  // The claim that gradients are stable with it: both under the mask, norm_spread is smaller.
  bool steadier_with_forcing = false;

  // The four claims above, and with both most sentences are right. The two claims about speed and
  // gradients are reported, however they come out.
  bool holds = false;
};

struct ForcingOptions {
  int64_t updates = 400;
  uint64_t seed = 1;
  int threads = 0;
  TestHooks hooks{};  // for the comparison, in tests that must be able to fail
  std::function<void(Feeding feeding, Masking masking, int64_t update, double loss)> progress{};
};
// Raises `invalid_argument` for fewer than 10 updates.
ForcingLesson teach_forcing(const ForcingOptions& options = {});

}  // namespace tril
