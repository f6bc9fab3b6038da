// Tokens drawn on CUDA, against the rule of kernels/cuda/draw.h followed plainly on the host.
#include "tril/ops/draw.h"

#include <algorithm>
#include <cmath>

#include "support/property.h"
#include "support/testing.h"
#include "tril/base/rng.h"
#include "tril/ops/loss.h"

namespace tril::draw_test {
namespace {

using testing::floats_of;
using testing::tensor_of;

class DrawTokens : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::device() == Device::cpu) GTEST_SKIP() << "tokens are drawn on CUDA only";
  }
};

std::vector<int32_t> ids_of(const Tensor& tensor) {
  std::vector<int32_t> ids(static_cast<size_t>(tensor.size()));
  copy(Device::cpu, ids.data(), tensor.device(), tensor.raw(),
       tensor.size() * int64_t{sizeof(int32_t)});
  return ids;
}

ops::ChosenTokens choices_for(Context& context, int64_t rows, int64_t count) {
  return {Tensor(context.arena, {rows, count}, DType::i32), Tensor(context.arena, {rows, count}),
          Tensor(context.arena, {rows})};
}

struct Weighed {
  int32_t token;
  float log_prob;
  double weight;  // of 2^40; the GPU's may be off by one
};

// The tokens that top_k and top_p leave, ascending.
std::vector<Weighed> kept_of(std::span<const float> log_probs, const ops::TokenBits& allowed,
                             const ops::TokenDraw& draw) {
  std::vector<Weighed> all;
  float largest = -INFINITY;
  for (int32_t token = 0; token < static_cast<int32_t>(log_probs.size()); ++token) {
    const float value = log_probs[static_cast<size_t>(token)];
    if (!allowed[token] || !(value > -INFINITY)) continue;
    largest = std::max(largest, value);
    all.push_back({token, value, 0.0});
  }
  for (Weighed& each : all) {
    each.weight = std::floor(
        std::ldexp(std::exp((double{each.log_prob} - double{largest}) / draw.temperature), 40));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Weighed& a, const Weighed& b) { return a.log_prob > b.log_prob; });
  if (draw.top_k > 0 && static_cast<size_t>(draw.top_k) < all.size()) {
    all.resize(static_cast<size_t>(draw.top_k));
  }
  if (draw.top_p < 1.0) {
    double total = 0.0, sum = 0.0;
    for (const Weighed& each : all) total += each.weight;
    size_t count = 0;
    while (count < all.size() && sum < draw.top_p * total) sum += all[count++].weight;
    all.resize(count);
  }
  std::sort(all.begin(), all.end(),
            [](const Weighed& a, const Weighed& b) { return a.token < b.token; });
  return all;
}

// The token at which the sum of weights exceeds the goal, or a neighbour where rounding decides.
bool may_be_drawn(const std::vector<Weighed>& kept, const ops::TokenDraw& draw, int32_t token) {
  const Words4 words =
      philox(draw.seed, {static_cast<uint32_t>(draw.stream),
                         static_cast<uint32_t>(draw.stream >> 32), draw.sample, draw.position});
  double total = 0.0;
  for (const Weighed& each : kept) total += each.weight;
  const double goal =
      std::ldexp(static_cast<double>(uint64_t{words[0]} << 32 | words[1]), -64) * total;
  const auto slack = static_cast<double>(kept.size()) + 2.0 + 1e-9 * total;
  double sum = 0.0;
  for (const Weighed& each : kept) {
    if (each.token == token) return goal >= sum - slack && goal <= sum + each.weight + slack;
    sum += each.weight;
  }
  return false;
}

void draw_and_compare() {
  static Context context(2, testing::placement());
  context.reset();
  const int64_t rows = *rc::gen::inRange<int64_t>(1, 6);
  const int64_t vocab = *rc::gen::element<int64_t>(1, 2, 31, 33, 700, 4097, 33000);
  Random random(*rc::gen::arbitrary<uint64_t>());
  std::vector<float> logits = testing::random_floats(random, rows * vocab);
  const float spread = *rc::gen::element(0.0f, 1.0f, 6.0f);
  for (float& logit : logits) logit *= spread;
  std::vector<int32_t> forbidden;
  for (int32_t t = 1; t < static_cast<int32_t>(vocab); t += 3) forbidden.push_back(t);
  if (*rc::gen::arbitrary<bool>()) forbidden.clear();
  const ops::TokenBits bits(vocab, forbidden);
  const ops::AllowedByRow allowed{{&bits}, {}};
  std::vector<ops::TokenDraw> draws;
  for (int64_t row = 0; row < rows; ++row) {
    if (*rc::gen::inRange(0, 5) == 0) continue;
    draws.push_back({.row = static_cast<int32_t>(row),
                     .top_k = *rc::gen::element(0, 1, 2, 40, 100000),
                     .temperature = *rc::gen::element(0.3, 1.0, 4.0),
                     .top_p = *rc::gen::element(1.0, 0.9, 0.3, 0.01),
                     .seed = *rc::gen::arbitrary<uint64_t>(),
                     .stream = *rc::gen::arbitrary<uint64_t>(),
                     .sample = 3,
                     .position = *rc::gen::inRange<uint32_t>(0, 50)});
  }
  draws.push_back({});
  const auto log_probs =
      floats_of(ops::log_probs(context, tensor_of(context.arena, {rows, vocab}, logits)));
  const ops::ChosenTokens chosen = choices_for(context, rows, 2);
  ops::draw_tokens(context, tensor_of(context.arena, {rows, vocab}, logits), allowed, draws,
                   chosen);
  const auto tokens = ids_of(chosen.tokens);
  const auto found = floats_of(chosen.log_probs);
  for (const ops::TokenDraw& draw : draws) {
    if (draw.row < 0) continue;
    const auto at = static_cast<size_t>(draw.row) * 2;
    const auto own = std::span(log_probs).subspan(static_cast<size_t>(draw.row * vocab),
                                                  static_cast<size_t>(vocab));
    RC_ASSERT(tokens[at] >= 0);
    RC_ASSERT(found[at] == own[static_cast<size_t>(tokens[at])]);
    RC_ASSERT(tokens[at + 1] == -1);
    RC_ASSERT(may_be_drawn(kept_of(own, bits, draw), draw, tokens[at]));
  }
}

TEST_F(DrawTokens, FollowTheRule) { EXPECT_TRUE(rc::check(draw_and_compare)); }

// The same in any batch, and none if no token may be drawn.
TEST_F(DrawTokens, ARowDependsOnItselfAlone) {
  Context context(1, testing::placement());
  Random random(3);
  const int64_t rows = 40, vocab = 5000;
  std::vector<float> logits = testing::random_floats(random, rows * vocab);
  std::fill_n(logits.begin() + 7 * vocab, vocab, NAN);
  const ops::TokenBits bits(vocab, {});
  const ops::AllowedByRow allowed{{&bits}, {}};
  std::vector<ops::TokenDraw> draws;
  for (int32_t row = 0; row < rows; ++row) {
    draws.push_back({.row = row,
                     .top_k = row % 3 * 50,
                     .temperature = 1.5,
                     .top_p = row % 2 == 0 ? 1.0 : 0.8,
                     .seed = 5,
                     .stream = 9,
                     .sample = 0,
                     .position = static_cast<uint32_t>(row)});
  }
  const Tensor all = tensor_of(context.arena, {rows, vocab}, logits);
  const ops::ChosenTokens chosen = choices_for(context, rows, 1);
  ops::draw_tokens(context, all, allowed, draws, chosen);
  const auto together = ids_of(chosen.tokens);
  EXPECT_EQ(together[7], -1);
  for (int64_t row = 0; row < rows; ++row) {
    ops::TokenDraw draw = draws[static_cast<size_t>(row)];
    draw.row = 0;
    const ops::ChosenTokens alone = choices_for(context, 1, 1);
    ops::draw_tokens(context, all.slice(row, row + 1), allowed, {&draw, 1}, alone);
    EXPECT_EQ(ids_of(alone.tokens)[0], together[static_cast<size_t>(row)]) << row;
  }
}

// Frequencies: by Hoeffding's inequality 20,000 draws are off by more than 0.025 with probability
// 2.8e-11 each.
TEST_F(DrawTokens, FollowTheProbabilities) {
  Context context(1, testing::placement());
  const std::vector<float> logits = {0.0f, 1.0f, -1.0f, 2.0f, 0.5f};
  const int64_t rows = 20'000, vocab = 5;
  std::vector<float> all;
  std::vector<ops::TokenDraw> draws;
  for (int32_t row = 0; row < rows; ++row) {
    all.insert(all.end(), logits.begin(), logits.end());
    draws.push_back({.row = row, .seed = 1, .sample = static_cast<uint32_t>(row)});
  }
  const ops::TokenBits bits(vocab, {});
  const ops::ChosenTokens chosen = choices_for(context, rows, 1);
  ops::draw_tokens(context, tensor_of(context.arena, {rows, vocab}, all),
                   ops::AllowedByRow{{&bits}, {}}, draws, chosen);
  double total = 0.0;
  for (const float logit : logits) total += std::exp(double{logit});
  const auto tokens = ids_of(chosen.tokens);
  for (int32_t token = 0; token < vocab; ++token) {
    const auto seen = std::count(tokens.begin(), tokens.end(), token);
    EXPECT_NEAR(static_cast<double>(seen) / static_cast<double>(rows),
                std::exp(double{logits[static_cast<size_t>(token)]}) / total, 0.025);
  }
}

}  // namespace
}  // namespace tril::draw_test
