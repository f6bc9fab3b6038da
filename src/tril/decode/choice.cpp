#include "tril/decode/choice.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tril/base/math.h"
#include "tril/base/rng.h"
#include "tril/ops/loss.h"

namespace tril {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr int64_t kNucleusGuess = 32;  // tokens that top_p tries first; then eight times as many

bool better(const Choice& a, const Choice& b) {
  return a.log_prob != b.log_prob ? a.log_prob > b.log_prob : a.token < b.token;
}

// e^((log p - m) / temperature), m being the largest.
double weight_of(float log_prob, float largest, double temperature) {
  return math::exp((double{log_prob} - double{largest}) / temperature);
}

// 64 random bits.
uint64_t random_bits(uint64_t seed, const DrawPlace& place) {
  const auto stream = static_cast<uint64_t>(place.stream);
  const Words4 words =
      philox(seed, {static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32),
                    static_cast<uint32_t>(place.sample), static_cast<uint32_t>(place.position)});
  return uint64_t{words[0]} << 32 | words[1];
}

// floor(2^40 * e^((log p - m) / temperature)) as kernels/cuda/draw.cu computes it, operation by
// operation; all of these are exact or rounded correctly on both.
uint64_t gpu_weight(float log_prob, float largest, double temperature) {
  const double y = (double{log_prob} - double{largest}) / temperature * 1.44269504088896340736;
  if (!(y >= -64.0)) return 0;
  const double whole = std::floor(y);
  const double x = (y - whole) * 0.693147180559945309417;
  double sum = 1.0;
  for (int n = 16; n >= 1; --n) sum = std::fma(sum, x * (1.0 / n), 1.0);
  return static_cast<uint64_t>(std::ldexp(std::ldexp(sum, static_cast<int>(whole)), 40));
}

// floor(a * b / 2^64).
uint64_t high_product(uint64_t a, uint64_t b) {
  constexpr uint64_t kLow = 0xFFFFFFFF;
  const uint64_t mixed = (a >> 32) * (b & kLow) + ((a & kLow) * (b & kLow) >> 32);
  return (a >> 32) * (b >> 32) + (mixed >> 32) + (((a & kLow) * (b >> 32) + (mixed & kLow)) >> 32);
}

// Cuts `ranked`, best first, to its shortest beginning whose weights reach `goal`; false if they do
// not reach it.
bool cut_to_nucleus(std::vector<Choice>& ranked, float largest, double temperature, double goal) {
  double sum = 0.0;
  for (size_t i = 0; i < ranked.size(); ++i) {
    sum += weight_of(ranked[i].log_prob, largest, temperature);
    if (sum >= goal) {
      ranked.resize(i + 1);
      return true;
    }
  }
  return false;
}

}  // namespace

AllowedTokens::AllowedTokens(int64_t vocab, std::span<const int32_t> forbidden)
    : allowed_(static_cast<size_t>(vocab), 1) {
  for (const int32_t token : forbidden) allowed_[static_cast<size_t>(token)] = 0;
}

AllowedTokens::AllowedTokens(const AllowedTokens& all, std::span<const int32_t> tokens) {
  allowed_.reserve(tokens.size());
  for (const int32_t token : tokens) allowed_.push_back(all.allowed_[static_cast<size_t>(token)]);
}

void best_choices(std::span<const float> log_probs, const AllowedTokens& allowed, int64_t count,
                  std::vector<Choice>& best) {
  best.clear();
  const auto wanted = static_cast<size_t>(count);
  // A heap whose front is the worst token kept. Tokens come in ascending order, so one that only
  // equals the worst never enters.
  float bar = kNone;
  const auto consider = [&](size_t token) {
    if (!(log_probs[token] > bar) || !allowed[token]) return;
    if (best.size() == wanted) {
      std::pop_heap(best.begin(), best.end(), better);
      best.pop_back();
    }
    best.push_back({static_cast<int32_t>(token), log_probs[token], log_probs[token]});
    std::push_heap(best.begin(), best.end(), better);
    if (best.size() == wanted) bar = best.front().log_prob;
  };
  // Stretches of tokens with nothing above the bar are skipped with one vector comparison.
  constexpr size_t kStretch = 32;
  const float* data = log_probs.data();
  size_t token = 0;
  for (; token + kStretch <= log_probs.size(); token += kStretch) {
    int above = 0;
    for (size_t i = 0; i < kStretch; ++i) above |= data[token + i] > bar ? 1 : 0;
    if (above == 0) continue;
    for (size_t i = 0; i < kStretch; ++i) consider(token + i);
  }
  for (; token < log_probs.size(); ++token) consider(token);
  std::sort_heap(best.begin(), best.end(), better);
}

namespace {

// Calls f with the place in the row of each token that the rules forbid after `seen`.
template <class F>
void each_forbidden(const LookBack& rules, const F& f) {
  const std::span<const int32_t> seen = rules.seen;
  const auto ends_with = [&](std::span<const int32_t> tokens) {
    return tokens.size() <= seen.size() &&
           std::equal(tokens.begin(), tokens.end(), seen.end() - std::ssize(tokens));
  };
  for (const std::vector<int32_t>& sequence : rules.options.forbidden_sequences) {
    if (ends_with(std::span(sequence).first(sequence.size() - 1))) f(sequence.back());
  }
  const auto size = static_cast<size_t>(rules.options.no_repeat_ngram);
  if (size == 0 || seen.size() < size) return;
  for (size_t at = 0; at + size <= seen.size(); ++at) {
    if (ends_with(seen.subspan(at, size - 1))) f(seen[at + size - 1]);
  }
}

}  // namespace

void apply_rules(const LookBack& rules, float norm, std::span<float> values) {
  // Null where the row does not have the token.
  const auto value_at = [&](int32_t token) -> float* {
    if (rules.tokens.empty()) return &values[static_cast<size_t>(token)];
    const auto found = std::lower_bound(rules.tokens.begin(), rules.tokens.end(), token);
    if (found == rules.tokens.end() || *found != token) return nullptr;
    return &values[static_cast<size_t>(found - rules.tokens.begin())];
  };
  const SearchOptions& options = rules.options;
  if (options.repetition_penalty != 1.0) {
    const auto penalty = static_cast<float>(options.repetition_penalty);
    const float back = options.beam > 1 ? 0.0f : norm;  // to the logit
    for (const int32_t token : rules.different) {
      float* const value = value_at(token);
      if (value == nullptr) continue;
      const float x = *value + back;
      *value = (x < 0.0f ? x * penalty : x / penalty) - back;
    }
  }
  each_forbidden(rules, [&](int32_t token) {
    if (float* const value = value_at(token)) *value = kNone;
  });
}

void renormalize(const AllowedTokens& allowed, std::span<float> values) {
  for (size_t token = 0; token < values.size(); ++token) {
    if (!allowed[token]) values[token] = kNone;
  }
  ops::log_probs_in_place(values);
}

void draw_set(std::span<const float> log_probs, const AllowedTokens& allowed,
              const SearchOptions& options, DrawSet& set) {
  set.weights.clear();
  set.total = 0.0;
  const auto vocab = static_cast<int64_t>(log_probs.size());
  const double t = options.temperature;
  if (options.top_k > 0 && options.top_k < vocab) {
    best_choices(log_probs, allowed, options.top_k, set.tokens);
  } else {
    set.tokens.clear();
    for (size_t token = 0; token < log_probs.size(); ++token) {
      if (allowed[token] && log_probs[token] > kNone) {
        set.tokens.push_back({static_cast<int32_t>(token), log_probs[token], log_probs[token]});
      }
    }
  }
  if (set.tokens.empty()) return;
  float largest = kNone;
  for (const Choice& choice : set.tokens) largest = std::max(largest, choice.log_prob);

  if (options.top_p < 1.0) {
    double sum = 0.0;
    for (const Choice& choice : set.tokens) sum += weight_of(choice.log_prob, largest, t);
    const auto kept = static_cast<int64_t>(set.tokens.size());
    // A few tokens are nearly always enough, so the vocabulary is not sorted.
    for (int64_t count = std::min(kNucleusGuess, kept);; count = std::min(8 * count, kept)) {
      best_choices(log_probs, allowed, count, set.tokens);
      if (cut_to_nucleus(set.tokens, largest, t, options.top_p * sum) || count == kept) break;
    }
  }
  for (const Choice& choice : set.tokens) {
    set.weights.push_back(weight_of(choice.log_prob, largest, t));
    set.total += set.weights.back();
  }
}

Choice draw(const DrawSet& set, uint64_t seed, const DrawPlace& place) {
  const uint64_t bits = random_bits(seed, place) >> 11;
  const double goal = static_cast<double>(bits) * 0x1p-53 * set.total;
  double sum = 0.0;
  size_t last = 0;
  for (size_t i = 0; i < set.tokens.size(); ++i) {
    if (set.weights[i] > 0.0) last = i;
    sum += set.weights[i];
    if (sum > goal) return set.tokens[i];
  }
  return set.tokens[last];  // only where goal was rounded up to the total
}

std::optional<Choice> draw_like_gpu(std::span<const float> log_probs, const AllowedTokens& allowed,
                                    const SearchOptions& options, const DrawPlace& place,
                                    std::vector<Choice>& ranked) {
  const auto vocab = static_cast<int64_t>(log_probs.size());
  best_choices(log_probs, allowed, options.top_k > 0 ? std::min(options.top_k, vocab) : vocab,
               ranked);
  if (ranked.empty()) return std::nullopt;
  const float largest = ranked.front().log_prob;
  const auto weight = [&](const Choice& choice) {
    return gpu_weight(choice.log_prob, largest, options.temperature);
  };
  uint64_t total = 0;
  for (const Choice& choice : ranked) total += weight(choice);
  if (options.top_p < 1.0) {
    const double goal = options.top_p * static_cast<double>(total);
    size_t kept = 0;
    for (total = 0; static_cast<double>(total) < goal;) total += weight(ranked[kept++]);
    ranked.resize(kept);
  }
  std::sort(ranked.begin(), ranked.end(),
            [](const Choice& a, const Choice& b) { return a.token < b.token; });
  const uint64_t goal = high_product(random_bits(options.seed, place), total);
  uint64_t sum = 0;
  for (const Choice& choice : ranked) {
    sum += weight(choice);
    if (sum > goal) return choice;
  }
  return std::nullopt;  // not reached: the goal is below the sum of all
}

}  // namespace tril
