// Runs that go on after a stop, and the options they go on with.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "support/temp_folder.h"
#include "support/testing.h"
#include "train/trainer_support.h"
#include "tril/io/atomic_file.h"
#include "tril/io/safetensors.h"
#include "tril/io/toml.h"
#include "tril/train/checkpoint.h"
#include "tril/train/option_list.h"

namespace tril::resume_test {
namespace {

using testing::contents;
using testing::made_up_pairs;
using testing::on;
using testing::outcome;
using testing::raised_by;
using testing::run;
using testing::small_training;
using testing::TempFolder;

// Stopped after each update in turn, also between an update and its evaluation, and gone on with
// another number of threads.
TEST(Trainer, StoppedAnywhereAndResumedItEndsInTheSameBits) {
  for (const AverageType average :
       {AverageType::none, AverageType::exponential, AverageType::checkpoints}) {
    const TempFolder folder;
    TrainOptions options = small_training();
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
  const TrainOptions options = small_training();
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
  TrainOptions options = small_training();
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
  TrainOptions options = small_training();
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
  options = small_training();
  options.updates += 4;  // comes before the others in the list
  options.schedule.type = ScheduleType::constant;
  options.smoothing = 0.25;
  EXPECT_NE(refused().find("was made with another schedule (cosine, now constant), "
                           "label-smoothing (0.1, now 0.25); "),
            std::string::npos)
      << refused();
  options = small_training();
  options.train.source = {"a", "b"};
  EXPECT_NE(refused().find("was made with another source (not given, now a b); "),
            std::string::npos)
      << refused();
  options = small_training();
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

// A checkpoint is a file like any other: any fault in it is one Error, even if somebody sealed it
// that way.
TEST(Trainer, ACheckpointIsNotTrusted) {
  const TempFolder folder;
  TrainOptions options = small_training();
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
  const TrainOptions options = small_training();
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

// The fields say what works: none sends to another that sends back.
TEST(Trainer, SaysHowToBeginWhatCannotBeResumed) {
  const TempFolder folder;
  const auto field = [&](RunStart start) {
    return raised_by([&] { check_start(folder / "m", start); }).field;
  };
  EXPECT_EQ(field(RunStart::resume), "start.resume");
  EXPECT_NO_THROW(check_start(folder / "m", RunStart::fresh));
  run(small_training(), folder / "m", RunStart::fresh);
  EXPECT_EQ(field(RunStart::fresh), "start.checkpoint");
  std::filesystem::remove_all(folder / "m/training");  // a model without a run
  EXPECT_EQ(field(RunStart::fresh), "overwrite");
  EXPECT_EQ(field(RunStart::resume), "start.model");
  EXPECT_NO_THROW(check_start(folder / "m", RunStart::overwrite));
}

TEST(Trainer, ARunThatIsDoneMayBeMadeLonger) {
  const TempFolder folder;
  TrainOptions options = small_training();
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
  EXPECT_FALSE(
      train(text, small_training(), folder / "m", RunStart::fresh, on(1), events).finished);
  EXPECT_EQ(text.train.size(), 100);
  EXPECT_TRUE(train(text, small_training(), folder / "m", RunStart::resume, on(1), {}).finished);
}

// The number of updates may be given where the text decided on it before: to the number that the
// run has made already, there is nothing left to do.
TEST(Trainer, AFinishedRunThatIsAskedForAsManyUpdatesStaysFinished) {
  const TempFolder folder;
  const TrainOptions options = small_training();
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
  EXPECT_EQ(load_state(path).options, contents(folder / "m/training/options.toml"));
}

// A run may be given fewer updates than it was to make, if it has not made more: then it ends with
// the last, and its checkpoint and its options say so.
TEST(Trainer, ARunThatHasMadeItsUpdatesIsRecordedAsFinished) {
  const TempFolder folder;
  TrainOptions options = small_training();
  TrainEvents events;
  bool evaluated = false;
  events.evaluated = [&](const TrainStatus& status, const Evaluation&, bool) {
    evaluated = status.update == 8;
  };
  events.cancelled = [&] { return evaluated; };
  EXPECT_FALSE(run(options, folder / "m", RunStart::fresh, 1, events).finished);
  const std::string path = folder / "m/training/checkpoint.safetensors";
  EXPECT_EQ(load_state(path).update, 8);
  EXPECT_FALSE(load_state(path).finished);
  options.updates = 8;
  EXPECT_TRUE(run(options, folder / "m", RunStart::resume).finished);
  EXPECT_TRUE(load_state(path).finished);
  EXPECT_EQ(load_state(path).options, contents(folder / "m/training/options.toml"));
  options.updates = 4;
  EXPECT_EQ(raised_by([&] { run(options, folder / "m", RunStart::resume); }).field, "updates");
}

TEST(Trainer, OptionsAreCheckedByName) {
  const auto text_of = [](const std::function<void(TrainOptions&)>& change) {
    TrainOptions options = small_training();
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
    TrainOptions options = small_training();
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
  TrainOptions options = small_training();
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
  TrainOptions options = small_training();
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
}  // namespace tril::resume_test
