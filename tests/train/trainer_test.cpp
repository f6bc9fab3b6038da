#include "tril/train/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <utility>

#include "support/models.h"
#include "support/temp_folder.h"
#include "support/testing.h"
#include "tril/data/batches.h"
#include "tril/io/atomic_file.h"
#include "tril/io/safetensors.h"
#include "tril/io/toml.h"
#include "tril/train/checkpoint.h"
#include "tril/train/log.h"

namespace tril {
namespace {

using testing::raised_by;
using testing::TempFolder;

// A language of nine words and its translation, word by word.
std::vector<std::pair<std::string, std::string>> made_up_pairs(uint64_t seed, int count) {
  const std::vector<std::string> words = {"ba", "de", "fi", "go", "ku", "la", "me", "no", "su"};
  const std::vector<std::string> other = {"AB", "ED", "IF", "OG", "UK", "AL", "EM", "ON", "US"};
  Random random(seed);
  std::vector<std::pair<std::string, std::string>> pairs;
  for (int i = 0; i < count; ++i) {
    std::string source;
    std::string target;
    for (uint32_t n = random.below(4) + 1; n > 0; --n) {
      const size_t word = random.below(9);
      source += words[word] + (n > 1 ? " " : "");
      target += other[word] + (n > 1 ? " " : "");
    }
    pairs.emplace_back(source, target);
  }
  return pairs;
}

TrainingText made_up_text() {
  return {Corpus::of(made_up_pairs(1, 300)), Corpus::of(made_up_pairs(2, 20))};
}

TrainOptions small_options() {
  TrainOptions options;
  options.tokenizer.vocab = 300;
  options.model.model = 16;
  options.model.heads = 2;
  options.model.feed_forward = 32;
  options.model.encoder_layers = options.model.decoder_layers = 1;
  options.model.max_length = 64;
  options.max_tokens = 32;
  options.updates = 12;
  options.batch_tokens = 128;
  options.micro_batch_tokens = 64;
  options.schedule.peak = 5e-3;
  options.schedule.warm_up = 4;
  options.log_every = 3;
  options.evaluate_every = 4;
  options.bpe_dropout = 0.1;
  return options;
}

std::string contents(const std::string& path) { return read_file(path, 1 << 28); }

// The results of a run that must not depend on how it got there.
std::vector<std::string> outcome(const std::string& folder) {
  std::vector<std::string> files;
  for (const char* name : {"/config.json", "/model.safetensors", "/tokenizer.model",
                           "/last/model.safetensors", "/training/options.toml"}) {
    files.push_back(contents(folder + name));
  }
  // The log without the seconds, which cannot be reproduced.
  const TrainState state = load_state(folder + "/training/checkpoint.safetensors");
  const TempFolder scratch;
  std::filesystem::copy(folder + "/training/log.jsonl", scratch / "log");
  const TrainingLog log(scratch / "log", state.update, state.last_evaluation);
  for (const LogRecord& record : log.records()) {
    std::string line = concat(record.update);
    for (const auto& [name, value] : record.values) {
      if (name != "seconds") line += concat(" ", name, " ", value);
    }
    files.push_back(line);
  }
  files.push_back(concat(state.update, " ", state.best, " ", state.best_update, " ", state.worse));
  return files;
}

RunOn on(int threads) { return {threads, testing::placement()}; }

TrainSummary run(const TrainOptions& options, const std::string& folder, RunStart start,
                 int threads = 1, const TrainEvents& events = {}) {
  TrainingText text = made_up_text();
  return train(text, options, folder, start, on(threads), events);
}

TEST(Trainer, LearnsAMadeUpLanguageAndKeepsTheBest) {
  const TempFolder folder;
  TrainOptions options = small_options();
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
  run(small_options(), folder / "a", RunStart::fresh, 1);
  run(small_options(), folder / "b", RunStart::fresh, 3);
  EXPECT_EQ(outcome(folder / "a"), outcome(folder / "b"));
  TrainOptions other = small_options();
  other.seed = 2;
  run(other, folder / "c", RunStart::fresh, 1);
  EXPECT_NE(contents(folder / "a/model.safetensors"), contents(folder / "c/model.safetensors"));
}

// Stopped after each update in turn, also between an update and its evaluation, and gone on with
// another number of threads.
TEST(Trainer, StoppedAnywhereAndResumedItEndsInTheSameBits) {
  for (const AverageType average :
       {AverageType::none, AverageType::exponential, AverageType::checkpoints}) {
    const TempFolder folder;
    TrainOptions options = small_options();
    options.average.type = average;
    options.average.checkpoints = 2;
    run(options, folder / "whole", RunStart::fresh, 2);
    const auto expected = outcome(folder / "whole");
    int sittings = 0;
    for (bool finished = false; !finished; ++sittings) {
      ASSERT_LT(sittings, 100);
      int asked = 0;
      TrainEvents events;
      // Each sitting lasts for some calls of cancelled(), wherever they are; an evaluation makes
      // one for each of its sentences, so later sittings must last longer.
      events.cancelled = [&] { return ++asked > 3 + 2 * sittings; };
      finished = run(options, folder / "parts", sittings == 0 ? RunStart::fresh : RunStart::resume,
                     1 + sittings % 3, events)
                     .finished;
    }
    EXPECT_GT(sittings, 5);
    EXPECT_EQ(outcome(folder / "parts"), expected);
  }
}

// The result of a kill: any older checkpoint beside newer files.
TEST(Trainer, ResumingFromAnOlderCheckpointMakesTheNewerFilesAgain) {
  const TempFolder folder;
  const TrainOptions options = small_options();
  TrainEvents events;
  const std::string checkpoint = folder / "m/training/checkpoint.safetensors";
  std::string older;
  events.progress = [&](const TrainStatus& status) {
    if (status.update == 6) older = contents(checkpoint);
  };
  run(options, folder / "m", RunStart::fresh, 1, events);
  const auto expected = outcome(folder / "m");
  write_file_atomically(checkpoint, older);
  std::ofstream(folder / "m/training/log.jsonl", std::ios::app) << "{\"update\": 13, \"lo";
  EXPECT_EQ(load_state(checkpoint).update, 4);
  run(options, folder / "m", RunStart::resume);
  EXPECT_EQ(outcome(folder / "m"), expected);
}

TEST(Trainer, PatienceEndsARunAndSurvivesAStop) {
  const TempFolder folder;
  TrainOptions options = small_options();
  options.updates = 200;
  options.evaluate_every = 2;
  options.patience = 3;
  options.best_by = BestBy::loss;
  options.schedule.peak = 0.5;  // far too much: it gets worse
  const TrainSummary whole = run(options, folder / "whole", RunStart::fresh);
  EXPECT_TRUE(whole.finished);
  EXPECT_TRUE(whole.stopped_early);
  EXPECT_LT(whole.last.update, 200);
  EXPECT_EQ(whole.last.update, whole.best_update + 6);
  int sittings = 0;
  for (bool finished = false; !finished; ++sittings) {
    int asked = 0;
    TrainEvents events;
    events.cancelled = [&] { return ++asked > 20 + sittings; };
    ASSERT_LT(sittings, 100);
    finished = run(options, folder / "parts", sittings == 0 ? RunStart::fresh : RunStart::resume, 1,
                   events)
                   .finished;
  }
  EXPECT_EQ(outcome(folder / "parts"), outcome(folder / "whole"));
}

TEST(Trainer, GoesOnOnlyWithTheSameOptionsAndText) {
  const TempFolder folder;
  TrainOptions options = small_options();
  EXPECT_EQ(raised_by([&] { run(options, folder / "m", RunStart::resume); }).code, ErrorCode::io);
  EXPECT_TRUE(folder.names().empty()) << "nothing was written";
  run(options, folder / "m", RunStart::fresh);
  const auto before = outcome(folder / "m");
  EXPECT_EQ(raised_by([&] { run(options, folder / "m", RunStart::fresh); }).code,
            ErrorCode::invalid_argument);
  // Every option that differs is named, with both values; only the number of updates may change.
  const auto refused = [&] {
    return raised_by([&] { run(options, folder / "m", RunStart::resume); }).text;
  };
  options.seed = 9;
  EXPECT_NE(refused().find("was made with another seed (1, now 9); "), std::string::npos)
      << refused();
  options = small_options();
  options.updates += 4;  // comes before the others in the list
  options.schedule.type = ScheduleType::constant;
  options.smoothing = 0.25;
  EXPECT_NE(refused().find("was made with another schedule (cosine, now constant), "
                           "label-smoothing (0.1, now 0.25); "),
            std::string::npos)
      << refused();
  options = small_options();
  options.train.source = {"a", "b"};
  EXPECT_NE(refused().find("was made with another source (not given, now a b); "),
            std::string::npos)
      << refused();
  options = small_options();
  TrainingText other{Corpus::of(made_up_pairs(7, 300)), Corpus::of(made_up_pairs(2, 20))};
  EXPECT_NE(raised_by([&] {
              train(other, options, folder / "m", RunStart::resume, on(1), {});
            }).text.find("another text"),
            std::string::npos);
  EXPECT_EQ(outcome(folder / "m"), before);
  options.seed = 9;
  run(options, folder / "m", RunStart::overwrite);
  EXPECT_NE(outcome(folder / "m"), before);
}

// One update by hand: the losses of all micro-batches over the target tokens of all of them.
TEST(Trainer, AnUpdateIsNormalisedByTheTokensOfAllItsMicroBatches) {
  const TempFolder folder;
  TrainOptions options = small_options();
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

// A checkpoint is a file like any other: any fault in it is one Error, even if somebody sealed it
// that way.
TEST(Trainer, ACheckpointIsNotTrusted) {
  const TempFolder folder;
  TrainOptions options = small_options();
  run(options, folder / "m", RunStart::fresh);
  const std::string path = folder / "m/training/checkpoint.safetensors";
  const std::string whole = contents(path);
  Arena arena;
  SafetensorsInfo info;
  const std::vector<NamedTensor> tensors = load_safetensors(path, arena, &info);
  const auto replaced = [](std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    return at == text.npos ? text : text.replace(at, from.size(), to);
  };
  const auto damaged = [&](const std::string& from, const std::string& to) {
    std::vector<NamedTensor> changed = tensors;
    for (NamedTensor& one : changed) one.name = replaced(one.name, from, to);
    SafetensorsMetadata metadata = info.metadata;
    metadata["state"] = replaced(metadata["state"], from, to);
    save_safetensors(path, changed, metadata);
    EXPECT_NE(contents(path), whole) << from;
    return raised_by([&] { run(options, folder / "m", RunStart::resume); }).code;
  };
  EXPECT_EQ(damaged("checkpoint.0.", "heckpoint.00."), ErrorCode::bad_format) << "no average";
  EXPECT_EQ(damaged("\"update\": 12", "\"update\": 99"), ErrorCode::bad_format);
  EXPECT_EQ(damaged("\"optimizer_steps\": 12", "\"optimizer_steps\": 13"), ErrorCode::bad_format);
  EXPECT_EQ(damaged("weight.decoder", "weighs.decoder"), ErrorCode::bad_format);
  write_file_atomically(path, whole.substr(0, whole.size() / 2));
  EXPECT_EQ(raised_by([&] { run(options, folder / "m", RunStart::resume); }).code,
            ErrorCode::bad_format);
  // A checkpoint of a version that kept the tokenizer in its own file is resumed with that file.
  std::vector<NamedTensor> without = tensors;
  std::erase_if(without, [](const NamedTensor& one) { return one.name == "tokenizer"; });
  ASSERT_EQ(without.size() + 1, tensors.size());
  save_safetensors(path, without, info.metadata);
  EXPECT_TRUE(run(options, folder / "m", RunStart::resume).finished);
  save_safetensors(path, without, info.metadata);
  write_file_atomically(folder / "m/training/tokenizer.model", "another");
  EXPECT_EQ(raised_by([&] { run(options, folder / "m", RunStart::resume); }).code,
            ErrorCode::bad_format);
}

// Beside the checkpoint everything in training/ is for people, or made again.
TEST(Trainer, TheCheckpointAloneIsEnoughToGoOn) {
  const TempFolder folder;
  const TrainOptions options = small_options();
  run(options, folder / "whole", RunStart::fresh);
  int asked = 0;
  TrainEvents events;
  events.cancelled = [&] { return ++asked > 30; };
  ASSERT_FALSE(run(options, folder / "m", RunStart::fresh, 1, events).finished);
  for (const char* name : {"tokenizer.model", "options.toml", "lock"}) {
    std::filesystem::remove(folder / ("m/training/" + std::string(name)));
  }
  EXPECT_EQ(options_of_run(folder / "m"), to_toml(options));
  run(options, folder / "m", RunStart::resume);
  EXPECT_EQ(outcome(folder / "m"), outcome(folder / "whole"));
}

// A run that replaces another exists from its first checkpoint on; if it stops before that, here by
// an exception at the last moment, the other is unchanged.
TEST(Trainer, ARunReplacesAnotherInOneStep) {
  const TempFolder folder;
  const TrainOptions old_options = small_options();
  TrainOptions options = small_options();
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

// The fields say what works: none sends to another that sends back.
TEST(Trainer, SaysHowToBeginWhatCannotBeResumed) {
  const TempFolder folder;
  const auto field = [&](RunStart start) {
    return raised_by([&] { check_start(folder / "m", start); }).field;
  };
  EXPECT_EQ(field(RunStart::resume), "start.resume");
  EXPECT_NO_THROW(check_start(folder / "m", RunStart::fresh));
  run(small_options(), folder / "m", RunStart::fresh);
  EXPECT_EQ(field(RunStart::fresh), "start.checkpoint");
  std::filesystem::remove_all(folder / "m/training");  // a model without a run
  EXPECT_EQ(field(RunStart::fresh), "overwrite");
  EXPECT_EQ(field(RunStart::resume), "start.model");
  EXPECT_NO_THROW(check_start(folder / "m", RunStart::overwrite));
}

TEST(Trainer, AFolderThatCannotBeIsKnownBeforeAnythingIsLearnt) {
  const TempFolder folder;
  write_file_atomically(folder / "file", "x");
  TrainEvents events;
  events.message = [](const Notice& notice) { ADD_FAILURE() << notice.text; };
  for (const char* name : {"file", "file/model"}) {
    const auto raised =
        raised_by([&] { run(small_options(), folder / name, RunStart::fresh, 1, events); });
    EXPECT_EQ(raised.code, ErrorCode::io);
    EXPECT_NE(raised.text.find("is a file, and a folder is needed"), std::string::npos)
        << raised.text;
  }
}

TEST(Trainer, OneRunAtATime) {
  const TempFolder folder;
  const TrainOptions options = small_options();
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
  const TrainOptions options = small_options();
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
  const std::vector<std::string> names = {
      "training/tokenizer.model", "training/options.toml",           "training/log.jsonl",
      "training/curve.svg",       "training/checkpoint.safetensors", "tokenizer.model"};
  for (const std::string& name : names) {
    const std::string theirs = folder / ("theirs_" + name.substr(name.rfind('/') + 1));
    write_file_atomically(theirs, "theirs");
    std::filesystem::create_symlink(theirs, folder / ("m/" + name));
  }
  run(small_options(), folder / "m", RunStart::overwrite);
  for (const std::string& name : names) {
    EXPECT_EQ(contents(folder / ("theirs_" + name.substr(name.rfind('/') + 1))), "theirs") << name;
    EXPECT_FALSE(std::filesystem::is_symlink(folder / ("m/" + name))) << name;
  }
}

TEST(Trainer, ARunThatIsDoneMayBeMadeLonger) {
  const TempFolder folder;
  TrainOptions options = small_options();
  options.schedule.type = ScheduleType::inverse_sqrt;  // whose rates do not know the end
  options.updates = 24;
  run(options, folder / "whole", RunStart::fresh);
  options.updates = 12;
  EXPECT_TRUE(run(options, folder / "parts", RunStart::fresh).finished);
  options.updates = 24;
  EXPECT_EQ(run(options, folder / "parts", RunStart::resume).last.update, 24);
  EXPECT_EQ(outcome(folder / "parts"), outcome(folder / "whole"));
  options.seed = 4;
  options.updates = 30;
  EXPECT_EQ(raised_by([&] { run(options, folder / "parts", RunStart::resume); }).code,
            ErrorCode::invalid_argument);
}

TEST(Trainer, UpdatesFollowTheTextUnlessTheyAreGiven) {
  const TempFolder folder;
  TrainOptions options = small_options();
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

// A caller may go on with the text it has in hand, though pairs were left out of it.
TEST(Trainer, ResumesWithTheSameObject) {
  const TempFolder folder;
  auto pairs = made_up_pairs(1, 100);
  std::string endless;
  for (int i = 0; i < 40; ++i) endless += "ba de ";
  pairs.emplace_back(endless, "AB");
  TrainingText text{Corpus::of(pairs), std::nullopt};
  TrainEvents events;
  int asked = 0;
  events.cancelled = [&] { return ++asked > 2; };
  EXPECT_FALSE(train(text, small_options(), folder / "m", RunStart::fresh, on(1), events).finished);
  EXPECT_EQ(text.train.size(), 100);
  EXPECT_TRUE(train(text, small_options(), folder / "m", RunStart::resume, on(1), {}).finished);
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
  TrainOptions options = small_options();
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
  TrainOptions options = small_options();
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

// The number of updates may be given where the text decided on it before: to the number that the
// run has made already, there is nothing left to do.
TEST(Trainer, AFinishedRunThatIsAskedForAsManyUpdatesStaysFinished) {
  const TempFolder folder;
  const TrainOptions options = small_options();
  run(options, folder / "m", RunStart::fresh);
  const auto before = outcome(folder / "m");
  const std::string path = folder / "m/training/checkpoint.safetensors";
  Arena arena;
  SafetensorsInfo info;
  const std::vector<NamedTensor> tensors = load_safetensors(path, arena, &info);
  std::string& state = info.metadata["state"];
  const std::string recorded = "\\nupdates = 12\\n";  // in a JSON string
  const size_t at = state.find(recorded);
  ASSERT_NE(at, std::string::npos) << state;
  state.replace(at, recorded.size(), "\\nupdates = 0\\n");
  save_safetensors(path, tensors, info.metadata);
  const TrainSummary summary = run(options, folder / "m", RunStart::resume);
  EXPECT_TRUE(summary.finished);
  EXPECT_EQ(summary.last.update, 12);
  EXPECT_EQ(outcome(folder / "m"), before);
}

TEST(Trainer, ARunThatExplodesSaysWhatToDo) {
  const TempFolder folder;
  TrainOptions options = small_options();
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
    TrainOptions options = small_options();
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

TEST(Trainer, OptionsAreCheckedByName) {
  const auto text_of = [](const std::function<void(TrainOptions&)>& change) {
    TrainOptions options = small_options();
    change(options);
    return raised_by([&] { check(options); }).text;
  };
  EXPECT_NE(text_of([](auto& o) { o.updates = -1; }).find("updates"), std::string::npos);
  EXPECT_NE(text_of([](auto& o) { o.micro_batch_tokens = 100; }).find("must divide"),
            std::string::npos);
  EXPECT_NE(text_of([](auto& o) { o.max_tokens = 65; }).find("must fit"), std::string::npos);
  EXPECT_NE(text_of([](auto& o) { o.smoothing = 1.0; }).find("label-smoothing"), std::string::npos);
  EXPECT_NE(text_of([](auto& o) { o.schedule.peak = NAN; }).find("rate"), std::string::npos);
}

TEST(TrainOptions, WhatCannotMakeSenseIsNamedWithItsRange) {
  const auto refused = [](const auto& change) -> std::string {
    TrainOptions options = small_options();
    change(options);
    try {
      check(options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refused([](TrainOptions&) {}), "");
  EXPECT_EQ(refused([](TrainOptions& o) { o.batch_tokens = 1'000'000'000; }),
            "train: batch-tokens must be from 1 to 16777216, not 1000000000");
  EXPECT_EQ(refused([](TrainOptions& o) { o.batch_tokens = o.micro_batch_tokens = 1 << 24; }), "");
  EXPECT_EQ(refused([](TrainOptions& o) { o.micro_batch_tokens = (1 << 24) + 1; }),
            "train: micro-batch-tokens must be from 1 to 16777216, not 16777217");
  EXPECT_EQ(refused([](TrainOptions& o) { o.updates = 1'000'000'001; }),
            "train: updates must be from 0 to 1000000000, not 1000000001");
  EXPECT_EQ(refused([](TrainOptions& o) { o.updates = -1; }),
            "train: updates must be from 0 to 1000000000, not -1");
  EXPECT_EQ(refused([](TrainOptions& o) { o.valid_beam = 1025; }),
            "train: valid-beam must be from 1 to 1024, not 1025");
  EXPECT_EQ(refused([](TrainOptions& o) { o.tokenizer.vocab = 1'000'001; }),
            "tokenizer: vocab is 1000001, expected 1 to 1000000");
}

TEST(TrainOptions, TomlNamesEveryOptionOnce) {
  TrainOptions options = small_options();
  options.train.source = {"a \"quoted\" name", "b"};
  options.schedule.type = ScheduleType::cosine;
  const std::string toml = to_toml(options);
  EXPECT_EQ(toml.find("source = [\"a \\\"quoted\\\" name\", \"b\"]\n"), 0u) << toml;
  EXPECT_NE(toml.find("\nschedule = \"cosine\"\n"), std::string::npos);
  EXPECT_NE(toml.find("\ntied = true\n"), std::string::npos);
  EXPECT_NE(toml.find("\nbeta1 = 0.9\n"), std::string::npos);
  int options_seen = 0;
  for_each_option(options, [&](std::string_view name, const auto&, auto...) {
    ++options_seen;
    EXPECT_NE(toml.find(concat("\n", name, " = ")), std::string::npos) << name;
  });
  EXPECT_EQ(std::count(toml.begin(), toml.end(), '\n'), options_seen + 1);
  // And is read back.
  const auto read = parse_toml(toml, "file");
  ASSERT_EQ(static_cast<int>(read.size()), options_seen + 1);
  EXPECT_EQ(read[0].values, options.train.source);
}

// Options are compared one by one, whatever the order of the record.
TEST(TrainOptions, ChangesAreNamedOneByOne) {
  TrainOptions options = small_options();
  options.train.source = {"a \"quoted\" name", "b"};
  const std::string record = to_toml(options);
  const auto changes = [&](const std::string& text, const TrainOptions& now) {
    std::string all;
    for (const OptionChange& change : changed_options(text, now, "file")) {
      all += concat(change.name, ": ", change.recorded, " -> ", change.now, "\n");
    }
    return all;
  };
  EXPECT_EQ(changes(record, options), "");
  std::vector<std::string> lines;
  for (size_t at = 0; at < record.size();) {
    const size_t end = record.find('\n', at) + 1;
    lines.push_back(record.substr(at, end - at));
    at = end;
  }
  std::string backwards;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) backwards += *line;
  EXPECT_EQ(changes(backwards, options), "");
  // Each option of the list is compared.
  for (size_t left_out = 0; left_out < lines.size(); ++left_out) {
    std::string rest;
    for (size_t i = 0; i < lines.size(); ++i) rest += i == left_out ? "" : lines[i];
    const std::string name = lines[left_out].substr(0, lines[left_out].find(" = "));
    EXPECT_EQ(changes(rest, options).find(name + ": not given -> "), 0u) << name;
  }
  TrainOptions other = options;
  other.train.source = {"a \"quoted\" name"};
  other.train.target = {"c"};
  other.schedule.warm_up = 5;
  other.optimizer.beta1 = 0.8f;
  EXPECT_EQ(changes(record, other),
            "source: a \"quoted\" name b -> a \"quoted\" name\n"
            "target: not given -> c\n"
            "warm-up: 4 -> 5\n"
            "beta1: 0.9 -> 0.8\n");
  other.train.source.clear();
  EXPECT_NE(changes(record, other).find("source: a \"quoted\" name b -> not given\n"),
            std::string::npos);
  EXPECT_EQ(changes(record + "gone = 7\n", options), "gone: 7 -> not given\n");
  EXPECT_EQ(raised_by([&] { changed_options("[section]", options, "file"); }).code,
            ErrorCode::bad_format);
}

}  // namespace
}  // namespace tril
