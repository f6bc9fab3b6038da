// Sequential against parallel training: what teacher forcing under the mask saves.
//
// A decoder without the parallel pass would be trained as it decodes: for a target of n tokens, n
// calls of forward(), each on a prefix, from an empty cache, under a tape of its own, with the loss
// of the prefix's last position; the n gradients are summed. The parallel way is one call for all
// positions of all targets. Both are run here, dropout off, and compared.
//
// The bound. A row's activations are the same bits in both ways, so both walk back through the
// same linear map, and in exact arithmetic the gradients are equal: what differs is rounding. The
// losses are the same fp32 numbers added in double, so the two sums may differ by the one rounding
// of the parallel sum to fp32: u |loss| with u = 2^-24 (and n roundings of 2^-53).
// A gradient is a sum of products along paths from the loss to the parameter. A term of a sum of k
// terms is rounded at most k times (Higham, Accuracy and Stability of Numerical Algorithms, 3.1),
// so a path that passes sums of k1, k2, ... terms is off by a factor within 1 ± gamma(K), where K =
// k1 + k2 + ... and gamma(K) = K u / (1 - K u). K is counted along the longest path of this model
// (path_terms), from where the ways part: the gradient of one position's loss is the same bits both
// ways as long as rows do not mix, from the softmax over the vocabulary down to the last layer's
// attention, where a key's gradient is first summed over rows. Adding up N prefixes rounds N - 1
// times more, so
//   |parallel - sequential| <= (gamma(K) + gamma(K + N)) * (sum over prefixes of max |g_prefix|)
// for every element, the largest elements taken over the whole gradient of a prefix.
// One assumption is in it: that the products along the paths to an element are together no larger
// than the largest element of the gradient. Not that element itself: some gradients are exactly
// zero in exact arithmetic (a key's bias shifts all scores of a row alike) and only rounding is
// left of them. And no worst case over all weights: the product of the absolute values of all
// matrices of all layers exceeds the gradients themselves, it would bound nothing. What makes the
// assumption safe is that K counts every rounding as if all pointed one way, where independent ones
// grow with the root of K; `share()` says how much of the bound was used.
// What makes the bound strict enough is measured too: `weakest_position` is above 1 when leaving
// out any one position's gradient would break it, and `parameters_noticed` says of how many
// parameters the gradient could not be lost or wrong altogether within it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "tril/prove/pairs.h"

namespace tril {

struct SequentialComparison {
  int64_t sequences = 0;
  int64_t positions = 0;  // rows of all targets
  int64_t longest = 0;    // target

  // Calls of forward(), counted in the model; seconds of encode, forward, loss and backward;
  // peak of the step's memory (activations, gradients, tape).
  struct Cost {
    int64_t calls = 0;
    int64_t rows = 0;  // given to forward() in all calls
    double seconds = 0.0;
    int64_t peak_bytes = 0;
  };
  Cost parallel, sequential;
  double time_ratio() const { return sequential.seconds / parallel.seconds; }

  // What the score matrices [row, key] of all heads and layers of the decoder's self-attention
  // would take in fp32, had they been kept: heads * layers * n^2 * 4 for each target.
  int64_t score_matrix_bytes = 0;

  double parallel_loss = 0.0, sequential_loss = 0.0;  // summed over the positions
  double loss_bound = 0.0;

  int64_t path_terms = 0;  // K
  int64_t gradients = 0;   // elements compared
  double gradient_bound = 0.0;
  double gradient_difference = 0.0;  // the largest
  std::string worst_parameter;       // where
  // The least, over the positions, of its gradient's largest element as a multiple of the bound.
  double weakest_position = 0.0;
  int64_t parameters = 0;
  int64_t parameters_noticed = 0;  // whose gradient's largest element is above the bound

  double loss_difference() const;
  // Of the bound, by the largest difference.
  double share() const { return gradient_bound > 0.0 ? gradient_difference / gradient_bound : 0.0; }
  // False for NaN.
  bool losses_agree() const { return loss_difference() <= loss_bound; }
  bool gradients_agree() const { return gradient_difference <= gradient_bound; }
  bool holds() const { return losses_agree() && gradients_agree(); }
};

struct SequentialOptions {
  int threads = 0;  // 0: every core
  Masking masking = Masking::causal;
  TestHooks hooks{};
  // Called before each sequential step; may be empty.
  std::function<void(int64_t done, int64_t all)> progress{};
};

// Trains on the pairs both ways; no weight changes. The sequential way takes one target at a time,
// prefix by prefix. Keeps the model's weights packed for gradients (Transformer::prepare_training),
// so no other thread may use the model meanwhile. Raises what forward() raises, and
// `invalid_argument` when there is nothing to train on.
SequentialComparison compare_sequential_with_parallel(const Transformer& model,
                                                      std::span<const TokenPair> pairs,
                                                      const SequentialOptions& options = {});

// K for a step on sentences of these lengths.
struct StepLengths {
  int64_t target = 0;  // the longest
  int64_t source = 0;
  int64_t tokens = 0;  // of all targets, or of all sources if these are more
};
int64_t path_terms(const TransformerConfig& config, const StepLengths& lengths);

// A tiny model of the same kind (decoder-only or not, positions, norms, activation, window): 32
// wide, two heads, at most two layers a stack, 64 tokens, 1,024 positions. For lengths that would
// take too long on the model itself.
TransformerConfig tiny_config_like(const TransformerConfig& config);

}  // namespace tril
