// Sequential against parallel training: what teacher forcing under the mask saves.
//
// A decoder without the parallel pass would be trained as it decodes: for a target of n tokens, n
// calls of forward(), each on a prefix, from an empty cache, under its own tape, with the loss of
// the prefix's last position; the n gradients are summed. The parallel way is one call for all
// positions of all targets. Both are run here without dropout, and compared.
//
// The losses. They are the same fp32 numbers added in double, so the two sums may differ only by
// the one rounding of the parallel sum to fp32: u |loss| with u = 2^-24 (and n roundings of 2^-53).
//
// The gradients, in three comparisons.
//
// 1 Position by position, exactly. The parallel pass over all targets is run with only one label:
// the result is that position's own share of the gradient. It must have THE SAME BITS as the
// gradient of its prefix, in every element of every parameter. Rows after the position, and other
// targets, are there too, but they contribute zeros, and adding a zero changes nothing. This is
// done for every position, or for a sample (`positions_compared` says how many).
//
// 2 The sum, within a bound that assumes nothing. In the last layer of the decoder, from its masked
// attention up, rows do not interact: a weight's gradient is a sum over rows of products, of which
// each prefix contributes one. Added up in fp32 in whatever order, the parallel gradient is off by
// at most
//   |parallel - sum of g_i| <= gamma(m + 1) * (sum of |g_i|) + m * 2^-149
// for every element, where m of the prefixes' g_i are not zero and gamma(m) = m u / (1 - m u)
// (Higham, Accuracy and Stability of Numerical Algorithms, 3.1); the sums of g_i are made in
// double. `weakest_position` says how strict this is: every position's gradient has an element at
// least this many times larger than the bound, so above 1 no position can be lost unnoticed. The
// bound grows with the square of the number of positions: from 4,095 on, a position with an average
// share of a sum is smaller than what rounding may do to it. Whether its loss would be
// noticed then depends on the model: it is reported, and not required (`must_notice`). Comparison 1
// stays exact.
//
// 3 All parameters, roughly. Further down, rows have interacted in the keys: products along paths
// through matrices are rounded there, and these may be far larger than their sum. (A key's bias
// shifts all scores of a row equally: its gradient is zero in exact arithmetic, and only rounding
// is left.) A path that passes sums of k1, k2, ... terms is off by a factor within 1 ± gamma(K), K
// = k1 + k2 + ... counted along the longest path (path_terms) from where rows first interact.
// Adding up N prefixes rounds N - 1 times more:
//   |parallel - sequential| <= (gamma(K) + gamma(K + N)) * (sum over prefixes of max |g_prefix|)
// This one rests on an assumption: that the products along the paths to an element are together no
// larger than the largest element of the gradient. It finds gross faults only; the strict
// comparisons are 1 and 2.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "tril/base/gamma.h"
#include "tril/prove/pairs.h"

namespace tril {

struct SequentialOptions {
  int threads = 0;  // 0: all cores
  Masking masking = Masking::causal;
  TestHooks hooks{};
  // The most positions of comparison 1: if there are more, these are spread evenly, including the
  // last.
  int64_t compared_positions = 64;
  // A fault for tests that must be able to fail: the parallel pass ignores this position (of all
  // targets, from 0; -1: none).
  int64_t lose_position = -1;
  // Called before each sequential step; may be empty.
  std::function<void(int64_t done, int64_t all)> progress{};
};

// Trains on the pairs both ways; no weight changes. The sequential way takes one target at a time,
// prefix by prefix. Works on a copy of the model, so others may use it meanwhile. Raises what
// forward() raises, and `invalid_argument` when there is nothing to train on.
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
// wide, two heads, at most two layers per stack, 64 tokens, 1,024 positions. For lengths that would
// take too long on the model itself.
TransformerConfig tiny_config_like(const TransformerConfig& config);

}  // namespace tril
