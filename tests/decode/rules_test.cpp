// What a model brings with it: no START, forced tokens, and rules that must make sense. The other
// rules are compared with the slow search (search_test.cpp, engine_test.cpp) and with generate() of
// transformers (tests/hub).
#include "slow_search.h"
#include "tril/decode/score.h"

namespace tril::rules_test {
namespace {

using testing::Family;
using testing::raised_by;
using testing::run_search;
using testing::same;
using testing::sharp_model;
using testing::small_options;

// A model without START begins with the first token of its prefix, and scores like it.
TEST(Rules, BeginsWithThePrefixWhereThereIsNoStart) {
  const Transformer model = sharp_model(Family::decoder_only, 9, 5, 12);
  SearchOptions options = small_options();
  options.start.reset();
  options.forbidden = {1};  // END
  options.max_tokens = 0;
  Session session(model, 1);
  for (const int64_t beam : {1, 3}) {
    options.beam = beam;
    for (const testing::Tokens& prefix : {testing::Tokens{4}, testing::Tokens{4, 2, 7}}) {
      SearchRequest request;
      request.prefix = prefix;
      const auto found = run_search(model, options, beam, {request}, session)[0].hypotheses;
      EXPECT_TRUE(same(found, testing::slow_beam(model, request, options)));
      EXPECT_EQ(found[0].tokens.size(), 13u) << "the last of them is not read";
      EXPECT_EQ(found[0].log_probs[0], 0.0f);
      testing::Tokens target = found[0].tokens;
      target.pop_back();  // a target has at most max_length tokens
      const ScoreResult scored = score(model, {.start = {}}, {0, {}, target}, session);
      EXPECT_TRUE(
          std::equal(scored.log_probs.begin(), scored.log_probs.end(), found[0].log_probs.begin()));
    }
  }
  EXPECT_EQ(raised_by([&] { run_search(model, options, 3, {SearchRequest{}}, session); }).text,
            "search: request 0: the model has no START: it needs a text to continue");
  const Transformer translates = sharp_model(Family::encoder_decoder, 9, 5);
  Session other(translates, 1);
  EXPECT_EQ(raised_by([&] {
              run_search(translates, options, 3, {SearchRequest{0, {3}, {}}}, other);
            }).text,
            "search: no START, but the model has an encoder: its targets need one");
}

// Forced tokens count as written, but not in the sum that ranks; nor does a forced END.
TEST(Rules, WhatIsForcedCostsNothing) {
  const Transformer model = sharp_model(Family::encoder_decoder, 9, 5);
  SearchOptions options = small_options();
  options.beam = options.n_best = 3;
  options.length_penalty = 1.0;
  options.max_tokens = 4;
  options.min_tokens = 4;
  options.forced_end = options.end;
  SearchRequest request{0, {3, 4}, {7, 6}};
  request.forced = 1;
  Session session(model, 1);
  const auto found = run_search(model, options, 3, {request}, session)[0].hypotheses;
  ASSERT_EQ(found.size(), 3u);
  for (const Hypothesis& h : found) {
    ASSERT_EQ(h.tokens.size(), 5u) << "the forced one, the given one, two chosen ones and END";
    EXPECT_TRUE(h.ended);
    const double sum = double{h.log_probs[1]} + double{h.log_probs[2]} + double{h.log_probs[3]};
    EXPECT_NEAR(h.rank, sum / 5.0, 1e-12);
    EXPECT_LT(h.score, sum);
  }
  EXPECT_TRUE(same(found, testing::slow_beam(model, request, options)));
}

TEST(Rules, RulesAreChecked) {
  const Transformer model = sharp_model(Family::encoder_decoder, 9, 5);
  Session session(model, 1);
  const auto error = [&](const auto& change) {
    SearchOptions options = small_options();
    change(options);
    return raised_by([&] { run_search(model, options, 3, {}, session); }).text;
  };
  EXPECT_EQ(error([](SearchOptions& o) { o.forced_end = 5; }),
            "search: forced_end is token 5, which is not an END");
  EXPECT_EQ(error([](SearchOptions& o) { o.more_ends = {9}; }),
            "search: end is token 9, which is not in the vocabulary of 9");
  EXPECT_EQ(error([](SearchOptions& o) { o.forbidden_sequences = {{4}}; }),
            "search: a forbidden sequence of 1 tokens, expected two or more");
  EXPECT_EQ(error([](SearchOptions& o) { o.repetition_penalty = 0.0; }),
            "search: repetition_penalty must be above 0, got 0");
  EXPECT_EQ(error([](SearchOptions& o) { o.min_tokens = -1; }),
            "search: min_tokens must be at least 0, got -1");
}

}  // namespace
}  // namespace tril::rules_test
