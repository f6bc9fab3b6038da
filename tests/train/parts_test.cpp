// The parts of a run: schedule, averages, gathered gradients, moments, log.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "support/models.h"
#include "support/temp_folder.h"
#include "support/testing.h"
#include "tril/io/atomic_file.h"
#include "tril/kernels/adamw.h"
#include "tril/train/average.h"
#include "tril/train/log.h"
#include "tril/train/schedule.h"

namespace tril::parts_test {
namespace {

using testing::Family;
using testing::floats_of;
using testing::raised_by;
using testing::same_bits;
using testing::TempFolder;

TEST(Schedule, RisesToItsPeakAndFallsAsAsked) {
  ScheduleOptions o{
      .type = ScheduleType::inverse_sqrt, .peak = 0.5, .warm_up = 100, .updates = 900};
  EXPECT_EQ(learning_rate(o, 1), 0.005);
  EXPECT_EQ(learning_rate(o, 50), 0.25);
  EXPECT_EQ(learning_rate(o, 100), 0.5);
  EXPECT_EQ(learning_rate(o, 400), 0.25);
  EXPECT_EQ(learning_rate(o, 10000), 0.05);
  o.type = ScheduleType::cosine;
  EXPECT_EQ(learning_rate(o, 50), 0.25);
  EXPECT_EQ(learning_rate(o, 100), 0.5);
  EXPECT_NEAR(learning_rate(o, 500), 0.25, 1e-15);
  EXPECT_NEAR(learning_rate(o, 900), 0.0, 1e-15);
  EXPECT_NEAR(learning_rate(o, 2000), 0.0, 1e-15) << "past the end nothing more is learnt";
  o.type = ScheduleType::constant;
  EXPECT_EQ(learning_rate(o, 1), 0.005);
  EXPECT_EQ(learning_rate(o, 5000), 0.5);
  o.warm_up = 0;
  EXPECT_EQ(learning_rate(o, 1), 0.5);
}

// A model whose weights are all one number.
class AverageTest : public ::testing::Test {
 protected:
  AverageTest()
      : model_(testing::tiny_config(Family::encoder_decoder), 1, testing::placement()),
        result_(model_.config(), 2, testing::placement()) {}
  void set(float value) {
    testing::change_weights(model_,
                            [&](const std::string&, std::vector<float>& values, const Shape&) {
                              std::fill(values.begin(), values.end(), value);
                            });
  }
  std::vector<float> averaged(const WeightAverage& average) {
    average.write_to(result_, context_);
    std::vector<float> values;
    for (const auto& parameter : result_.parameters()) {
      const auto part = floats_of(parameter.tensor);
      values.insert(values.end(), part.begin(), part.end());
    }
    EXPECT_EQ(static_cast<int64_t>(values.size()), model_.parameter_count());
    return values;
  }
  void expect_all(const WeightAverage& average, float value) {
    for (const float got : averaged(average)) ASSERT_EQ(got, value);
  }
  Context context_{1, testing::placement()};
  Transformer model_;
  Transformer result_;
};

TEST_F(AverageTest, NoneIsTheWeights) {
  const WeightAverage average(model_, {.type = AverageType::none});
  set(3.0f);
  expect_all(average, 3.0f);
  EXPECT_TRUE(average.tensors().empty());
}

TEST_F(AverageTest, ExponentialFollowsItsFormula) {
  set(1.0f);
  WeightAverage average(model_, {.type = AverageType::exponential, .decay = 0.5});
  float expected = 1.0f;
  for (int update = 1; update <= 12; ++update) {
    set(static_cast<float>(update * update));
    average.updated(update, context_);
    const double n = update;
    const auto share = static_cast<float>(1.0 - std::min(0.5, (1.0 + n) / (10.0 + n)));
    expected += share * (static_cast<float>(update * update) - expected);
  }
  expect_all(average, expected);
}

TEST_F(AverageTest, CheckpointsAreTheMeanOfTheLastFew) {
  WeightAverage average(model_, {.type = AverageType::checkpoints, .checkpoints = 3});
  set(7.0f);
  expect_all(average, 7.0f);  // none yet: the weights
  for (const float value : {100.0f, 1.0f, 2.0f, 6.0f}) {
    set(value);
    average.evaluating();
  }
  set(50.0f);
  expect_all(average, (1.0f + 2.0f + 6.0f) * (1.0f / 3.0f));
}

TEST_F(AverageTest, ComesBackFromItsTensors) {
  for (const AverageType type : {AverageType::exponential, AverageType::checkpoints}) {
    const AverageOptions options{.type = type, .decay = 0.9, .checkpoints = 12};
    WeightAverage average(model_, options);
    for (int update = 1; update <= 12; ++update) {
      set(static_cast<float>(update) * 1.7f);
      average.updated(update, context_);
      average.evaluating();
    }
    auto tensors = average.tensors();
    std::sort(tensors.begin(), tensors.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    WeightAverage again(model_, options);
    again.restore(tensors, "file");
    EXPECT_TRUE(same_bits(averaged(again), averaged(average)));
    tensors.erase(tensors.begin() + 3);
    EXPECT_EQ(raised_by([&] { again.restore(tensors, "file"); }).code, ErrorCode::bad_format);
  }
}

// The weights after an update by three micro-batches are those that AdamW's kernel makes of the sum
// g1 + g2 + g3, from the left, bit for bit; on either device, whose updates have the same bits.
TEST(GatheredGradients, AnUpdateIsTheOrderedSumOverMicroBatches) {
  const TransformerConfig config = testing::tiny_config(Family::encoder_decoder);
  Transformer model(config, 1, testing::placement());
  Session session(model, 2);
  const std::vector<testing::Sentence> sentences = {
      {{1, 2, 3}, {4, 5}}, {{6, 7}, {8, 9, 10}}, {{5}, {1, 2}}};
  std::vector<std::vector<float>> sums;
  std::vector<std::vector<float>> weights;
  for (const auto& parameter : model.parameters()) weights.push_back(floats_of(parameter.tensor));
  AdamWOptimizer optimizer(model, {.clip_norm = 0.0});
  // Of an update that something else was gathered for, nothing is left over.
  {
    const auto batch = testing::pack({{{1, 1}, {9, 9, 9}}}, config);
    Tape tape(session);
    const Memory memory = model.encode(batch.source, session);
    const Tensor hidden = model.forward(batch.target, memory, session);
    optimizer.add(tape.backward(model.loss(hidden, batch.labels, {}, session)),
                  {.index = 0, .count = 3}, session);
  }
  for (int64_t index = 0; index < 3; ++index) {
    const auto batch = testing::pack({sentences[static_cast<size_t>(index)]}, config);
    session.reset();
    Tape tape(session);
    const Memory memory = model.encode(batch.source, session);
    const Tensor hidden = model.forward(batch.target, memory, session);
    const Gradients gradients = tape.backward(model.loss(hidden, batch.labels, {}, session));
    optimizer.add(gradients, {.index = index, .count = 3}, session);
    const auto parameters = model.parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto gradient = floats_of(gradients.of(parameters[i].tensor));
      if (sums.size() == i) {
        sums.push_back(gradient);
      } else {
        for (size_t j = 0; j < gradient.size(); ++j) sums[i][j] += gradient[j];
      }
    }
  }
  optimizer.step(1e-2f, session);
  const AdamWOptions defaults;
  const auto parameters = model.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    std::vector<float> first(sums[i].size(), 0.0f);
    std::vector<float> second(sums[i].size(), 0.0f);
    kernels::adamw(Parallel(1),
                   {.rate = 1e-2f,
                    .beta1 = defaults.beta1,
                    .beta2 = defaults.beta2,
                    .epsilon = defaults.epsilon,
                    .correction1 = static_cast<float>(1.0 - static_cast<double>(defaults.beta1)),
                    .correction2 = static_cast<float>(1.0 - static_cast<double>(defaults.beta2))},
                   static_cast<int64_t>(sums[i].size()), sums[i].data(), first.data(),
                   second.data(), weights[i].data());
    EXPECT_TRUE(same_bits(floats_of(parameters[i].tensor), weights[i])) << parameters[i].name;
  }
}

TEST(TrainingLog, IsCutBackToWhereARunGoesOn) {
  const TempFolder folder;
  const std::string path = folder / "log";
  {
    TrainingLog log(path, 0, TrainingLog::kAfresh);
    log.append({.update = 5, .values = {{"loss", 2.5}}});
    log.append({.update = 10, .values = {{"loss", 1.25}, {"rate", NAN}}});
    log.append({.update = 10, .values = {{"valid_loss", 3.5}}});
    log.append({.update = 15, .values = {{"loss", 1.0}}});
  }
  const std::string kept =
      "{\"update\": 5, \"loss\": 2.5}\n{\"update\": 10, \"loss\": 1.25}\n"
      "{\"update\": 10, \"valid_loss\": 3.5}\n";
  EXPECT_EQ(read_file(path, 1000), kept + "{\"update\": 15, \"loss\": 1}\n");
  std::ofstream(path, std::ios::app) << "{\"update\": 20, \"lo";
  {
    const TrainingLog log(path, 10, 10);
    EXPECT_EQ(read_file(path, 1000), kept);
    ASSERT_EQ(log.records().size(), 3u);
    EXPECT_EQ(*log.records()[1].find("loss"), 1.25);
    EXPECT_EQ(log.records()[1].find("valid_loss"), nullptr);
  }
  {
    // The evaluation after update 10 was not in the checkpoint yet.
    const TrainingLog log(path, 10, 0);
    EXPECT_EQ(log.records().size(), 2u);
  }
  std::ofstream(path, std::ios::app) << "what is this\n{\"update\": 10, \"loss\": 1}\n";
  {
    const TrainingLog log(path, 10, 10);
    EXPECT_EQ(log.records().size(), 2u) << "a damaged line ends what is kept";
  }
  const TrainingLog anew(path, 0, TrainingLog::kAfresh);
  EXPECT_EQ(read_file(path, 1000), "");
}

TEST(Curve, DrawsWhatThereIs) {
  EXPECT_NE(draw_curve({}).find("<svg"), std::string::npos);
  const std::string one = draw_curve({{.update = 1, .values = {{"loss", 3.0}}}});
  EXPECT_NE(one.find("training"), std::string::npos);
  EXPECT_EQ(one.find("BLEU"), std::string::npos);
  EXPECT_EQ(one.find("nan"), std::string::npos);
  std::vector<LogRecord> records;
  for (int i = 1; i <= 50; ++i) {
    records.push_back({.update = i * 10, .values = {{"loss", 5.0 / i}}});
    if (i % 10 == 0) {
      records.push_back(
          {.update = i * 10, .values = {{"valid_loss", 6.0 / i}, {"valid_bleu", 1.0 * i}}});
    }
  }
  const std::string all = draw_curve(records);
  EXPECT_NE(all.find("validation"), std::string::npos);
  EXPECT_NE(all.find("BLEU"), std::string::npos);
  EXPECT_EQ(all.find("inf"), std::string::npos);
}

// The texts between ">" and "</text>", in order.
std::vector<std::string> words_of(const std::string& svg) {
  std::vector<std::string> words;
  for (size_t end = svg.find("</text>"); end != std::string::npos;
       end = svg.find("</text>", end + 1)) {
    const size_t begin = svg.rfind('>', end) + 1;
    words.push_back(svg.substr(begin, end - begin));
  }
  return words;
}

// A log is a file like any other: a number that no run writes neither hangs nor breaks the picture.
TEST(Curve, DrawsAnyNumberOfALog) {
  const std::vector<LogRecord> wild = {{.update = 1, .values = {{"loss", 1.7e308}}},
                                       {.update = 2, .values = {{"loss", -1.7e308}}},
                                       {.update = 3, .values = {{"loss", 1e20}}}};
  const std::string svg = draw_curve(wild);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  const std::vector<std::string> words = words_of(svg);
  EXPECT_NE(std::find(words.begin(), words.end(), "1e+20"), words.end());
}

TEST(Curve, LabelsAreNumbersAsPeopleWriteThem) {
  EXPECT_EQ(words_of(draw_curve({{.update = 500000, .values = {{"loss", 0.45}}}})),
            (std::vector<std::string>{"loss a token (labels smoothed in training)", "0", "0.1",
                                      "0.2", "0.3", "0.4", "0", "100000", "200000", "300000",
                                      "400000", "500000", "updates", "training"}));
  // Ticks of few updates are still integers, and values that are not finite are not drawn.
  EXPECT_EQ(words_of(draw_curve({{.update = 1, .values = {{"loss", INFINITY}}},
                                 {.update = 2, .values = {{"loss", 39.0}}}})),
            (std::vector<std::string>{"loss a token (labels smoothed in training)", "0", "10", "20",
                                      "30", "40", "0", "1", "2", "updates", "training"}));
}

TEST(Curve, NamesOfLinesThatEndTogetherStandApart) {
  const std::string svg =
      draw_curve({{.update = 10, .values = {{"loss", 2.0}, {"valid_loss", 1.99}}}});
  const auto height_of = [&](const std::string& word) {
    const size_t at = svg.rfind(" y=\"", svg.find(">" + word + "<"));
    return std::stod(svg.substr(at + 4));
  };
  EXPECT_GE(height_of("validation") - height_of("training"), 14.0);
}

}  // namespace
}  // namespace tril::parts_test
