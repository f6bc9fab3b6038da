#include "tril/train/updater.h"

#include <algorithm>
#include <cmath>

#include "support/models.h"
#include "tril/models/session_state.h"
#include "tril/train/learn.h"

namespace tril::updater_test {
namespace {

using testing::Family;
using testing::floats_of;
using testing::raised_by;

constexpr int kUpdates = 8;  // enough for a GPU to keep every step as a graph

TransformerConfig config() {
  TransformerConfig config = testing::tiny_config(Family::encoder_decoder);
  config.dropout = 0.2;
  return config;
}

// Clipping, decay, smoothing and the average all take part.
UpdaterOptions options() {
  return {.optimizer = {.decay = 0.01f, .clip_norm = 0.5},
          .average = {.type = AverageType::exponential, .decay = 0.9},
          .schedule = {.type = ScheduleType::cosine, .peak = 1e-2, .warm_up = 3, .updates = 20},
          .smoothing = 0.1,
          .seed = 7};
}

// Micro-batches of the same sizes in every update, with other tokens in each.
std::vector<Batch> micro_batches(int64_t count, int64_t update) {
  std::vector<Batch> batches(static_cast<size_t>(count));
  int32_t number = 0;
  for (Batch& batch : batches) {
    for (int32_t length = 2; length < 5; ++length) {
      LearnPair pair;
      for (int32_t i = 0; i < length; ++i) {
        const auto token = static_cast<int32_t>((update * 3 + number * 5 + i * i) % 11);
        pair.source.push_back(token);
        pair.target.push_back((token + 1) % 11);
      }
      add_to_batch(batch, pair, 0, number++);
    }
    // More tokens in the last one: a mean of means would be another number.
    if (&batch == &batches.back()) add_to_batch(batch, {{1}, {2}}, 0, number++);
  }
  return batches;
}

// Everything an update changes, as plain numbers.
std::vector<float> all_numbers(const Transformer& model, const AdamWOptimizer& optimizer,
                               const WeightAverage& average) {
  std::vector<float> all;
  const auto append = [&](const ConstTensor& tensor) {
    const auto values = to_floats(tensor);
    all.insert(all.end(), values.begin(), values.end());
  };
  for (const auto& parameter : model.parameters()) append(parameter.tensor);
  for (const auto& moment : optimizer.moments()) append(moment.tensor);
  for (const auto& copy : average.tensors()) append(copy.tensor);
  return all;
}

// A model with what trains it.
struct Trained {
  explicit Trained(const UpdaterOptions& with = options()) : updater(model, with, session) {}

  std::vector<float> numbers() const {
    return all_numbers(model, updater.optimizer(), updater.average());
  }
  std::vector<UpdateOutcome> take_outcomes() {
    std::vector<UpdateOutcome> outcomes;
    while (const auto outcome = updater.next_outcome()) outcomes.push_back(*outcome);
    return outcomes;
  }

  Transformer model{config(), 1, testing::placement()};
  Session session{model, 2};
  Updater updater;
};

// The same updates written out, without steps of the queue: gradients of the micro-batches in
// order, then AdamW, then the average.
struct ByHand {
  std::vector<float> numbers;
  std::vector<double> norms;
  std::vector<double> loss_sums;
};
ByHand by_hand(int64_t count, int64_t updates = kUpdates) {
  const UpdaterOptions with = options();
  Transformer model(config(), 1, testing::placement());
  Session session(model, 1);
  model.prepare_training(session);
  AdamWOptimizer optimizer(model, with.optimizer);
  WeightAverage average(model, with.average);
  ByHand result;
  for (int64_t update = 1; update <= updates; ++update) {
    const auto batches = micro_batches(count, update);
    int64_t tokens = 0;
    for (const Batch& batch : batches) tokens += batch.target_tokens;
    const auto rate = static_cast<float>(learning_rate(with.schedule, update));
    double loss_sum = 0.0;
    for (int64_t i = 0; i < count; ++i) {
      const Batch& batch = batches[static_cast<size_t>(i)];
      session.reset();
      session->dropout = DropoutStep{.seed = with.seed, .step = static_cast<uint32_t>(update)};
      Tape tape(session);
      const Memory memory = model.encode(batch.source, session);
      const Tensor hidden = model.forward(batch.target, memory, session);
      const Tensor loss =
          model.loss(hidden, batch.labels,
                     {.smoothing = 0.1f, .factor = 1.0f / static_cast<float>(tokens)}, session);
      const Gradients gradients = tape.backward(loss);
      loss_sum += static_cast<double>(floats_of(loss)[0]) * static_cast<double>(tokens);
      if (count == 1) {
        optimizer.step(gradients, rate, session);
      } else {
        optimizer.add(gradients, {.index = i, .count = count}, session);
      }
    }
    if (count > 1) optimizer.step(rate, session);
    average.updated(update, session);
    result.norms.push_back(optimizer.last(session).norm);
    result.loss_sums.push_back(loss_sum);
  }
  result.numbers = all_numbers(model, optimizer, average);
  return result;
}

TEST(Updater, AnUpdateIsTheLoopWrittenOutForAnyNumberOfMicroBatches) {
  for (const int64_t count : {1, 2, 3, 5}) {
    const ByHand expected = by_hand(count);
    Trained trained;
    for (int64_t update = 1; update <= kUpdates; ++update) {
      EXPECT_TRUE(trained.updater.update(update, micro_batches(count, update)));
    }
    const auto outcomes = trained.take_outcomes();
    EXPECT_TRUE(testing::same_bits(trained.numbers(), expected.numbers)) << count;
    ASSERT_EQ(outcomes.size(), expected.norms.size());
    for (size_t i = 0; i < outcomes.size(); ++i) {
      EXPECT_EQ(outcomes[i].update, static_cast<int64_t>(i) + 1);
      EXPECT_EQ(outcomes[i].gradient_norm, expected.norms[i]) << count << ", update " << i + 1;
      EXPECT_EQ(outcomes[i].loss_sum, expected.loss_sums[i]) << count << ", update " << i + 1;
    }
    EXPECT_GT(expected.norms[0], options().optimizer.clip_norm) << "or nothing was clipped";
    // On a GPU the micro-batches are graphs, and what changes the weights is one of its own.
    if (testing::device() != Device::cpu) {
      EXPECT_GE(trained.session->queue.graphs(), 2) << count;
    }
  }
}

// Every loss is kept until the outcome is read.
TEST(Updater, AnUpdateMayHaveThousandsOfMicroBatches) {
  constexpr int64_t kCount = 1100;
  constexpr int64_t kFew = 2;
  const ByHand expected = by_hand(kCount, kFew);
  Trained trained;
  for (int64_t update = 1; update <= kFew; ++update) {
    EXPECT_TRUE(trained.updater.update(update, micro_batches(kCount, update)));
  }
  const auto outcomes = trained.take_outcomes();
  ASSERT_EQ(std::ssize(outcomes), kFew);
  for (size_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_EQ(outcomes[i].loss_sum, expected.loss_sums[i]) << "update " << i + 1;
  }
}

// Where an update of a few micro-batches was given up, the next one begins with nothing of it.
TEST(Updater, AnUpdateThatWasCancelledLeavesNothingBehind) {
  constexpr int64_t kCount = 3;
  Trained plain;
  EXPECT_TRUE(plain.updater.update(1, micro_batches(kCount, 1)));
  for (int allowed = 0; allowed < kCount; ++allowed) {
    Trained trained;
    const auto before = trained.numbers();
    int asked = 0;
    EXPECT_FALSE(
        trained.updater.update(1, micro_batches(kCount, 9), [&] { return asked++ == allowed; }));
    EXPECT_EQ(asked, allowed + 1);
    EXPECT_TRUE(testing::same_bits(trained.numbers(), before)) << allowed;
    EXPECT_TRUE(trained.take_outcomes().empty());
    EXPECT_TRUE(trained.updater.update(1, micro_batches(kCount, 1)));
    EXPECT_TRUE(testing::same_bits(trained.numbers(), plain.numbers())) << allowed;
  }
  // One micro-batch cannot be cancelled within.
  Trained trained;
  EXPECT_TRUE(trained.updater.update(1, micro_batches(1, 1), [] { return true; }));
}

// The host may be two updates ahead of a GPU, and never of itself.
TEST(Updater, OutcomesComeInOrderOnceTheyAreDue) {
  Trained trained;
  const int64_t ahead = testing::device() == Device::cpu ? 0 : 2;
  int64_t taken = 0;
  for (int64_t update = 1; update <= kUpdates; ++update) {
    trained.updater.update(update, micro_batches(1, update));
    while (const auto outcome = trained.updater.due_outcome()) {
      EXPECT_EQ(outcome->update, ++taken);
      EXPECT_TRUE(std::isfinite(outcome->loss()));
    }
    EXPECT_EQ(taken, std::max<int64_t>(0, update - ahead));
  }
  for (const UpdateOutcome& outcome : trained.take_outcomes()) EXPECT_EQ(outcome.update, ++taken);
  EXPECT_EQ(taken, kUpdates);
  EXPECT_FALSE(trained.updater.due_outcome().has_value());
}

// The loss per token of one micro-batch is the number that the model computed, not one near it.
TEST(Updater, TheLossOfOneMicroBatchIsExact) {
  for (const float loss : {1.0f / 3.0f, 7.123456f, 1e-30f, std::nextafter(2.0f, 3.0f)}) {
    for (const int64_t tokens : {1, 3, 4095, (1 << 24) - 1}) {
      const UpdateOutcome outcome{
          .target_tokens = tokens,
          .loss_sum = static_cast<double>(loss) * static_cast<double>(tokens)};
      EXPECT_EQ(outcome.loss(), static_cast<double>(loss)) << tokens;
    }
  }
}

TEST(Updater, NeedsAMicroBatch) {
  Trained trained;
  EXPECT_EQ(raised_by([&] { trained.updater.update(1, {}); }).code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace tril::updater_test
