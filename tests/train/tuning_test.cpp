// Runs that begin with a model.
#include "tril/train/tuning.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "support/models.h"
#include "support/temp_folder.h"
#include "support/testing.h"
#include "train/trainer_support.h"
#include "tril/decode/generation.h"
#include "tril/io/atomic_file.h"
#include "tril/train/checkpoint.h"

namespace tril::tuning_test {
namespace {

using testing::contents;
using testing::made_up_pairs;
using testing::on;
using testing::outcome;
using testing::raised_by;
using testing::run;
using testing::same_bits;
using testing::small_training;
using testing::TempFolder;

// A model that has learnt a little of the made-up language.
std::string base_in(const TempFolder& folder) {
  run(small_training(), folder / "base", RunStart::fresh);
  std::filesystem::remove_all(folder / "base/training");
  return folder / "base";
}

TrainOptions tuned(const std::string& base) {
  const TrainOptions small = small_training();
  TrainOptions options = tuning_options(read_base(base));
  options.max_tokens = small.max_tokens;
  options.updates = 8;
  options.batch_tokens = small.batch_tokens;
  options.micro_batch_tokens = small.micro_batch_tokens;
  options.schedule = small.schedule;
  options.log_every = small.log_every;
  options.evaluate_every = small.evaluate_every;
  options.model.dropout = 0.2;
  return options;
}

Transformer load(const std::string& folder) {
  return Transformer::load(folder, testing::loading(Purpose::study));
}

// The names of the parameters whose bits differ.
std::vector<std::string> changed(const std::string& before, const std::string& after) {
  const Transformer one = load(before);
  const Transformer other = load(after);
  const auto from = one.parameters();
  const auto to = other.parameters();
  EXPECT_EQ(from.size(), to.size());
  std::vector<std::string> names;
  for (size_t i = 0; i < from.size(); ++i) {
    EXPECT_EQ(from[i].name, to[i].name);
    if (!same_bits(from[i].tensor, to[i].tensor)) names.push_back(from[i].name);
  }
  return names;
}

constexpr AverageType kAverages[] = {AverageType::none, AverageType::exponential,
                                     AverageType::checkpoints};

// With a rate that is zero in single precision nothing moves, so that what is left is the copy.
TEST(Tuning, BeginsWithTheBitsOfTheModel) {
  const TempFolder folder;
  const std::string base = base_in(folder);
  for (const AverageType average : kAverages) {
    TrainOptions options = tuned(base);
    options.average = {.type = average, .checkpoints = 1};
    options.updates = options.evaluate_every = 1;
    options.schedule.peak = 1e-60;
    run(options, folder / "m", RunStart::overwrite);
    EXPECT_EQ(changed(base, folder / "m"), std::vector<std::string>());
    EXPECT_EQ(changed(base, folder / "m/last"), std::vector<std::string>());
    EXPECT_EQ(contents(base + "/tokenizer.model"), contents(folder / "m/tokenizer.model"));
    TransformerConfig config = load(base).config();
    config.dropout = 0.2;
    EXPECT_EQ(load(folder / "m").config(), config);
  }
  run(tuned(base), folder / "n", RunStart::fresh);
  EXPECT_EQ(changed(base, folder / "n/last").size(), load(base).parameters().size());
}

TEST(Tuning, FrozenPartsKeepTheirBitsAndTheOthersLearn) {
  const TempFolder folder;
  const std::string base = base_in(folder);
  for (const AverageType average : kAverages) {
    TrainOptions options = tuned(base);
    options.freeze = {"encoder", "embeddings", "decoder.0.feed_forward"};
    options.optimizer.decay = 0.1f;
    // The mean of three equal numbers may be another one.
    options.average = {.type = average, .decay = 0.5, .checkpoints = 3};
    options.updates = 12;
    run(options, folder / "m", RunStart::overwrite);
    size_t learnt = 0;
    for (const std::string& name : changed(base, folder / "m/last")) {
      EXPECT_TRUE(name.starts_with("decoder.") && !name.starts_with("decoder.0.feed_forward"))
          << name;
      ++learnt;
    }
    for (const auto& [name, tensor] : load(base).parameters()) {
      learnt -= name.starts_with("decoder.") && !name.starts_with("decoder.0.feed_forward") ? 1 : 0;
    }
    EXPECT_EQ(learnt, 0u) << "every other parameter has changed";
  }
}

// Only what learns counts for the norm by which gradients are clipped, and has moments.
TEST(Tuning, FrozenPartsHaveNoGradientNormAndNoMoments) {
  const auto norm_with = [](const std::vector<std::string>& parts) {
    Transformer model(testing::tiny_config(testing::Family::decoder_only), 1, testing::placement());
    Session session(model, 1);
    AdamWOptimizer optimizer(model, {}, Frozen(model.config(), parts));
    for (const auto& [name, tensor] : optimizer.moments()) {
      for (const std::string& part : parts) EXPECT_EQ(name.find(part), std::string::npos) << name;
    }
    const testing::Batch batch = testing::pack({{{}, {1, 2, 3, 4}}}, model.config());
    Tape tape(session);
    const Tensor hidden = model.forward(batch.target, {}, session);
    optimizer.step(tape.backward(model.loss(hidden, batch.labels, {}, session)), 1e-2f, session);
    return optimizer.last(session).norm;
  };
  const double all = norm_with({});
  const double some = norm_with({"embedding"});
  const double others = norm_with({"decoder"});
  EXPECT_GT(some, 0.0);
  EXPECT_LT(some, all);
  EXPECT_NEAR(some * some + others * others, all * all, 1e-9 * all * all);
}

// A base model with a row that training does not change, with bits that sums would lose.
std::string base_with_frozen_token(const TempFolder& folder, int64_t token) {
  const std::string base = base_in(folder);
  const Transformer trained = load(base);
  TransformerConfig config = trained.config();
  config.frozen_token = token;
  Transformer model(config, 1, testing::placement());
  const auto from = trained.parameters();
  const auto to = model.writable_parameters();
  for (size_t i = 0; i < from.size(); ++i) {
    std::vector<float> values = testing::floats_of(from[i].tensor);
    if (from[i].name == "embedding.weight") {
      const auto row = values.begin() + token * config.model;
      std::fill(row, row + config.model, -0.0f);
      *row = std::numeric_limits<float>::denorm_min();
      *(row + 1) = 0.1f;
    }
    set_values(to[i].tensor, values);
  }
  model.save(base, {.beside = {{"tokenizer.model", contents(base + "/tokenizer.model")}}});
  return base;
}

TEST(Tuning, TheRowOfAFrozenTokenKeepsItsBits) {
  for (const int64_t token : {int64_t{0}, int64_t{5}, int64_t{-1}}) {
    const TempFolder folder;
    const TempFolder scratch;
    const int64_t last = load(base_in(scratch)).config().target_vocab - 1;
    const int64_t row = token < 0 ? last : token;
    const std::string base = base_with_frozen_token(folder, row);
    for (const AverageType average : kAverages) {
      TrainOptions options = tuned(base);
      options.optimizer.decay = 0.1f;
      options.average = {.type = average, .decay = 0.5, .checkpoints = 3};
      options.updates = 12;
      run(options, folder / "m", RunStart::overwrite);
      const Transformer before = load(base);
      const Transformer after = load(folder / "m/last");
      EXPECT_EQ(after.config().frozen_token, row);
      const auto table = [](const Transformer& model) {
        for (const auto& [name, tensor] : model.parameters()) {
          if (name == "embedding.weight") return testing::floats_of(tensor);
        }
        return std::vector<float>();
      };
      const int64_t width = before.config().model;
      const std::vector<float> was = table(before), is = table(after);
      for (int64_t i = 0; i <= last; ++i) {
        const auto one = testing::rows_of(was, width, i), other = testing::rows_of(is, width, i);
        EXPECT_TRUE(std::equal(one.begin(), one.end(), other.begin(), other.end(),
                               [](float a, float b) {
                                 return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
                               }) == (i == row))
            << "row " << i;
      }
    }
  }
}

// Stopped at every call of cancelled(), the evaluation before the first update included, on other
// numbers of threads, and without the model it began with: that is in the checkpoint.
TEST(Tuning, StoppedAnywhereAndResumedItEndsInTheSameBits) {
  for (const AverageType average : kAverages) {
    const TempFolder folder;
    const std::string base = base_with_frozen_token(folder, 5);
    TrainOptions options = tuned(base);
    options.average = {.type = average, .checkpoints = 2};
    if (average == AverageType::exponential) options.freeze = {"encoder"};
    run(options, folder / "whole", RunStart::fresh, 2);
    int sittings = 0;
    for (bool finished = false; !finished; ++sittings) {
      ASSERT_LT(sittings, 100);
      int asked = 0;
      TrainEvents events;
      events.cancelled = [&] { return ++asked > 2 * sittings; };
      finished = run(options, folder / "parts", sittings == 0 ? RunStart::fresh : RunStart::resume,
                     1 + sittings % 3, events)
                     .finished;
      if (sittings == 0) {
        EXPECT_EQ(load_state(folder / "parts/training/checkpoint.safetensors").update, 0);
        std::filesystem::remove_all(base);
      }
    }
    EXPECT_GT(sittings, 5);
    EXPECT_EQ(outcome(folder / "parts"), outcome(folder / "whole"));
  }
}

TEST(Tuning, IsARunOfItsModel) {
  const TempFolder folder;
  const std::string base = base_in(folder);
  const TrainOptions options = tuned(base);
  run(options, folder / "a", RunStart::fresh, 1);
  run(options, folder / "b", RunStart::fresh, 3);
  EXPECT_EQ(outcome(folder / "a"), outcome(folder / "b"));
  // The folder's name does not count, the model does.
  std::filesystem::rename(base, folder / "renamed");
  TrainOptions other = options;
  other.from = folder / "renamed";
  run(other, folder / "c", RunStart::fresh);
  EXPECT_EQ(contents(folder / "a/model.safetensors"), contents(folder / "c/model.safetensors"));
  EXPECT_EQ(load_state(folder / "a/training/checkpoint.safetensors").base,
            load(folder / "renamed").seal().identity);
  EXPECT_NE(
      raised_by([&] { run(other, folder / "a", RunStart::resume); }).text.find("another from"),
      std::string::npos);
  // Its text alone decides how long it is; and it does not go on as a run without a model.
  TrainOptions plain = options;
  plain.from.clear();
  EXPECT_NE(
      raised_by([&] { run(plain, folder / "a", RunStart::resume); }).text.find("now not given"),
      std::string::npos);
}

// Where nothing learnt is better than the model itself, the model is kept.
TEST(Tuning, IsEvaluatedBeforeItsFirstUpdate) {
  const TempFolder folder;
  const std::string base = base_in(folder);
  TrainOptions options = tuned(base);
  options.best_by = BestBy::loss;
  options.schedule.peak = 1.0;  // far too much: it gets worse
  options.average.type = AverageType::none;
  std::vector<int64_t> evaluated;
  TrainEvents events;
  events.evaluated = [&](const TrainStatus& status, const Evaluation&, bool best) {
    evaluated.push_back(status.update);
    EXPECT_EQ(best, status.update == 0);
  };
  EXPECT_EQ(run(options, folder / "m", RunStart::fresh, 1, events).best_update, 0);
  EXPECT_EQ(evaluated, (std::vector<int64_t>{0, 4, 8}));
  EXPECT_EQ(changed(base, folder / "m"), std::vector<std::string>());
  EXPECT_FALSE(changed(base, folder / "m/last").empty());
  // Without validation text there is nothing to evaluate with, and nothing is published yet.
  TrainingText text{Corpus::of(made_up_pairs(1, 50)), std::nullopt};
  events = {};
  events.progress = [&](const TrainStatus& status) {
    if (status.update == 1) {
      EXPECT_FALSE(file_exists(folder / "n/config.json"));
    }
  };
  train(text, options, folder / "n", RunStart::fresh, on(1), events);
  EXPECT_TRUE(file_exists(folder / "n/config.json"));
}

TEST(Tuning, CarriesOnWhatIsSealedWithTheWeights) {
  const TempFolder folder;
  const std::string base = base_in(folder);
  GenerationSettings settings;
  settings.search.beam = 3;
  settings.from_language = "en";
  settings.to_language = "hi";
  const ModelFiles beside = {{"tokenizer.model", contents(base + "/tokenizer.model")},
                             {"generation.json", to_json(settings)},
                             {"some.bundle", std::string("\0\xFF anything", 11)}};
  load(base).on(testing::placement()).save(base, {.beside = beside});
  TrainEvents events;
  int asked = 0;
  events.cancelled = [&] { return ++asked > 40; };
  TrainOptions options = tuned(base);
  ASSERT_FALSE(run(options, folder / "m", RunStart::fresh, 1, events).finished);
  std::filesystem::remove_all(base);
  run(options, folder / "m", RunStart::resume);
  for (const char* where : {"m", "m/last"}) {
    for (const auto& [name, text] : beside) {
      EXPECT_EQ(contents(folder / (std::string(where) + "/" + name)), text) << name;
      EXPECT_TRUE(load(folder / where).seal().files.contains(name)) << name;
    }
  }
  // The languages of a model may be noted anew; its other settings stay.
  options.from = folder / "m";
  options.model_languages = "de-pt-BR";
  run(options, folder / "n", RunStart::fresh);
  const GenerationSettings after =
      generation_from_json(contents(folder / "n/generation.json"), "generation.json");
  EXPECT_EQ(after.from_language, "de");
  EXPECT_EQ(after.to_language, "pt-BR");
  EXPECT_EQ(after.search.beam, 3);
}

TEST(Tuning, AModelOfOursKnowsItsLanguages) {
  const TempFolder folder;
  TrainOptions options = small_training();
  options.model_languages = "en-hi";
  run(options, folder / "m", RunStart::fresh);
  const GenerationSettings settings =
      generation_from_json(contents(folder / "m/generation.json"), "generation.json");
  EXPECT_EQ(settings.from_language, "en");
  EXPECT_EQ(settings.to_language, "hi");
  // A model that replaces it does not inherit them.
  run(small_training(), folder / "m", RunStart::overwrite);
  EXPECT_FALSE(file_exists(folder / "m/generation.json"));
  for (const char* wrong : {"en", "-hi", "en-", "-"}) {
    options.model_languages = wrong;
    EXPECT_NE(raised_by([&] { check(options); }).text.find("as in en-hi"), std::string::npos);
  }
}

// With its own tokenizer and layout; the language is a token of the source.
TEST(Tuning, AnImportedModelLearns) {
  namespace fs = std::filesystem;
  const TempFolder folder;
  fs::copy(fs::path(TRIL_HUB_FOLDER) / "marian", folder / "theirs");
  fs::remove(folder / "theirs/expected.safetensors");
  for (const auto& file : fs::directory_iterator(fs::path(TRIL_TOKENIZERS_FOLDER) / "marian")) {
    fs::copy(file.path(), folder / "theirs", fs::copy_options::overwrite_existing);
  }
  fs::remove(folder / "theirs/cases.json");
  hub::import(folder / "theirs", folder / "base");
  TrainOptions options = tuned(folder / "base");
  EXPECT_EQ(options.bpe_dropout, 0.0) << "which such a tokenizer does not have";
  options.languages.to = "deu";
  options.model.dropout = 0.0;
  options.average.type = AverageType::none;
  options.updates = 40;
  options.evaluate_every = 20;
  options.best_by = BestBy::loss;
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"how are you", "the theory of that"}, {"the theory", "you are"}, {"of that", "how you"}};
  TrainingText text{Corpus::of(pairs), Corpus::of(pairs)};
  std::vector<double> losses;
  TrainEvents events;
  events.evaluated = [&](const TrainStatus&, const Evaluation& result, bool) {
    losses.push_back(result.loss);
  };
  train(text, options, folder / "m", RunStart::fresh, on(1), events);
  ASSERT_EQ(losses.size(), 3u);
  EXPECT_LT(losses[2], 0.5 * losses[0]);
  // And it is a whole model folder, which writes what it was tuned on unless told otherwise.
  const Translator translator = Translator::load(folder / "m", {}, 1);
  EXPECT_EQ(generation_from_json(contents(folder / "m/generation.json"), "m").to_language, "deu");
  EXPECT_EQ(translator.tokenizer().bytes(), contents(folder / "base/tokenizer.model"));
  options.languages.to = "xx";
  EXPECT_EQ(raised_by([&] { train(text, options, folder / "n", RunStart::fresh, on(1), {}); }).text,
            "no language xx in the model, which has fra, deu");
}

TEST(Tuning, ADecoderOnlyModelLearnsFromAText) {
  const TempFolder folder;
  std::vector<std::pair<std::string, std::string>> lines;
  for (const auto& [source, target] : made_up_pairs(1, 200)) lines.emplace_back("", target);
  const auto text = [&] { return TrainingText{Corpus::of(lines), std::nullopt}; };
  TrainingText first = text();
  train(first, small_training(), folder / "base", RunStart::fresh, on(1), {});
  TrainOptions options = tuned(folder / "base");
  TrainingText again = text();
  train(again, options, folder / "m", RunStart::fresh, on(1), {});
  EXPECT_TRUE(load(folder / "m").config().decoder_only());
  EXPECT_FALSE(changed(folder / "base", folder / "m").empty());
  EXPECT_NE(
      raised_by([&] { run(options, folder / "n", RunStart::fresh); }).text.find("decoder-only"),
      std::string::npos);
}

TEST(Tuning, WhatContradictsTheModelIsNamedWithBothValues) {
  const TempFolder folder;
  const std::string base = base_in(folder);
  const auto refused = [&](const std::function<void(TrainOptions&)>& change) {
    TrainOptions options = tuned(base);
    change(options);
    const std::string text = raised_by([&] { run(options, folder / "m", RunStart::fresh); }).text;
    EXPECT_FALSE(std::filesystem::exists(folder / "m"));
    return text;
  };
  const auto says = [&](const std::string& part, const std::function<void(TrainOptions&)>& change) {
    EXPECT_NE(refused(change).find(part), std::string::npos) << refused(change);
  };
  says("is a model with heads 2, not 4:", [](TrainOptions& o) { o.model.heads = 4; });
  says("vocab " + concat(load(base).config().target_vocab) +
           ", not 400, position sinusoidal, not "
           "rotary:",
       [](TrainOptions& o) {
         o.tokenizer.vocab = 400;
         o.model.position = PositionType::rotary;
       });
  says("tokenizer \"\", not other.model",
       [](TrainOptions& o) { o.tokenizer_file = "other.model"; });
  says("reads at most 64 tokens, not the 65", [](TrainOptions& o) {
    o.max_tokens = 65;
    o.micro_batch_tokens = 128;
  });
  says("the language de was named, but the model has none",
       [](TrainOptions& o) { o.languages.from = "de"; });
  says("nothing to freeze is called 'encodr'", [](TrainOptions& o) { o.freeze = {"encodr"}; });
  says("nothing to freeze is called 'positions'",
       [](TrainOptions& o) { o.freeze = {"positions"}; });
  says("nothing is left to learn", [](TrainOptions& o) {
    o.freeze = {"embeddings", "encoder", "decoder"};
  });
  says("no such folder", [&](TrainOptions& o) { o.from = folder / "nowhere"; });
}

TEST(Tuning, AFolderThatCannotBeTrainedIsRefused) {
  const TempFolder folder;
  const std::string base = base_in(folder);
  const auto refused = [&](const std::string& from) { return raised_by([&] { read_base(from); }); };
  Transformer::save_packed(base, folder / "packed", Compute::int8);
  EXPECT_EQ(
      refused(folder / "packed")
          .text.find(folder / "packed" + std::string(": has only packed weights (packed.int8.")),
      0u);
  std::filesystem::copy(base, folder / "mute");
  std::filesystem::remove(folder / "mute/tokenizer.model");
  EXPECT_EQ(refused(folder / "mute").code, ErrorCode::io);
  // A file of another model.
  std::filesystem::copy(base, folder / "mixed");
  write_file_atomically(folder / "mixed/tokenizer.model", "another");
  EXPECT_EQ(refused(folder / "mixed").code, ErrorCode::bad_format);
  // A name that would be written elsewhere.
  const ModelFiles tokenizer = {{"tokenizer.model", contents(base + "/tokenizer.model")}};
  std::filesystem::create_directory(folder / "hostile");
  load(base)
      .on(testing::placement())
      .save(folder / "hostile",
            {.beside = tokenizer, .notes = {{"file:../stolen", "0000000000000000"}}});
  EXPECT_NE(refused(folder / "hostile").text.find("'../stolen', which cannot belong to a model"),
            std::string::npos)
      << refused(folder / "hostile").text;
}

}  // namespace
}  // namespace tril::tuning_test
