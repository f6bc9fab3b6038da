// The engine under random schedules: whatever joins, is cancelled, times out or fails in between,
// every survivor gets what it gets alone, bit for bit.
#include "tril/decode/engine.h"

#include <algorithm>

#include "engine_support.h"
#include "support/property.h"
#include "tril/models/observer.h"
#include "tril/models/session_state.h"

namespace tril::engine_test {
namespace {

using std::chrono::seconds;
using testing::alone;
using testing::Asked;
using testing::Family;
using testing::holds_nothing;
using testing::kPoison;
using testing::listening_to;
using testing::long_greedy;
using testing::poisoned_model;
using testing::raised_by;
using testing::same;
using testing::small_options;
using testing::stream_is_whole;
using testing::Tokens;
using testing::Told;

std::shared_ptr<const SearchOptions> random_rule(const TransformerConfig& config) {
  auto options = std::make_shared<SearchOptions>(small_options());
  options->sample = *rc::gen::inRange(0, 3) == 0;
  options->beam = options->sample ? 1 : *rc::gen::element<int64_t>(1, 1, 2, 3, 5);
  options->n_best = *rc::gen::inRange<int64_t>(1, options->sample ? 4 : options->beam + 1);
  options->length_penalty = *rc::gen::element(0.0, 0.6, 1.0);
  options->max_tokens = *rc::gen::inRange<int64_t>(1, 14);
  options->temperature = *rc::gen::element(0.5, 1.0, 3.0);
  options->top_k = *rc::gen::element<int64_t>(0, 2, 4);
  options->top_p = *rc::gen::element(1.0, 0.7);
  options->seed = *rc::gen::inRange<uint64_t>(0, 1000);
  if (*rc::gen::inRange(0, 3) == 0) options->forbidden = {0, 5};
  const bool listed =
      !config.decoder_only() && testing::device() == Device::cpu && *rc::gen::inRange(0, 4) == 0;
  if (listed) options->shortlist = testing::random_shortlist(config, options->end);
  if (*rc::gen::arbitrary<bool>()) testing::add_random_rules(*options, config);
  return options;
}

std::vector<Asked> random_asked(const TransformerConfig& config, int count) {
  std::vector<std::shared_ptr<const SearchOptions>> rules;
  for (int i = 0; i < 4; ++i) rules.push_back(random_rule(config));
  std::vector<Asked> asked;
  for (SearchRequest& request : testing::random_requests(config, count, 6, 3, 1)) {
    request.stream = *rc::gen::inRange<int64_t>(0, 5);
    const auto rule = *rc::gen::elementOf(rules);
    testing::fit_to_rules(request, *rule);
    asked.push_back({std::move(request), rule, *rc::gen::arbitrary<bool>()});
    asked.back().terms.client = *rc::gen::inRange<uint64_t>(0, 3);
  }
  return asked;
}

bool is_poisoned(const Asked& asked) {
  const Tokens& source = asked.request.source;
  return std::find(source.begin(), source.end(), kPoison) != source.end();
}

RC_GTEST_PROP(Engine, SurvivorsGetWhatTheyGetAlone, ()) {
  if (testing::passed_over_on_cuda(3)) return;
  const Transformer model =
      poisoned_model(*rc::gen::element(Family::encoder_decoder, Family::decoder_only),
                     *rc::gen::inRange<uint64_t>(0, 100));
  auto asked = random_asked(model.config(), *rc::gen::inRange(1, 13));
  EngineClock::time_point now{};
  for (Asked& each : asked) {
    if (*rc::gen::inRange(0, 6) == 0) {
      each.terms.deadline = now + seconds(*rc::gen::inRange(0, 30));
    }
  }
  Session session(model, *rc::gen::inRange(1, 3));
  std::vector<Told> told(asked.size());
  std::vector<RequestId> ids(asked.size(), 0);
  std::vector<bool> cancelled(asked.size(), false);
  {
    Engine engine(model,
                  {.slots = *rc::gen::inRange<int64_t>(5, 20), .now = [&now] { return now; }},
                  session);
    size_t next = 0;
    while (next < asked.size() || !engine.idle()) {
      const int action = *rc::gen::inRange(0, 10);
      if (action < 3 && next < asked.size()) {
        ids[next] = engine.submit(asked[next].request, asked[next].options,
                                  listening_to(told[next], asked[next].streams), asked[next].terms);
        ++next;
      } else if (action == 3 && next > 0) {
        const auto which = *rc::gen::inRange<size_t>(0, next);
        const bool there = !told[which].outcome.has_value();
        RC_ASSERT(engine.cancel(ids[which]) == there);
        cancelled[which] = cancelled[which] || there;
      } else {
        now += seconds(*rc::gen::inRange(0, 3));
        engine.step();
      }
    }
    RC_ASSERT(session->cache.block_count() == 0);
  }
  RC_ASSERT(holds_nothing(session));
  for (size_t i = 0; i < asked.size(); ++i) {
    RC_ASSERT(told[i].outcome.has_value());
    const RequestOutcome& outcome = *told[i].outcome;
    RC_ASSERT(outcome.id == ids[i]);
    if (outcome.end == RequestEnd::timed_out) {
      RC_ASSERT(asked[i].terms.deadline.has_value());
      RC_ASSERT(outcome.error->code() == ErrorCode::timed_out);
      continue;
    }
    if (outcome.end == RequestEnd::cancelled) {
      RC_ASSERT(cancelled[i]);
      RC_ASSERT(outcome.error->code() == ErrorCode::cancelled);
      continue;
    }
    RC_ASSERT(!cancelled[i]);
    const Told expected = alone(model, asked[i]);
    RC_ASSERT(outcome.end == expected.outcome->end);
    // Rules may forbid every token of a small vocabulary.
    const SearchOptions& rule = *asked[i].options;
    const bool ruled_out = outcome.end == RequestEnd::failed &&
                           (rule.changes_values() || (rule.shortlist && rule.min_tokens > 0));
    RC_ASSERT((outcome.end == RequestEnd::failed) == is_poisoned(asked[i]) || ruled_out);
    RC_ASSERT(outcome.error.has_value() == (outcome.end == RequestEnd::failed));
    if (outcome.error) {
      RC_ASSERT(std::string(outcome.error->what()) == expected.outcome->error->what());
    }
    RC_ASSERT(same(outcome.hypotheses, expected.outcome->hypotheses));
    RC_ASSERT(told[i].stream == expected.stream);
    if (asked[i].streams && outcome.end == RequestEnd::finished) {
      RC_ASSERT(stream_is_whole(told[i], *asked[i].options));
    }
  }
}

// The engine's results are those of the slow search, which has neither cache nor batches.
RC_GTEST_PROP(Engine, MixedWidthsAreThePlainSearch, ()) {
  if (testing::passed_over_on_cuda(10)) return;
  const Transformer model =
      poisoned_model(Family::decoder_only, *rc::gen::inRange<uint64_t>(0, 50));
  auto asked = random_asked(model.config(), 6);
  Session session(model, 1);
  Engine engine(model, {.slots = 9}, session);
  std::vector<Told> told(asked.size());
  for (size_t i = 0; i < asked.size(); ++i) {
    engine.submit(asked[i].request, asked[i].options, listening_to(told[i], false));
  }
  while (engine.step()) {
  }
  for (size_t i = 0; i < asked.size(); ++i) {
    if (asked[i].options->sample || told[i].outcome->end == RequestEnd::failed) continue;
    auto expected = testing::slow_beam(model, asked[i].request, *asked[i].options);
    expected.resize(std::min(expected.size(), static_cast<size_t>(asked[i].options->n_best)));
    RC_ASSERT(same(told[i].outcome->hypotheses, expected));
  }
}

// A cancelled request has released everything when cancel() returns, and the others go on.
TEST(Engine, ACancelledRequestGivesItsSlotsBack) {
  const Transformer model = poisoned_model(Family::encoder_decoder, 3);
  Session session(model, 1);
  Engine engine(model, {.slots = 8}, session);
  const auto options = long_greedy();
  std::vector<Told> told(6);
  std::vector<RequestId> ids;
  for (size_t i = 0; i < told.size(); ++i) {
    ids.push_back(engine.submit({static_cast<int64_t>(i), {2, 3}, {}}, options,
                                listening_to(told[i], false)));
  }
  for (int step = 0; step < 5; ++step) engine.step();
  const int64_t pages = session->cache.block_count();
  for (const size_t i : {1u, 3u, 5u}) EXPECT_TRUE(engine.cancel(ids[i]));
  EXPECT_EQ(engine.requests(), 3);
  EXPECT_EQ(session->cache.block_count(), pages / 2);
  EXPECT_FALSE(engine.cancel(ids[1]));
  while (engine.step()) {
  }
  for (const size_t i : {0u, 2u, 4u}) EXPECT_EQ(told[i].outcome->end, RequestEnd::finished);
  EXPECT_EQ(session->cache.block_count(), 0);
}

// Requests that are decoded, that wait, that were cancelled before and that never were, in one
// call; everybody is told although a callback throws.
TEST(Engine, CancelsManyAtOnce) {
  const Transformer model = poisoned_model(Family::encoder_decoder, 3);
  Session session(model, 1);
  Engine engine(model, {.slots = 4}, session);
  const auto options = long_greedy();
  std::vector<int> ends(12);
  std::vector<RequestId> ids;
  for (size_t i = 0; i < ends.size(); ++i) {
    const auto done = [&ends, i](RequestOutcome&& outcome) {
      ends[i] += outcome.end == RequestEnd::cancelled ? 1 : 100;
      if (i == 1) throw std::runtime_error("on purpose");
    };
    ids.push_back(engine.submit({static_cast<int64_t>(i), {2, 3}, {}}, options, {.done = done},
                                {.client = i % 3}));
  }
  for (int step = 0; step < 3; ++step) engine.step();
  EXPECT_TRUE(engine.cancel(ids[0]));
  const std::vector<RequestId> some = {ids[11], ids[1], ids[0], 999, ids[6], ids[2], ids[7]};
  EXPECT_THROW(engine.cancel(some), std::runtime_error);
  EXPECT_EQ(ends, (std::vector<int>{1, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1}));
  EXPECT_EQ(engine.requests(), 6);
  EXPECT_EQ(engine.cancel(std::span(some)), 0);
  while (engine.step()) {
  }
  EXPECT_EQ(ends, (std::vector<int>{1, 1, 1, 100, 100, 100, 1, 1, 100, 100, 100, 1}));
  EXPECT_EQ(session->cache.block_count(), 0);
}

// The most rows of one call of the decoder.
struct RowCounter : Observer {
  void see(const Observation& seen) override {
    if (seen.stack == Stack::decoder && seen.site == Site::final_output) {
      most = std::max(most, seen.tensor.rows());
    }
  }
  int64_t most = 0;
};

// However many long prefixes wait, they are not all read in one step.
TEST(Engine, BoundsThePrefixesReadInOneStep) {
  const Transformer model = poisoned_model(Family::decoder_only, 3);
  Session session(model, 1);
  RowCounter rows;
  const ObserverScope scope(session, &rows);
  Engine engine(model, {.slots = 1000}, session);
  auto options = std::make_shared<SearchOptions>(*long_greedy());
  options->max_tokens = 1;
  const SearchRequest request{0, {}, Tokens(60, 2)};
  int64_t finished = 0;
  for (int i = 0; i < 500; ++i) {
    engine.submit(request, options, {.done = [&](RequestOutcome&&) { ++finished; }});
  }
  while (engine.step()) {
  }
  EXPECT_EQ(finished, 500);
  EXPECT_GT(rows.most, 2000) << "many are read together";
  EXPECT_LE(rows.most, 8192);
}

TEST(Engine, RefusesWhatItCannotDecode) {
  const Transformer model = poisoned_model(Family::encoder_decoder, 3);
  Session session(model, 1);
  Engine engine(model, {.slots = 4}, session);
  auto wide = std::make_shared<SearchOptions>(small_options());
  wide->beam = 5;
  EXPECT_EQ(raised_by([&] {
              engine.submit({0, {2}, {}}, wide, {});
            }).text,
            "search: 4 slots do not hold one request: beam is 5");
  const auto options = std::make_shared<const SearchOptions>(small_options());
  EXPECT_EQ(raised_by([&] {
              engine.submit({7, {}, {}}, options, {});
            }).code,
            ErrorCode::invalid_argument);
  EXPECT_TRUE(engine.idle());
  EXPECT_FALSE(engine.cancel(1));
  EXPECT_EQ(raised_by([&] { Engine(model, {.slots = 0}, session); }).text,
            "search: slots must be at least 1, got 0");
}
}  // namespace
}  // namespace tril::engine_test
