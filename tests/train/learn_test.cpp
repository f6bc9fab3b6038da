#include "tril/train/learn.h"

#include <cmath>
#include <set>

#include "support/models.h"
#include "support/testing.h"
#include "tril/models/session_state.h"

namespace tril::learn_test {
namespace {

using testing::Family;
using testing::raised_by;

constexpr int32_t kStart = 0;

std::vector<LearnPair> some_pairs() {
  return {{{3, 4}, {5, 6, 1}}, {{4, 3}, {6, 5, 1}}, {{3, 3}, {5, 5, 1}}, {{4, 4}, {6, 6, 1}}};
}

// A few updates of a tiny model; returns its weights and the losses on the way.
struct Learnt {
  std::vector<float> weights;
  std::vector<double> losses;
};
Learnt learn_some(LearnOptions options, int threads) {
  TransformerConfig config = testing::tiny_config(Family::encoder_decoder);
  config.dropout = 0.1;
  Transformer model(config, 3, testing::placement());
  Session session(model, threads);
  const std::vector<LearnPair> pairs = some_pairs();
  PairBatches batches(pairs, kStart, 6, 7);
  Learnt learnt;
  options.progress = [&](int64_t update, double loss) {
    EXPECT_EQ(update, static_cast<int64_t>(learnt.losses.size()) + 1);
    learnt.losses.push_back(loss);
  };
  const double last = learn(
      model, [&](Batch& batch) { batches.next(batch); }, options, session);
  EXPECT_EQ(last, learnt.losses.back());
  EXPECT_EQ(session->masking, Masking::causal);
  EXPECT_FALSE(session->dropout.has_value());
  for (const auto& parameter : model.parameters()) {
    const auto values = testing::floats_of(parameter.tensor);
    learnt.weights.insert(learnt.weights.end(), values.begin(), values.end());
  }
  return learnt;
}

TEST(Learn, LowersTheLossWithTheSameBitsOnAnyNumberOfThreads) {
  const LearnOptions options{.updates = 200, .schedule = {.peak = 1e-2, .warm_up = 5}};
  const Learnt one = learn_some(options, 1);
  const Learnt two = learn_some(options, 2);
  EXPECT_TRUE(testing::same_bits(one.weights, two.weights));
  EXPECT_EQ(one.losses, two.losses);
  EXPECT_LT(one.losses.back(), 0.5 * one.losses.front());
}

// Everything that should affect training does.
TEST(Learn, EveryOptionMatters) {
  const LearnOptions options{.updates = 8, .schedule = {.peak = 1e-2, .warm_up = 2}};
  const Learnt plain = learn_some(options, 1);
  const auto differs = [&](const LearnOptions& other) {
    return !testing::equal_bits(learn_some(other, 1).weights, plain.weights);
  };
  LearnOptions other = options;
  EXPECT_FALSE(differs(other));
  other.masking = Masking::none;
  EXPECT_TRUE(differs(other));
  other = options;
  other.seed = 2;
  EXPECT_TRUE(differs(other));
  other = options;
  other.smoothing = 0.1;
  EXPECT_TRUE(differs(other));
  other = options;
  other.average = {.type = AverageType::exponential, .decay = 0.9};
  EXPECT_TRUE(differs(other));
  other = options;
  other.schedule.peak = 2e-2;
  EXPECT_TRUE(differs(other));
}

// The norm is that of the whole gradient before clipping: computed again from the first batch.
TEST(Learn, TellsTheNormOfEachGradient) {
  TransformerConfig config = testing::tiny_config(Family::encoder_decoder);
  config.dropout = 0.0;
  Transformer model(config, 3, testing::placement());
  Session session(model, 1);
  Batch batch;
  for (const LearnPair& pair : some_pairs()) add_to_batch(batch, pair, kStart, 0);
  double squares = 0.0;
  {
    Tape tape(session);
    const Memory memory = model.encode(batch.source, session);
    const float factor = 1.0f / static_cast<float>(batch.target_tokens);
    const Tensor loss = model.loss(model.forward(batch.target, memory, session), batch.labels,
                                   {.factor = factor}, session);
    const Gradients gradients = tape.backward(loss);
    for (const auto& parameter : model.parameters()) {
      const Tensor gradient = gradients.of(parameter.tensor);
      if (!gradient.defined()) continue;
      for (const float g : testing::floats_of(gradient)) {
        const auto value = static_cast<double>(g);
        squares += value * value;
      }
    }
  }
  std::vector<double> norms;
  LearnOptions options{.updates = 5, .optimizer = {.clip_norm = 0.01}};
  options.gradient_norm = [&](int64_t update, double norm) {
    norms.push_back(norm);
    EXPECT_EQ(update, static_cast<int64_t>(norms.size()));
  };
  const Batch same = batch;
  learn(
      model, [&](Batch& next) { next = same; }, options, session);
  ASSERT_EQ(norms.size(), 5u);
  EXPECT_GT(norms[0], 0.01);
  EXPECT_NEAR(norms[0], std::sqrt(squares), 1e-4 * norms[0]);
  EXPECT_NE(norms[0], norms[4]);
}

TEST(Learn, RejectsWhatMakesNoSense) {
  EXPECT_EQ(raised_by([] { learn_some({.updates = 0}, 1); }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(raised_by([] { learn_some({.updates = 1, .smoothing = 1.0}, 1); }).text,
            "learn: a smoothing of 1 is not in [0, 1)");
  EXPECT_THROW(learn_some({.updates = 1, .optimizer = {.beta1 = 2.0f}}, 1), Error);
  EXPECT_EQ(raised_by([] { PairBatches({}, kStart, 6, 1); }).text,
            "learn: there are no pairs to learn from");
  const std::vector<LearnPair> empty = {{{1}, {}}};
  EXPECT_EQ(raised_by([&] { PairBatches(empty, kStart, 6, 1); }).text,
            "learn: pair 0 has no target");
}

TEST(Learn, APairGoesInShiftedBehindStart) {
  Batch batch;
  add_to_batch(batch, {.source = {7, 8}, .target = {4, 5, 1}}, kStart, 9);
  add_to_batch(batch, {.source = {8}, .target = {6, 1}}, kStart, 10);
  EXPECT_EQ(batch.source.tokens, (std::vector<int32_t>{7, 8, 8}));
  EXPECT_EQ(batch.target.tokens, (std::vector<int32_t>{kStart, 4, 5, kStart, 6}));
  EXPECT_EQ(batch.labels, (std::vector<int32_t>{4, 5, 1, 6, 1}));
  EXPECT_EQ(batch.target.segments, (std::vector<int32_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(batch.target.sentences, (std::vector<int32_t>{9, 9, 9, 10, 10}));
  EXPECT_EQ(batch.sentences, 2);
  EXPECT_EQ(batch.source_tokens, 3);
  EXPECT_EQ(batch.target_tokens, 5);
}

TEST(Learn, EachRoundHasEveryPairOnceInAnOrderOfItsOwn) {
  std::vector<LearnPair> pairs;
  for (int32_t i = 0; i < 40; ++i) pairs.push_back({{}, {i, 99}});
  PairBatches batches(pairs, kStart, 5, 1);  // two pairs of two tokens fit
  std::vector<std::vector<int32_t>> rounds(2);
  Batch batch;
  for (std::vector<int32_t>& round : rounds) {
    for (int i = 0; i < 20; ++i) {
      batches.next(batch);
      ASSERT_EQ(batch.sentences, 2);
      EXPECT_EQ(batch.source.size(), 0);
      round.push_back(batch.labels[0]);
      round.push_back(batch.labels[2]);
    }
    EXPECT_EQ(std::set<int32_t>(round.begin(), round.end()).size(), pairs.size());
  }
  EXPECT_NE(rounds[0], rounds[1]);
  PairBatches small(pairs, kStart, 1, 1);  // smaller than any pair: one at a time
  small.next(batch);
  EXPECT_EQ(batch.sentences, 1);
}

}  // namespace
}  // namespace tril::learn_test
