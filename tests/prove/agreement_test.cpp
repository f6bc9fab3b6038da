#include "tril/prove/agreement.h"

#include <algorithm>

#include "support/models.h"
#include "support/property.h"
#include "tril/decode/search.h"
#include "tril/models/session_state.h"
#include "tril/prove/stepwise.h"

namespace tril::agreement_test {
namespace {

using testing::Family;

std::vector<TokenPair> pairs_for(const TransformerConfig& config, int count) {
  std::vector<TokenPair> pairs;
  for (const auto& sentence : testing::random_sentences(config, count, 9)) {
    pairs.push_back({sentence.source, sentence.target});
  }
  return pairs;
}

RC_GTEST_PROP(Agreement, NothingDiffersInAnyModel, ()) {
  if (testing::passed_over_on_cuda(5)) return;
  const TransformerConfig config = testing::random_config();
  const Transformer model = testing::random_model(config, 3);
  Session session(model, 2);
  const auto pairs = pairs_for(model.config(), 3);
  const Agreement result = compare_parallel_with_stepwise(model, pairs, session);
  int64_t positions = 0;
  for (const TokenPair& pair : pairs) positions += static_cast<int64_t>(pair.target.size());
  RC_ASSERT(result.sentences == 3);
  RC_ASSERT(result.sequences == 3);
  RC_ASSERT(result.parallel_calls == 3);
  RC_ASSERT(result.stepwise_calls == positions);
  RC_ASSERT(result.positions == positions);
  RC_ASSERT(result.logits == positions * model.config().target_vocab);
  RC_ASSERT(result.differing == 0);
  RC_ASSERT(!result.first);
  RC_ASSERT(result.same());
  // The encoder's outputs, and keys and values for each decoder layer.
  int64_t sources = 0;
  for (const TokenPair& pair : pairs) sources += static_cast<int64_t>(pair.source.size());
  const TransformerConfig& c = model.config();
  RC_ASSERT(result.source_values ==
            sources * (c.model + 2 * c.decoder_layers * c.kv_heads * c.head_dim));
  RC_ASSERT(result.source_differing == 0);
  RC_ASSERT(session->cache.block_count() == 0);
}

// The same tokens in batches: sentence i joins at step i, and all are one parallel pass.
RC_GTEST_PROP(Agreement, NothingDiffersInBatches, ()) {
  if (testing::passed_over_on_cuda(5)) return;
  const TransformerConfig config = testing::random_config();
  const Transformer model = testing::random_model(config, 3);
  Session session(model, 2);
  const auto pairs = pairs_for(model.config(), 4);
  const Agreement result =
      compare_parallel_with_stepwise(model, pairs, session, {.company = Company::in_batches});
  size_t positions = 0, steps = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    positions += pairs[i].target.size();
    steps = std::max(steps, i + pairs[i].target.size());
  }
  // A step without any active sentence is not a call.
  std::vector<bool> busy(steps, false);
  for (size_t i = 0; i < pairs.size(); ++i) {
    for (size_t k = 0; k < pairs[i].target.size(); ++k) busy[i + k] = true;
  }
  RC_ASSERT(result.parallel_calls == 1);
  RC_ASSERT(result.stepwise_calls == std::count(busy.begin(), busy.end(), true));
  RC_ASSERT(result.positions == static_cast<int64_t>(positions));
  RC_ASSERT(result.differing == 0);
  RC_ASSERT(session->cache.block_count() == 0);
}

RC_GTEST_PROP(Agreement, NothingDiffersInWhatAModelWrites, ()) {
  if (testing::passed_over_on_cuda(5)) return;
  const TransformerConfig config = testing::random_config();
  const Transformer model = testing::random_model(config, *rc::gen::arbitrary<uint64_t>());
  Session session(model, 2);
  const auto pairs = pairs_for(model.config(), 3);
  for (const Writing writing : {Writing::greedy, Writing::beam}) {
    for (const Company company : {Company::alone, Company::in_batches}) {
      const Agreement result = compare_parallel_with_stepwise(model, pairs, session,
                                                              {.writing = writing,
                                                               .company = company,
                                                               .max_tokens = 6,
                                                               .start = 0,
                                                               .end = 1,
                                                               .beam = 3});
      RC_ASSERT(result.sentences == 3);
      RC_ASSERT(result.sequences >= 3);
      RC_ASSERT(result.positions >= result.sequences);
      RC_ASSERT(result.positions <= 6 * result.sequences);
      RC_ASSERT(result.differing == 0);
      RC_ASSERT(result.source_differing == 0);
      RC_ASSERT(result.misread == 0);
      RC_ASSERT(result.moved <= result.forked);
      RC_ASSERT(session->cache.block_count() == 0);
    }
  }
}

// Results of a search over the pairs: tokens with START, without those that were not read any more.
std::vector<std::vector<int32_t>> searched(const Transformer& model,
                                           std::span<const TokenPair> pairs,
                                           const SearchOptions& options, Session& session) {
  std::vector<std::vector<int32_t>> all;
  size_t next = 0;
  search(
      model, options, 4 * options.beam,
      [&]() -> std::optional<SearchRequest> {
        if (next == pairs.size()) return std::nullopt;
        const SearchRequest request{static_cast<int64_t>(next), pairs[next].source, {}};
        ++next;
        return request;
      },
      [&](SearchResult&& result) {
        for (const Hypothesis& found : result.hypotheses) {
          auto& tokens = all.emplace_back(std::vector<int32_t>{*options.start});
          tokens.insert(tokens.end(), found.tokens.begin(), found.tokens.end() - 1);
        }
        return true;
      },
      session);
  return all;
}

// The comparison uses what search() writes: each of its results is among the transcripts, or the
// beginning of one; for greedy search there is nothing else.
TEST(Agreement, ComparesWhatSearchWrites) {
  const TransformerConfig config = testing::tiny_config(Family::encoder_decoder);
  const Transformer model = testing::random_model(config, 12);
  Session session(model, 1);
  const std::vector<TokenPair> pairs = {{{1, 2, 3}, {2}}, {{5, 4}, {2}}, {{7, 8, 9, 1}, {2}}};
  for (const int64_t beam : {1, 3}) {
    SearchOptions options;
    options.beam = options.n_best = beam;
    options.max_tokens = 8;
    options.forbidden = {5};
    const auto expected = searched(model, pairs, options, session);
    const auto written = write_step_by_step(model, pairs,
                                            {.writing = beam == 1 ? Writing::greedy : Writing::beam,
                                             .max_tokens = 8,
                                             .forbidden = {5},
                                             .beam = beam},
                                            session);
    if (beam == 1) {
      EXPECT_EQ(written.transcripts.size(), expected.size());
    }
    for (const auto& tokens : expected) {
      EXPECT_TRUE(std::ranges::any_of(written.transcripts, [&](const Transcript& t) {
        return t.tokens.size() >= tokens.size() &&
               std::equal(tokens.begin(), tokens.end(), t.tokens.begin());
      }));
    }
    for (const Transcript& transcript : written.transcripts) {
      EXPECT_EQ(transcript.logits.size(), transcript.tokens.size());
    }
    EXPECT_EQ(written.misread, 0);
    ASSERT_EQ(written.sources.size(), 3u);
  }
}

// The beam is a real one: hypotheses take over each other's cache. Copies of what all hold anyway
// do not count: after one token all four have read START alone.
TEST(Agreement, HypothesesAreForked) {
  const TransformerConfig config = testing::tiny_config(Family::decoder_only);
  const Transformer model = testing::random_model(config, 12);
  Session session(model, 1);
  const std::vector<TokenPair> pairs = {{{}, {2}}, {{}, {2}}};
  const Agreement result = compare_parallel_with_stepwise(
      model, pairs, session, {.writing = Writing::beam, .max_tokens = 20, .forbidden = {3}});
  EXPECT_GT(result.moved, 10);
  EXPECT_GT(result.forked, result.moved);
  EXPECT_GE(result.sequences, 8);
  EXPECT_EQ(result.differing, 0);
  const Agreement brief = compare_parallel_with_stepwise(
      model, std::span(pairs).first(1), session, {.writing = Writing::beam, .max_tokens = 2});
  EXPECT_EQ(brief.forked, 3);
  EXPECT_EQ(brief.moved, 0);
  const AgreementLine line{.writing = Writing::beam, .figures = brief};
  EXPECT_TRUE(brief.same());
  EXPECT_FALSE(line.holds());
  EXPECT_TRUE((AgreementLine{.writing = Writing::greedy, .figures = brief}.holds()));
}

// Each figure that must be zero, or not be, counts.
TEST(Agreement, EachFigureCounts) {
  const Transformer model =
      testing::random_model(testing::tiny_config(Family::encoder_decoder), 12);
  Session session(model, 1);
  const std::vector<TokenPair> pairs = {{{1, 2, 3}, {2, 4, 5}}};
  const Agreement good = compare_parallel_with_stepwise(model, pairs, session);
  EXPECT_TRUE(good.same());
  const auto with = [&](int64_t Agreement::*field, int64_t value) {
    Agreement changed = good;
    changed.*field = value;
    return changed.same();
  };
  EXPECT_FALSE(with(&Agreement::logits, 0));
  EXPECT_FALSE(with(&Agreement::differing, 1));
  EXPECT_FALSE(with(&Agreement::source_differing, 1));
  EXPECT_FALSE(with(&Agreement::misread, 1));
}

// The encoder's results depend on every token of the source.
TEST(Agreement, TheSourceIsRecorded) {
  const Transformer model =
      testing::random_model(testing::tiny_config(Family::encoder_decoder), 12);
  Session session(model, 1);
  const auto sources = [&](int32_t token) {
    const std::vector<TokenPair> pairs = {{{1, 2, token}, {2, 4}}, {{5}, {2}}};
    return write_step_by_step(model, pairs, {.company = Company::in_batches}, session).sources;
  };
  const auto before = sources(3), after = sources(4);
  ASSERT_EQ(before.size(), 2u);
  ASSERT_EQ(before[0].size(), 3u * (8 + 2 * 8));
  for (size_t part : {0u, 24u, 48u}) {  // outputs, keys, values: rows of the first token too
    EXPECT_FALSE(testing::same_bits(testing::rows_of(before[0], 8, static_cast<int64_t>(part / 8)),
                                    testing::rows_of(after[0], 8, static_cast<int64_t>(part / 8))));
  }
  EXPECT_TRUE(testing::same_bits(before[1], after[1]));
}

// An observer of the session still sees everything.
TEST(Agreement, AnotherObserverSeesEverything) {
  const TransformerConfig config = testing::tiny_config(Family::decoder_only);
  const Transformer model = testing::random_model(config, 12);
  Session session(model, 1);
  ForwardCounter counter;
  session->observer = &counter;
  const std::vector<TokenPair> pairs = {{{}, {2, 4, 5}}};
  EXPECT_EQ(write_step_by_step(model, pairs, {}, session).calls, 3);
  EXPECT_EQ(counter.calls(), 3);
  EXPECT_EQ(session->observer, &counter);
}

// A mask that is one key too wide is seen: in the parallel pass a row then sees the next token,
// which token by token does not exist yet.
TEST(Agreement, AWidenedMaskIsFound) {
  const TransformerConfig config = testing::tiny_config(Family::encoder_decoder);
  const Transformer model = testing::random_model(config, 3);
  Session session(model, 1);
  const std::vector<TokenPair> pairs = {{{1, 2, 3}, {4, 5, 6, 7}}};
  EXPECT_EQ(compare_parallel_with_stepwise(model, pairs, session).differing, 0);
  session->hooks.widen_head = 1;
  session->hooks.widen_row = 1;
  const Agreement widened = compare_parallel_with_stepwise(model, pairs, session);
  EXPECT_EQ(widened.differing, 11);  // the logits of that row, and of no other
  EXPECT_EQ(widened.first, (Agreement::Place{0, 1}));
}

// A cache whose entries lie one position early: the second token is the first that reads one.
TEST(Agreement, AShiftedCacheIsFoundInEveryWay) {
  const TransformerConfig config = testing::tiny_config(Family::decoder_only);
  const Transformer model = testing::random_model(config, 3);
  Session session(model, 1);
  session->hooks.shift_cache = true;
  const std::vector<TokenPair> pairs = {{{}, {4, 5, 6, 7}}, {{}, {1, 2, 3}}};
  for (const Writing writing : {Writing::teacher_forced, Writing::greedy, Writing::beam}) {
    for (const Company company : {Company::alone, Company::in_batches}) {
      const Agreement result = compare_parallel_with_stepwise(
          model, pairs, session,
          {.writing = writing, .company = company, .max_tokens = 4, .end = 10});
      EXPECT_GT(result.differing, 0);
      EXPECT_FALSE(result.same());
      ASSERT_TRUE(result.first);
      EXPECT_EQ(result.first->position, 1);  // START has no cache to read
    }
  }
}

// A bias read one position late, or scales left out, in calls that continue a sequence: the second
// token is the first of them.
TEST(Agreement, AShiftedBiasAndSkippedScalesAreFound) {
  TransformerConfig config = testing::tiny_config(Family::encoder_decoder);
  config.position = PositionType::relative;
  config.norm_position = NormPosition::pre;
  const auto differs_with = [&](bool TestHooks::*hook) {
    const Transformer model = testing::random_model(config, 3);
    Session session(model, 1);
    const std::vector<TokenPair> pairs = {{{1, 2, 3}, {4, 5, 6, 7}}, {{4, 1}, {1, 2, 3}}};
    EXPECT_TRUE(compare_parallel_with_stepwise(model, pairs, session).same());
    session->hooks.*hook = true;
    const Agreement result = compare_parallel_with_stepwise(model, pairs, session);
    EXPECT_EQ(result.same(), result.differing == 0);
    if (result.first) {
      EXPECT_EQ(result.first->position, 1);
    }
    return result.differing > 0;
  };
  EXPECT_TRUE(differs_with(&TestHooks::shift_bias));
  EXPECT_FALSE(differs_with(&TestHooks::skip_scales));  // it has none of its own
  config.attention_scale = 1.0;
  EXPECT_TRUE(differs_with(&TestHooks::skip_scales));
  config.attention_scale = 0.0;
  config.output_scale = 0.25;
  EXPECT_TRUE(differs_with(&TestHooks::skip_scales));
}

// Blocks of keys in an order that depends on the batch: found where there is more than one block.
TEST(Agreement, AnOrderThatDependsOnTheBatchIsFound) {
  TransformerConfig config = testing::tiny_config(Family::decoder_only);
  config.max_length = 200;
  const Transformer model = testing::random_model(config, 3);
  Session session(model, 1);
  session->hooks.order_by_batch = true;
  const auto short_ones = random_pairs(config, 2, 64, 5);
  EXPECT_EQ(compare_parallel_with_stepwise(model, short_ones, session).differing, 0);
  const auto long_ones = random_pairs(config, 2, 130, 5);
  const Agreement result = compare_parallel_with_stepwise(model, long_ones, session);
  EXPECT_GT(result.differing, 0);
  ASSERT_TRUE(result.first);
  EXPECT_GE(result.first->position, 64);
  session->hooks = {};
  EXPECT_EQ(compare_parallel_with_stepwise(model, long_ones, session).differing, 0);
}

// However it ends, the cache is released.
TEST(Agreement, NaNIsAnErrorWhereATokenIsToBeChosen) {
  const TransformerConfig config = testing::tiny_config(Family::decoder_only);
  Transformer model = testing::random_model(config, 3);
  testing::change_weights(model, [](const std::string&, std::vector<float>& values, const Shape&) {
    std::fill(values.begin(), values.end(), std::numeric_limits<float>::quiet_NaN());
  });
  Session session(model, 1);
  const std::vector<TokenPair> pairs = {{{}, {4, 5}}};
  const auto raised = testing::raised_by(
      [&] { compare_parallel_with_stepwise(model, pairs, session, {.writing = Writing::greedy}); });
  EXPECT_EQ(raised.code, ErrorCode::bad_format);
  EXPECT_EQ(raised.text,
            "search: request 0: the model gives no allowed token a probability at position 0 (NaN, "
            "or all forbidden)");
  EXPECT_EQ(session->cache.block_count(), 0);
  EXPECT_FALSE(session->cache.is_open(0));
  EXPECT_EQ(session->observer, nullptr);
}

}  // namespace
}  // namespace tril::agreement_test
