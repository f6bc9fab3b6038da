// Scores: equal to what search reported, and to the training pass.
#include "tril/decode/score.h"

#include <algorithm>

#include "slow_search.h"
#include "support/models.h"
#include "tril/device/device.h"
#include "tril/models/session_state.h"

namespace tril::score_test {
namespace {

using testing::equal_bits;
using testing::Family;
using testing::raised_by;
using testing::random_config;
using testing::random_model;
using testing::random_requests;
using testing::run_search;
using testing::sharp_model;
using testing::Tokens;

std::vector<ScoreResult> score_all(const Transformer& model, const ScoreOptions& options,
                                   const std::vector<ScoreRequest>& requests, Session& session) {
  size_t handed_out = 0;
  std::vector<ScoreResult> results;
  score(
      model, options,
      [&]() -> std::optional<ScoreRequest> {
        if (handed_out == requests.size()) return std::nullopt;
        return requests[handed_out++];
      },
      [&](ScoreResult&& result) {
        results.push_back(std::move(result));
        return true;
      },
      session);
  return results;
}

// The score of emitted tokens is the reported score: ==, for every way of decoding and batching.
RC_GTEST_PROP(Score, EqualsWhatSearchReported, ()) {
  if (testing::passed_over_on_cuda(5)) return;
  const TransformerConfig config = random_config();
  const Transformer model =
      testing::any_form(random_model(config, *rc::gen::arbitrary<uint64_t>()));
  SearchOptions options;
  options.start = 0;
  options.end = 1;
  options.forbidden = {0};
  options.max_tokens = 20;
  options.sample = *rc::gen::arbitrary<bool>();
  options.beam = options.sample ? 1 : 4;
  options.n_best = 3;
  const auto requests = random_requests(config, 6, 20, 5, options.end);
  Session session(model, *rc::gen::inRange(1, 3));
  const auto found = run_search(model, options, 9, requests, session);
  std::vector<ScoreRequest> targets;
  std::vector<Hypothesis> hypotheses;
  for (const SearchResult& result : found) {
    for (const Hypothesis& h : result.hypotheses) {
      targets.push_back({.number = static_cast<int64_t>(targets.size()),
                         .source = requests[static_cast<size_t>(result.number)].source,
                         .target = h.tokens});
      hypotheses.push_back(h);
    }
  }
  const ScoreOptions scoring{.start = 0, .batch_tokens = *rc::gen::inRange<int64_t>(1, 400)};
  const auto scores = score_all(model, scoring, targets, session);
  RC_ASSERT(scores.size() == hypotheses.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    RC_ASSERT(scores[i].number == static_cast<int64_t>(i));
    RC_ASSERT(equal_bits(scores[i].log_probs, hypotheses[i].log_probs));
    RC_ASSERT(scores[i].score == hypotheses[i].score);
  }
  RC_ASSERT(score(model, scoring, targets[0], session).score == hypotheses[0].score);
  RC_ASSERT(session->cache.block_count() == 0);
}

// Any target: the rows of a training pass over it.
RC_GTEST_PROP(Score, EqualsTheTrainingPass, ()) {
  if (testing::passed_over_on_cuda(5)) return;
  const TransformerConfig config = random_config();
  const Transformer model = random_model(config, *rc::gen::arbitrary<uint64_t>());
  Session session(model, 1);
  std::vector<ScoreRequest> requests;
  for (const auto& s : testing::random_sentences(config, 4, 30)) {
    requests.push_back({.number = 5, .source = s.source, .target = s.target});
  }
  requests[2].target.clear();
  const auto scores = score_all(model, {.start = 2}, requests, session);
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto rows =
        testing::parallel_log_probs(model, requests[i].source, 2, requests[i].target, session);
    double sum = 0.0;
    RC_ASSERT(scores[i].log_probs.size() == requests[i].target.size());
    for (size_t t = 0; t < requests[i].target.size(); ++t) {
      const float expected = rows[t][static_cast<size_t>(requests[i].target[t])];
      RC_ASSERT(scores[i].log_probs[t] == expected);
      sum += double{expected};
    }
    RC_ASSERT(scores[i].score == sum);
  }
}

TEST(Score, StreamsWithFlatMemoryAndStops) {
  const Transformer model = sharp_model(Family::encoder_decoder, 9, 2);
  Session session(model, 1);
  int64_t handed_out = 0, back = 0, most_waiting = 0, allocations = 0;
  const auto next = [&]() -> std::optional<ScoreRequest> {
    return ScoreRequest{handed_out++, Tokens(5, 3), Tokens(4, 5)};
  };
  score(
      model, {.batch_tokens = 50}, next,
      [&](ScoreResult&& result) {
        EXPECT_EQ(result.number, back);
        most_waiting = std::max(most_waiting, handed_out - back);
        if (back == 100) allocations = allocation_count();
        return ++back < 500;
      },
      session);
  EXPECT_EQ(back, 500);
  EXPECT_EQ(most_waiting, 5);
  if (testing::device() == Device::cpu) {
    EXPECT_EQ(allocation_count(), allocations);  // of arenas and caches
  }
  EXPECT_EQ(session->cache.block_count(), 0);
}

TEST(Score, RequestsAreChecked) {
  const Transformer model = sharp_model(Family::encoder_decoder, 6, 5, 8);
  Session session(model, 1);
  const auto text = [&](const ScoreRequest& request, const ScoreOptions& options = {}) {
    const auto raised = raised_by([&] { score_all(model, options, {request}, session); });
    EXPECT_EQ(raised.code, ErrorCode::invalid_argument);
    EXPECT_EQ(raised_by([&] { score(model, options, request, session); }).text, raised.text);
    return raised.text;
  };
  EXPECT_EQ(text({7, {}, {1}}), "score: request 7: the source is empty");
  EXPECT_EQ(text({7, {1}, {6}}),
            "score: request 7: token 6 at 0 of the target is not below the vocabulary of 6");
  EXPECT_EQ(text({7, {1}, Tokens(9, 2)}),
            "score: request 7: the target has 9 tokens, the model's max_length is 8");
  EXPECT_EQ(text({7, {1}, {1}}, {.start = 7}),
            "score: start is token 7, which is not in the vocabulary of 6");
  EXPECT_EQ(text({7, {1}, {1}}, {.batch_tokens = 0}),
            "score: batch_tokens must be at least 1, got 0");
  EXPECT_NO_THROW(score(model, {}, {7, Tokens(8, 1), Tokens(8, 2)}, session));
}

}  // namespace
}  // namespace tril::score_test
