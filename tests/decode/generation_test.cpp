// Settings of a search and generation.json.
#include "tril/decode/generation.h"

#include "support/property.h"
#include "support/testing.h"

namespace tril::generation_file_test {
namespace {

using testing::raised_by;

GenerationSettings every_setting() {
  GenerationSettings s;
  s.search = {.beam = 4,
              .length_penalty = -0.25,
              .early_stopping = EarlyStopping::never,
              .cut = CutHypotheses::ranked,
              .rank_prefix = false,
              .max_tokens = 200,
              .min_tokens = 3,
              .max_ratio = 0.0,
              .no_repeat_ngram = 3,
              .repetition_penalty = 1.2,
              .renormalize = true,
              .sample = false,
              .temperature = 0.7,
              .top_k = 50,
              .top_p = 0.9};
  s.forbidden = {{58100}, {12, 7}};
  s.forced_first = {4};
  s.forced_end = 0;
  s.special_tokens = SpecialTokens::allowed;
  s.from_language = "en";
  s.to_language = "hi";
  return s;
}

TEST(GenerationFile, WhatIsWrittenIsRead) {
  const GenerationSettings s = every_setting();
  EXPECT_EQ(generation_from_json(to_json(s), "file"), s);
  EXPECT_EQ(generation_from_json(to_json(GenerationSettings{}), "file"), GenerationSettings{});
  EXPECT_EQ(to_json(GenerationSettings{}), "{\n  \"format\": 1\n}\n");
  // Format 1 as others have written it.
  EXPECT_EQ(to_json(s),
            "{\n  \"format\": 1,\n  \"beam\": 4,\n  \"length_penalty\": -0.25,\n"
            "  \"early_stopping\": \"never\",\n  \"cut\": \"ranked\",\n  \"rank_prefix\": false,\n"
            "  \"max_tokens\": 200,\n  \"min_tokens\": 3,\n  \"max_ratio\": 0.0,\n"
            "  \"no_repeat_ngram\": 3,\n  \"repetition_penalty\": 1.2,\n"
            "  \"renormalize\": true,\n  \"sample\": false,\n"
            "  \"temperature\": 0.7,\n  \"top_k\": 50,\n  \"top_p\": 0.9,\n"
            "  \"forbidden\": [[58100], [12, 7]],\n  \"forced_first\": [4],\n"
            "  \"languages\": {\"from\": \"en\", \"to\": \"hi\"},\n  \"forced_end\": 0,\n"
            "  \"special_tokens\": \"allowed\"\n}\n");
}

TEST(Settings, OfSamplingNeedIt) {
  const auto field = [](const SearchSettings& named, bool samples = false) {
    try {
      check_sampling(named, samples);
      return std::string("none");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_EQ(std::string(error.what()),
                concat(error.field(), ": nothing is drawn by chance without sampling"));
      return std::string(error.field());
    }
  };
  EXPECT_EQ(field({.top_k = 3}), "top_k");
  EXPECT_EQ(field({.top_p = 0.5}), "top_p");
  EXPECT_EQ(field({.temperature = 0.5}), "temperature");
  EXPECT_EQ(field({.seed = 0}), "seed");
  EXPECT_EQ(field({.beam = 4, .temperature = 1.0, .top_k = 0, .top_p = 1.0}), "none");
  EXPECT_EQ(field({.temperature = 0.5, .top_k = 3, .top_p = 0.5, .seed = 1}, true), "none");
}

TEST(GenerationFile, WhatIsWrongIsNamed) {
  const auto error = [](const std::string& fields) {
    return raised_by([&] { generation_from_json("{\"format\": 1" + fields + "}", "g.json"); }).text;
  };
  EXPECT_EQ(error(", \"beams\": 4"), "g.json: there is no field beams");
  EXPECT_EQ(error(", \"beam\": 0"), "g.json: beam: expected an integer from 1 to 1048576, got 0");
  EXPECT_EQ(error(", \"beam\": null"),
            "g.json: beam: expected an integer from 1 to 1048576, got null");
  EXPECT_EQ(error(", \"early_stopping\": true"),
            "g.json: early_stopping: expected one of \"yes\" \"no\" \"never\", got true");
  EXPECT_EQ(error(", \"forbidden\": [[]]"),
            "g.json: forbidden: expected lists of at least one token, got an array");
  EXPECT_EQ(error(", \"forbidden\": [3]"), "g.json: forbidden: expected a list of tokens, got 3");
  EXPECT_EQ(error(", \"forced_first\": [-1]"), "g.json: forced_first: expected tokens, got -1");
  EXPECT_EQ(error(", \"languages\": {\"form\": \"en\"}"),
            "g.json: languages: there is no field form");
  EXPECT_EQ(error(", \"languages\": {\"from\": \"\"}"),
            "g.json: languages: from: expected the code of a language, got \"\"");
  EXPECT_EQ(raised_by([] { generation_from_json("{}", "g.json"); }).text,
            "g.json: format is missing, expected 1");
  EXPECT_EQ(raised_by([] { generation_from_json("{\"format\": 2}", "g.json"); }).text,
            "g.json: format: expected an integer from 1 to 1, got 2");
  EXPECT_EQ(raised_by([] { check_tokens(every_setting(), 100, "g.json"); }).text,
            "g.json: forbidden: token 58100 is not below the vocabulary of 100");
  GenerationSettings wrong;
  wrong.search.top_p = 2.0;
  EXPECT_EQ(raised_by([&] { to_json(wrong); }).code, ErrorCode::invalid_argument);
}

// Each field that is named wins; one that is not stays as it was below.
TEST(GenerationSettings, WhatIsNamedWins) {
  const SearchRule below = every_setting().search.over({.beam = 9, .n_best = 2, .seed = 5});
  EXPECT_EQ(below.beam, 4);
  EXPECT_EQ(below.n_best, 2);
  EXPECT_EQ(below.seed, 5u);
  EXPECT_EQ(below.early_stopping, EarlyStopping::never);
  EXPECT_EQ(SearchSettings{}.over(below), below);
  SearchRule expected = below;
  expected.min_tokens = 0;
  expected.length_penalty = 1.0;
  EXPECT_EQ((SearchSettings{.length_penalty = 1.0, .min_tokens = 0}.over(below)), expected);
  // Sampling and beams exclude each other: what the caller names decides.
  EXPECT_EQ((SearchSettings{.sample = true}.over(below).beam), 1);
  const SearchRule samples = SearchSettings{.sample = true}.over(below);
  EXPECT_FALSE((SearchSettings{.beam = 1}.over(samples).sample));
  EXPECT_TRUE((SearchSettings{.top_k = 3}.over(samples).sample));
}

}  // namespace
}  // namespace tril::generation_file_test
