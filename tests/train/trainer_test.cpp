// A run of the trainer: what it learns, what it writes, and what ends it.
#include "tril/train/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <utility>

#include "support/models.h"
#include "support/temp_folder.h"
#include "support/testing.h"
#include "train/trainer_support.h"
#include "tril/data/batches.h"
#include "tril/io/atomic_file.h"
#include "tril/train/checkpoint.h"

namespace tril::trainer_test {
namespace {

using testing::contents;
using testing::made_up_pairs;
using testing::made_up_text;
using testing::on;
using testing::outcome;
using testing::raised_by;
using testing::run;
using testing::small_training;
using testing::TempFolder;

TEST(Trainer, LearnsAMadeUpLanguageAndKeepsTheBest) {
  const TempFolder folder;
  TrainOptions options = small_training();
  options.model.model = 32;
  options.model.dropout = 0.0;
  options.bpe_dropout = 0.0;
  // On another device the numbers are rounded differently, so training takes another course: it
  // gets more time, not a lower goal.
  options.updates = testing::device() == Device::cpu ? 400 : 800;
  options.evaluate_every = options.updates / 4;
  options.batch_tokens = 512;
  options.micro_batch_tokens = 256;
  options.schedule.type = ScheduleType::cosine;
  options.schedule.peak = 1e-2;
  options.schedule.warm_up = 30;
  options.average.decay = 0.9;
  Evaluation last;
  TrainEvents events;
  double best = 0.0;
  events.evaluated = [&](const TrainStatus&, const Evaluation& result, bool is_best) {
    last = result;
    EXPECT_EQ(is_best, result.bleu > best);
    best = std::max(best, result.bleu);
  };
  const TrainSummary summary = run(options, folder / "m", RunStart::fresh, 0, events);
  EXPECT_TRUE(summary.finished);
  EXPECT_GE(last.exact, 18) << "of 20";
  EXPECT_EQ(summary.best, best);
  const Transformer model = Transformer::load(folder / "m", testing::loading(Purpose::study));
  EXPECT_EQ(model.config().model, 32);
  EXPECT_EQ(Tokenizer::from_bytes(contents(folder / "m/tokenizer.model"), "t").vocab(),
            model.config().target_vocab);
  EXPECT_NE(contents(folder / "m/training/curve.svg").find("BLEU"), std::string::npos);
}

TEST(Trainer, TheSameRunTwiceAndOnAnyNumberOfThreadsGivesTheSameFiles) {
  const TempFolder folder;
  run(small_training(), folder / "a", RunStart::fresh, 1);
  run(small_training(), folder / "b", RunStart::fresh, 3);
  EXPECT_EQ(outcome(folder / "a"), outcome(folder / "b"));
  TrainOptions other = small_training();
  other.seed = 2;
  run(other, folder / "c", RunStart::fresh, 1);
  EXPECT_NE(contents(folder / "a/model.safetensors"), contents(folder / "c/model.safetensors"));
}

// One update by hand: the losses of all micro-batches over the target tokens of all of them.
TEST(Trainer, AnUpdateIsNormalisedByTheTokensOfAllItsMicroBatches) {
  const TempFolder folder;
  TrainOptions options = small_training();
  options.updates = options.evaluate_every = 1;
  options.average.type = AverageType::none;
  options.model.dropout = 0.0;
  options.bpe_dropout = 0.0;
  options.schedule.warm_up = 1;
  TrainingText text{Corpus::of(made_up_pairs(1, 300)), std::nullopt};
  train(text, options, folder / "m", RunStart::fresh, on(1), {});
  const Transformer trained = Transformer::load(folder / "m", testing::loading(Purpose::study));

  const Tokenizer tokenizer =
      Tokenizer::from_bytes(contents(folder / "m/tokenizer.model"), "tokenizer");
  Transformer model(trained.config(), options.seed, testing::placement());
  Session session(model, 1);
  BatchStream stream(text.train, tokenizer,
                     {.source_rows = balanced_source_rows(text.train, 64, options.max_tokens),
                      .target_rows = 64,
                      .seed = options.seed});
  std::vector<Batch> batches(2);
  for (Batch& batch : batches) stream.next(batch);
  const auto tokens = static_cast<float>(batches[0].target_tokens + batches[1].target_tokens);
  ASSERT_NE(batches[0].target_tokens, batches[1].target_tokens) << "or a mean of means would do";
  AdamWOptimizer optimizer(model, options.optimizer);
  for (const Batch& batch : batches) {
    session.reset();
    Tape tape(session);
    const Memory memory = model.encode(batch.source, session);
    const Tensor hidden = model.forward(batch.target, memory, session);
    const Tensor loss =
        model.loss(hidden, batch.labels, {.smoothing = 0.1f, .factor = 1.0f / tokens}, session);
    optimizer.add(tape.backward(loss), {.index = &batch - batches.data(), .count = 2}, session);
  }
  optimizer.step(static_cast<float>(options.schedule.peak), session);
  const auto expected = model.parameters();
  const auto actual = trained.parameters();
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(testing::same_bits(actual[i].tensor, expected[i].tensor)) << expected[i].name;
  }
}

// A run that replaces another exists from its first checkpoint on; if it stops before that, here by
// an exception at the last moment, the other is unchanged.
TEST(Trainer, ARunReplacesAnotherInOneStep) {
  const TempFolder folder;
  const TrainOptions old_options = small_training();
  TrainOptions options = small_training();
  options.seed = 9;
  run(options, folder / "fresh", RunStart::fresh);
  run(old_options, folder / "m", RunStart::fresh);
  const auto before = outcome(folder / "m");
  struct Stop {};
  TrainEvents events;
  events.message = [](const Notice& notice) {
    if (notice.text.find(" epoch") != std::string::npos) throw Stop{};
  };
  EXPECT_THROW(run(options, folder / "m", RunStart::overwrite, 1, events), Stop);
  EXPECT_EQ(outcome(folder / "m"), before);
  EXPECT_TRUE(run(old_options, folder / "m", RunStart::resume).finished);

  events = {};
  events.resumable = [] { throw Stop{}; };
  EXPECT_THROW(run(options, folder / "m", RunStart::overwrite, 1, events), Stop);
  // The old model stays until the new run's first evaluation, and the new run can be resumed.
  EXPECT_EQ(contents(folder / "m/model.safetensors"), before[1]);
  EXPECT_EQ(options_of_run(folder / "m"), to_toml(options));
  EXPECT_TRUE(run(options, folder / "m", RunStart::resume).finished);
  EXPECT_EQ(outcome(folder / "m"), outcome(folder / "fresh"));
}

TEST(Trainer, AFolderThatCannotBeIsKnownBeforeAnythingIsLearnt) {
  const TempFolder folder;
  write_file_atomically(folder / "file", "x");
  TrainEvents events;
  events.message = [](const Notice& notice) { ADD_FAILURE() << notice.text; };
  for (const char* name : {"file", "file/model"}) {
    const auto raised =
        raised_by([&] { run(small_training(), folder / name, RunStart::fresh, 1, events); });
    EXPECT_EQ(raised.code, ErrorCode::io);
    EXPECT_NE(raised.text.find("is a file, and a folder is needed"), std::string::npos)
        << raised.text;
  }
}

TEST(Trainer, OneRunAtATime) {
  const TempFolder folder;
  const TrainOptions options = small_training();
  TrainEvents events;
  std::string heard;
  events.progress = [&](const TrainStatus& status) {
    if (status.update != 2) return;
    heard = raised_by([&] { run(options, folder / "m", RunStart::overwrite); }).text;
  };
  EXPECT_TRUE(run(options, folder / "m", RunStart::fresh, 1, events).finished);
  EXPECT_NE(heard.find("another run is at work in this folder"), std::string::npos) << heard;
}

// Nothing writes what a resumed run reads, and a run that was started meanwhile is not replaced.
TEST(Trainer, RunsThatBeginTogetherDoNotCollide) {
  const TempFolder folder;
  const TrainOptions options = small_training();
  int asked = 0;
  TrainEvents events;
  events.cancelled = [&] { return ++asked > 30; };
  ASSERT_FALSE(run(options, folder / "m", RunStart::fresh, 1, events).finished);
  events = {};
  std::string heard;
  events.message = [&](const Notice&) {
    if (heard.empty()) {
      heard = raised_by([&] { run(options, folder / "m", RunStart::resume); }).text;
    }
  };
  EXPECT_TRUE(run(options, folder / "m", RunStart::resume, 1, events).finished);
  EXPECT_NE(heard.find("another run is at work in this folder"), std::string::npos) << heard;

  bool begun = false;
  events.message = [&](const Notice&) {
    if (std::exchange(begun, true)) return;
    run(options, folder / "f", RunStart::fresh);
  };
  TrainOptions other = options;
  other.seed = 9;
  EXPECT_NE(raised_by([&] {
              run(other, folder / "f", RunStart::fresh, 1, events);
            }).text.find("holds a model already"),
            std::string::npos);
  EXPECT_EQ(outcome(folder / "f"), outcome(folder / "m"));
}

TEST(Trainer, LinksInItsFolderAreReplacedAndNotFollowed) {
  const TempFolder folder;
  std::filesystem::create_directories(folder / "m/training");
  const std::vector<std::string> names = {"training/tokenizer.model",
                                          "training/options.toml",
                                          "training/log.jsonl",
                                          "training/curve.svg",
                                          "training/checkpoint.safetensors",
                                          "tokenizer.model",
                                          "training/events.out.tfevents.tril"};
  for (const std::string& name : names) {
    const std::string theirs = folder / ("theirs_" + name.substr(name.rfind('/') + 1));
    write_file_atomically(theirs, "theirs");
    std::filesystem::create_symlink(theirs, folder / ("m/" + name));
  }
  run(small_training(), folder / "m", RunStart::overwrite);
  for (const std::string& name : names) {
    EXPECT_EQ(contents(folder / ("theirs_" + name.substr(name.rfind('/') + 1))), "theirs") << name;
    EXPECT_FALSE(std::filesystem::is_symlink(folder / ("m/" + name))) << name;
  }
}

TEST(Trainer, UpdatesFollowTheTextUnlessTheyAreGiven) {
  const TempFolder folder;
  TrainOptions options = small_training();
  options.updates = 0;
  options.batch_tokens = options.micro_batch_tokens;
  TrainEvents events;
  int64_t updates = 0;
  int asked = 0;
  events.progress = [&](const TrainStatus& status) { updates = status.updates; };
  events.cancelled = [&] { return ++asked > 1; };
  TrainingText text = made_up_text();
  train(text, options, folder / "m", RunStart::fresh, on(1), events);
  EXPECT_EQ(updates, text.train.target_tokens() * 60 / options.batch_tokens);
}

TEST(Trainer, ADecoderOnlyModelLearnsFromOneText) {
  const TempFolder folder;
  std::vector<std::pair<std::string, std::string>> lines;
  for (const auto& [source, target] : made_up_pairs(1, 200)) lines.emplace_back("", source);
  TrainingText text{Corpus::of(lines), Corpus::of(lines)};
  double first = 0.0;
  double last = 0.0;
  TrainEvents events;
  events.evaluated = [&](const TrainStatus&, const Evaluation& result, bool) {
    (first == 0.0 ? first : last) = result.loss;
  };
  TrainOptions options = small_training();
  options.updates = 40;
  const TrainSummary summary = train(text, options, folder / "m", RunStart::fresh, on(0), events);
  EXPECT_TRUE(summary.finished);
  EXPECT_LT(last, 0.8 * first);
  EXPECT_TRUE(
      Transformer::load(folder / "m", testing::loading(Purpose::study)).config().decoder_only());
}

// Whoever says that there are no encoder layers gets the model that a text alone gives anyway.
TEST(Trainer, ATextAloneHasNoEncoderLayers) {
  const TempFolder folder;
  std::vector<std::pair<std::string, std::string>> lines;
  for (const auto& [source, target] : made_up_pairs(1, 200)) lines.emplace_back("", source);
  TrainOptions options = small_training();
  std::vector<Transformer> models;
  for (const int64_t layers : {1, 0}) {
    options.model.encoder_layers = layers;
    TrainingText text{Corpus::of(lines), std::nullopt};
    const std::string name = folder / concat("m", layers);
    EXPECT_TRUE(train(text, options, name, RunStart::fresh, on(1), {}).finished);
    EXPECT_TRUE(train(text, options, name, RunStart::resume, on(1), {}).finished);
    models.push_back(Transformer::load(name, testing::loading(Purpose::study)));
    EXPECT_TRUE(models.back().config().decoder_only());
  }
  const auto given = models[1].parameters();
  const auto implied = models[0].parameters();
  ASSERT_EQ(given.size(), implied.size());
  for (size_t i = 0; i < given.size(); ++i) {
    EXPECT_TRUE(testing::same_bits(given[i].tensor, implied[i].tensor)) << given[i].name;
  }
  // Pairs need an encoder; that is known before anything is learnt or written.
  TrainEvents events;
  events.message = [](const Notice& notice) { ADD_FAILURE() << notice.text; };
  const auto raised = raised_by([&] { run(options, folder / "p", RunStart::fresh, 1, events); });
  EXPECT_EQ(raised.text,
            "train: encoder-layers must be positive for pairs; a text alone has no encoder");
  EXPECT_FALSE(std::filesystem::exists(folder / "p"));
}

TEST(Trainer, ARunThatExplodesSaysWhatToDo) {
  const TempFolder folder;
  TrainOptions options = small_training();
  options.updates = 400;
  options.schedule.peak = 1e30;
  options.schedule.warm_up = 0;
  options.optimizer.clip_norm = 0.0;
  const auto raised = raised_by([&] { run(options, folder / "m", RunStart::fresh); });
  EXPECT_EQ(raised.field, "schedule.peak") << raised.text;
}

// Even one that ends before it is plain that it will not recover.
TEST(Trainer, ARunThatEndsWithoutAFiniteGradientFails) {
  for (const bool validated : {true, false}) {
    const TempFolder folder;
    TrainOptions options = small_training();
    options.updates = options.evaluate_every = 6;
    options.schedule.peak = 1e30;
    options.schedule.warm_up = 0;
    options.optimizer.clip_norm = 0.0;
    TrainingText text = made_up_text();
    if (!validated) text.valid.reset();
    const auto raised =
        raised_by([&] { train(text, options, folder / "m", RunStart::fresh, on(1), {}); });
    EXPECT_EQ(raised.code, ErrorCode::invalid_argument);
    EXPECT_EQ(raised.field, "schedule.peak") << raised.text;
    EXPECT_FALSE(std::filesystem::exists(folder / "m/config.json")) << "no model is kept";
  }
}

}  // namespace
}  // namespace tril::trainer_test
