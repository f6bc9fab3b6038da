// Log-probabilities of given translations.
#include "tril/decode/score.h"

#include "translate/examples.h"

namespace tril::score_test {
namespace {

using testing::Family;
using testing::lines;
using testing::quick_options;
using testing::raised_by;
using testing::score_all;
using testing::tokenizer;
using testing::Tokens;
using testing::translator_for;

TEST(Translator, ScoresWhatItEmittedAsItReported) {
  const Translator translator = translator_for(Family::encoder_decoder);
  std::vector<ScoreTextRequest> requests;
  std::vector<double> expected;
  for (const Translation& t : translator.translate(lines(), quick_options())) {
    if (t.text().empty()) continue;
    requests.push_back({.source = lines()[static_cast<size_t>(t.number)],
                        .target_tokens = t.hypotheses[0].tokens});
    expected.push_back(t.hypotheses[0].score);
  }
  ASSERT_GE(requests.size(), 5u);
  const auto scores = score_all(translator, requests);
  ASSERT_EQ(scores.size(), expected.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    EXPECT_EQ(scores[i].number, static_cast<int64_t>(i));
    EXPECT_EQ(scores[i].score, expected[i]);
    EXPECT_EQ(scores[i].tokens, *requests[i].target_tokens);
    EXPECT_EQ(scores[i].pieces.size(), scores[i].tokens.size());
  }
}

TEST(Translator, ScoresTextWithItsEnd) {
  const Translator translator = translator_for(Family::encoder_decoder);
  const auto scores = score_all(
      translator, {{.source = "how are you", .target = "मैं ठीक हूँ"}, {.source = "", .target = ""}});
  Tokens source = tokenizer().encode("how are you");
  Tokens target = tokenizer().encode("मैं ठीक हूँ");
  source.push_back(Tokenizer::kEnd);
  target.push_back(Tokenizer::kEnd);
  Session session(translator.model(), 1);
  EXPECT_EQ(scores[0].tokens, target);
  EXPECT_EQ(scores[0].score, score(translator.model(), {}, {0, source, target}, session).score);
  EXPECT_EQ(scores[1].tokens, Tokens{Tokenizer::kEnd});
  EXPECT_EQ(scores[1].pieces, std::vector<std::string>{"</s>"});
}

TEST(Translator, ScoresNameTheLineOrSkipIt) {
  const Translator translator = translator_for(Family::encoder_decoder);
  const std::vector<ScoreTextRequest> requests = {
      {.source = "you", .target = "you"},
      {.source = "you", .target_tokens = Tokens{4, 9999}},
      {.source = "you \xc0", .target = "you"},
      {.source = "you", .target_tokens = Tokens(41, 5)},
      {.source = "you", .target = "you"},
      {.source = "you", .target = "you", .fault = "the target has no end"}};
  EXPECT_EQ(raised_by([&] { score_all(translator, requests); }).text,
            "score: line 2: token 9999 is not below the vocabulary of " +
                std::to_string(tokenizer().vocab()));
  const auto scores = score_all(translator, requests, {.bad_lines = BadLine::skip});
  ASSERT_EQ(scores.size(), 6u);
  EXPECT_EQ(scores[5].skipped, "the target has no end");
  EXPECT_EQ(scores[3].skipped, "the target has 41 tokens, the model takes 40 at most");
  EXPECT_NE(scores[2].skipped, "");
  EXPECT_EQ(scores[4].skipped, "");
  EXPECT_EQ(scores[4].score, scores[0].score);
}

}  // namespace
}  // namespace tril::score_test
