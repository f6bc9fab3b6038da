// Choosing tokens from one row of log-probabilities: the best few, or a draw. Internal to decode/.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tril/decode/search.h"

namespace tril {

struct Choice {
  int32_t token = 0;
  float log_prob = 0.0f;
  float value = 0.0f;  // by which it was chosen: log p, or what a rule made of it
};

// Which tokens may be chosen: one entry per token of the vocabulary, or of a part of it, whose
// tokens are then identified by their place in it.
class AllowedTokens {
 public:
  AllowedTokens(int64_t vocab, std::span<const int32_t> forbidden);
  // The same for a part of the vocabulary: one entry for each of `tokens`.
  AllowedTokens(const AllowedTokens& all, std::span<const int32_t> tokens);
  bool operator[](size_t token) const { return allowed_[token] != 0; }

 private:
  std::vector<uint8_t> allowed_;
};

// The `count` allowed tokens of largest log-probability, largest first, the lower token first at
// equal ones; fewer where fewer are above -infinity. NaN is never chosen. One pass over the row;
// the vocabulary is not sorted.
void best_choices(std::span<const float> log_probs, const AllowedTokens& allowed, int64_t count,
                  std::vector<Choice>& best);

// The rules of search.h that look back.
struct LookBack {
  const SearchOptions& options;
  std::span<const int32_t> seen;       // the sequence so far, START included
  std::span<const int32_t> different;  // each of its tokens once, in any order
  // Where the row is over a part of the vocabulary: its tokens, ascending; empty: all.
  std::span<const int32_t> tokens{};
};
// Changes a row of log-probabilities into the values to choose by; `norm` is the row's normaliser,
// which the penalty of greedy search and sampling needs.
void apply_rules(const LookBack& rules, float norm, std::span<float> values);
// The values over the allowed tokens alone: log-probabilities again, -infinity for all others. NaN
// where nothing is left.
void renormalize(const AllowedTokens& allowed, std::span<float> values);

// Identifies a draw in the stream of random numbers.
struct DrawPlace {
  int64_t stream = 0;
  int64_t sample = 0;
  int64_t position = 0;  // of the token drawn, from 0
};

// The tokens that may be drawn, their weights, and the sum of the weights in that order.
struct DrawSet {
  std::vector<Choice> tokens;
  std::vector<double> weights;
  double total = 0.0;
};
// The set that temperature, top_k and top_p leave, as search.h states it; empty where no allowed
// token has a probability above zero.
void draw_set(std::span<const float> log_probs, const AllowedTokens& allowed,
              const SearchOptions& options, DrawSet& set);
// One draw from a set that is not empty.
Choice draw(const DrawSet& set, uint64_t seed, const DrawPlace& place);
// One draw as a GPU makes it, by the rule of kernels/cuda/draw.h, to the same token; nothing where
// no allowed token has a probability above zero. `ranked` is workspace.
std::optional<Choice> draw_like_gpu(std::span<const float> log_probs, const AllowedTokens& allowed,
                                    const SearchOptions& options, const DrawPlace& place,
                                    std::vector<Choice>& ranked);

}  // namespace tril
