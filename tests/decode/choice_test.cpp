// Choosing tokens, against sorting the whole vocabulary.
#include "tril/decode/choice.h"

#include <algorithm>
#include <cmath>

#include "support/models.h"
#include "tril/base/math.h"

namespace tril::choice_test {
namespace {

using testing::Tokens;

struct Row {
  std::vector<float> log_probs;
  Tokens forbidden;
};

// Few different values, so that there are ties; now and then -infinity and NaN.
Row random_row() {
  Row row;
  const auto vocab = static_cast<size_t>(*rc::gen::inRange(1, 400));
  row.log_probs = *rc::gen::container<std::vector<float>>(
      vocab, rc::gen::map(rc::gen::inRange(0, 40), [](int x) {
        if (x == 0) return -INFINITY;
        if (x == 1) return NAN;
        return -0.25f * static_cast<float>(x);
      }));
  row.forbidden =
      *rc::gen::container<Tokens>(rc::gen::inRange<int32_t>(0, static_cast<int32_t>(vocab)));
  return row;
}

std::vector<Choice> sorted_choices(const Row& row) {
  std::vector<Choice> all;
  for (int32_t token = 0; token < static_cast<int32_t>(row.log_probs.size()); ++token) {
    const float log_prob = row.log_probs[static_cast<size_t>(token)];
    if (!(log_prob > -INFINITY)) continue;
    if (std::count(row.forbidden.begin(), row.forbidden.end(), token) > 0) continue;
    all.push_back({token, log_prob});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Choice& a, const Choice& b) { return a.log_prob > b.log_prob; });
  return all;
}

bool same_tokens(const std::vector<Choice>& a, const std::vector<Choice>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Choice& x, const Choice& y) {
    return x.token == y.token && x.log_prob == y.log_prob;
  });
}

RC_GTEST_PROP(Choice, TheBestAreTheFirstOfAll, ()) {
  const Row row = random_row();
  const AllowedTokens allowed(static_cast<int64_t>(row.log_probs.size()), row.forbidden);
  const int64_t count = *rc::gen::inRange<int64_t>(1, 20);
  std::vector<Choice> best;
  best_choices(row.log_probs, allowed, count, best);
  auto expected = sorted_choices(row);
  if (expected.size() > static_cast<size_t>(count)) expected.resize(static_cast<size_t>(count));
  RC_ASSERT(same_tokens(best, expected));
}

// The set as the header states it, with everything sorted.
RC_GTEST_PROP(Choice, TheDrawSetIsAsDefined, ()) {
  const Row row = random_row();
  const AllowedTokens allowed(static_cast<int64_t>(row.log_probs.size()), row.forbidden);
  SearchOptions options;
  options.temperature = *rc::gen::element(0.05, 0.7, 1.0, 3.0, 1000.0);
  options.top_k = *rc::gen::element<int64_t>(0, 0, 1, 2, 7, 50, 1000);
  options.top_p = *rc::gen::element(1.0, 0.999, 0.9, 0.5, 0.01);
  DrawSet set;
  draw_set(row.log_probs, allowed, options, set);

  auto expected = sorted_choices(row);
  RC_PRE(!expected.empty());
  const bool cut = options.top_k > 0 && options.top_k < static_cast<int64_t>(expected.size());
  if (cut) expected.resize(static_cast<size_t>(options.top_k));
  const auto weight = [&](const Choice& choice) {
    return math::exp((double{choice.log_prob} - double{expected[0].log_prob}) /
                     options.temperature);
  };
  double total = 0.0;
  for (const Choice& choice : expected) total += weight(choice);
  double sum = 0.0;
  size_t kept = 0;
  // Sums in another order may differ in their last bits: what lies that near to the border is left
  // out of the comparison.
  while (kept < expected.size() && (options.top_p == 1.0 || sum < options.top_p * total)) {
    sum += weight(expected[kept++]);
    RC_PRE(options.top_p == 1.0 || std::abs(sum - options.top_p * total) > 1e-10 * total);
  }
  expected.resize(kept);
  auto found = set.tokens;
  const auto by_token = [](const Choice& a, const Choice& b) { return a.token < b.token; };
  std::sort(found.begin(), found.end(), by_token);
  auto same_set = expected;
  std::sort(same_set.begin(), same_set.end(), by_token);
  RC_ASSERT(same_tokens(found, same_set));
  RC_ASSERT(set.weights.size() == set.tokens.size());
  for (size_t i = 0; i < set.tokens.size(); ++i) {
    RC_ASSERT(set.weights[i] == weight(set.tokens[i]));
  }
}

// 100,000 draws at different positions. By Hoeffding's inequality a frequency is off by more than
// 0.011 with probability at most 2 exp(-2 * 100,000 * 0.011^2) = 6.1e-11.
TEST(Choice, DrawsFollowTheWeights) {
  DrawSet set;
  set.tokens = {{7, -1.0f}, {2, -1.0f}, {9, -1.0f}, {4, -1.0f}};
  set.weights = {0.5, 0.0, 2.0, 1.5};
  set.total = 4.0;
  std::vector<int> seen(10, 0);
  for (int64_t i = 0; i < 100'000; ++i) {
    ++seen[static_cast<size_t>(
        draw(set, 5, {.stream = i % 10, .sample = i / 10 % 10, .position = i / 100}).token)];
  }
  EXPECT_EQ(seen[2], 0);
  EXPECT_NEAR(seen[7] / 1e5, 0.125, 0.011);
  EXPECT_NEAR(seen[9] / 1e5, 0.5, 0.011);
  EXPECT_NEAR(seen[4] / 1e5, 0.375, 0.011);
}

TEST(Choice, EveryNumberOfADrawsPlaceCounts) {
  DrawSet set;
  for (int32_t token = 0; token < 1000; ++token) {
    set.tokens.push_back({token, 0.0f});
    set.weights.push_back(1.0);
  }
  set.total = 1000.0;
  const auto token = [&](uint64_t seed, DrawPlace place) { return draw(set, seed, place).token; };
  const int32_t first = token(1, {.stream = 1, .sample = 1, .position = 1});
  EXPECT_EQ(token(1, {.stream = 1, .sample = 1, .position = 1}), first);
  EXPECT_NE(token(2, {.stream = 1, .sample = 1, .position = 1}), first);
  EXPECT_NE(token(1, {.stream = 2, .sample = 1, .position = 1}), first);
  EXPECT_NE(token(1, {.stream = (int64_t{1} << 32) + 1, .sample = 1, .position = 1}), first);
  EXPECT_NE(token(1, {.stream = 1, .sample = 2, .position = 1}), first);
  EXPECT_NE(token(1, {.stream = 1, .sample = 1, .position = 2}), first);
}

// As a GPU draws: only what top_k and top_p leave, and in proportion to the probabilities. By
// Hoeffding's inequality 20,000 draws are off by more than 0.025 with probability 2.8e-11 each.
TEST(Choice, DrawsLikeAGpu) {
  const std::vector<float> log_probs = {-2.5f, -1.5f, -INFINITY, -0.75f, -3.0f, NAN, -1.5f};
  const AllowedTokens allowed(7, Tokens{4});
  std::vector<Choice> ranked;
  const auto frequencies = [&](int64_t top_k, double top_p) {
    SearchOptions options;
    options.top_k = top_k;
    options.top_p = top_p;
    std::vector<double> seen(log_probs.size(), 0.0);
    for (int64_t sample = 0; sample < 20'000; ++sample) {
      const auto drawn =
          draw_like_gpu(log_probs, allowed, options, {.stream = 3, .sample = sample}, ranked);
      seen[static_cast<size_t>(drawn->token)] += 1.0 / 20'000;
    }
    return seen;
  };
  const auto expect_near = [&](const std::vector<double>& seen, const Tokens& kept) {
    double total = 0.0;
    for (const int32_t token : kept)
      total += std::exp(double{log_probs[static_cast<size_t>(token)]});
    for (int32_t token = 0; token < 7; ++token) {
      const bool is_kept = std::count(kept.begin(), kept.end(), token) > 0;
      const auto at = static_cast<size_t>(token);
      EXPECT_NEAR(seen[at], is_kept ? std::exp(double{log_probs[at]}) / total : 0.0,
                  is_kept ? 0.025 : 0.0);
    }
  };
  expect_near(frequencies(0, 1.0), {0, 1, 3, 6});
  expect_near(frequencies(2, 1.0), {1, 3});  // the lower one of two equal ones
  expect_near(frequencies(0, 0.6), {1, 3});
  expect_near(frequencies(1, 0.01), {3});
  EXPECT_FALSE(draw_like_gpu({&log_probs[4], 2}, AllowedTokens(2, Tokens{0}), {}, {}, ranked));
}

}  // namespace
}  // namespace tril::choice_test
