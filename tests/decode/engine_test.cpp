// The engine under random schedules: whatever joins, is cancelled, times out or fails in between,
// every survivor gets what it gets alone, bit for bit.
#include "tril/decode/engine.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "slow_search.h"
#include "support/models.h"
#include "support/property.h"
#include "support/scarce_memory.h"
#include "tril/decode/ahead_backend.h"
#include "tril/decode/engine_thread.h"
#include "tril/decode/intake.h"

namespace tril::engine_test {
namespace {

using std::chrono::seconds;
using testing::Family;
using testing::raised_by;
using testing::same;
using testing::small_options;
using testing::Tokens;

constexpr int32_t kPoison = 8;  // a source token whose embedding is NaN

// A sharp model; a source with kPoison leads to NaN, and to nothing else.
Transformer poisoned_model(Family family, uint64_t seed) {
  TransformerConfig config = testing::tiny_config(family);
  config.target_vocab = 9;
  config.tied = false;
  if (family == Family::encoder_decoder) config.source_vocab = 9;
  config.max_length = 64;
  Transformer model(config, seed, testing::placement());
  Random random(seed, 777);
  testing::change_weights(
      model, [&](const std::string& name, std::vector<float>& values, const Shape& shape) {
        for (float& value : values) value += random.uniform(-0.5f, 0.5f);
        if (name != "source_embedding.weight") return;
        std::fill_n(values.begin() + kPoison * shape[1], shape[1], NAN);
      });
  return model;
}

// What a request was told, in order.
struct Told {
  std::vector<std::pair<int64_t, Tokens>> stream;  // sample, tokens
  std::vector<std::vector<float>> stream_log_probs;
  std::optional<RequestOutcome> outcome;
};

RequestEvents listening_to(Told& told, bool streams) {
  RequestEvents events;
  events.done = [&told](RequestOutcome&& outcome) {
    EXPECT_FALSE(told.outcome) << "told twice";
    told.outcome = std::move(outcome);
  };
  if (streams) {
    events.tokens = [&told](const StreamedTokens& news) {
      EXPECT_FALSE(told.outcome) << "tokens after the end";
      told.stream.emplace_back(news.sample, Tokens(news.tokens.begin(), news.tokens.end()));
      told.stream_log_probs.emplace_back(news.log_probs.begin(), news.log_probs.end());
    };
  }
  return events;
}

struct Asked {
  SearchRequest request;
  std::shared_ptr<const SearchOptions> options;
  bool streams = false;
  RequestTerms terms{};
};

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
  return options;
}

std::vector<Asked> random_asked(const TransformerConfig& config, int count) {
  std::vector<std::shared_ptr<const SearchOptions>> rules;
  for (int i = 0; i < 4; ++i) rules.push_back(random_rule(config));
  std::vector<Asked> asked;
  for (SearchRequest& request : testing::random_requests(config, count, 6, 3, 1)) {
    request.stream = *rc::gen::inRange<int64_t>(0, 5);
    asked.push_back({std::move(request), *rc::gen::elementOf(rules), *rc::gen::arbitrary<bool>()});
    asked.back().terms.client = *rc::gen::inRange<uint64_t>(0, 3);
  }
  return asked;
}

bool is_poisoned(const Asked& asked) {
  const Tokens& source = asked.request.source;
  return std::find(source.begin(), source.end(), kPoison) != source.end();
}

int64_t width_of_asked(const Asked& asked) {
  return asked.options->sample ? asked.options->n_best : asked.options->beam;
}

Told alone(const Transformer& model, const Asked& asked) {
  Told told;
  Session session(model, 1);
  Engine engine(model, {.slots = width_of_asked(asked)}, session);
  engine.submit(asked.request, asked.options, listening_to(told, asked.streams));
  while (engine.step()) {
  }
  return told;
}

bool holds_nothing(Session& session) {
  const auto kept = std::static_pointer_cast<KeptForEngine>(session.kept_for_engine);
  for (int32_t segment = 0; segment < 1000; ++segment) {
    if (kept->encoded.memory().holds(segment)) return false;
  }
  return session.cache.block_count() == 0;
}

// The parts of a stream add up to the result of the request.
bool stream_is_whole(const Told& told, const SearchOptions& options) {
  const auto& results = told.outcome->hypotheses;
  const size_t samples = options.sample ? results.size() : 1;
  for (size_t sample = 0; sample < samples; ++sample) {
    Tokens joined;
    std::vector<float> log_probs;
    for (size_t i = 0; i < told.stream.size(); ++i) {
      if (told.stream[i].first != static_cast<int64_t>(sample)) continue;
      const Tokens& tokens = told.stream[i].second;
      joined.insert(joined.end(), tokens.begin(), tokens.end());
      log_probs.insert(log_probs.end(), told.stream_log_probs[i].begin(),
                       told.stream_log_probs[i].end());
    }
    if (joined != results[sample].tokens) return false;
    if (!testing::equal_bits(log_probs, results[sample].log_probs)) return false;
  }
  return true;
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
    RC_ASSERT(session.cache.block_count() == 0);
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
    RC_ASSERT((outcome.end == RequestEnd::failed) == is_poisoned(asked[i]));
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
    if (asked[i].options->sample) continue;
    auto expected = testing::slow_beam(model, asked[i].request, *asked[i].options);
    expected.resize(std::min(expected.size(), static_cast<size_t>(asked[i].options->n_best)));
    RC_ASSERT(same(told[i].outcome->hypotheses, expected));
  }
}

std::shared_ptr<const SearchOptions> long_greedy() {
  auto options = std::make_shared<SearchOptions>(small_options());
  options->forbidden = {0, options->end};  // nothing ends before its limit
  options->max_tokens = 40;
  options->max_ratio = 0.0;
  return options;
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
  const int64_t pages = session.cache.block_count();
  for (const size_t i : {1u, 3u, 5u}) EXPECT_TRUE(engine.cancel(ids[i]));
  EXPECT_EQ(engine.requests(), 3);
  EXPECT_EQ(session.cache.block_count(), pages / 2);
  EXPECT_FALSE(engine.cancel(ids[1]));
  while (engine.step()) {
  }
  for (const size_t i : {0u, 2u, 4u}) EXPECT_EQ(told[i].outcome->end, RequestEnd::finished);
  EXPECT_EQ(session.cache.block_count(), 0);
}

// Callbacks may submit and cancel, also the request they are called for.
TEST(Engine, CallbacksMaySubmitAndCancel) {
  const Transformer model = poisoned_model(Family::decoder_only, 3);
  Session session(model, 1);
  Engine engine(model, {.slots = 2}, session);
  const auto options = long_greedy();
  int ended = 0, cancelled = 0;
  RequestId streaming = 0;
  RequestEvents chained;
  chained.done = [&](RequestOutcome&& outcome) {
    ended += outcome.end == RequestEnd::finished ? 1 : 0;
    cancelled += outcome.end == RequestEnd::cancelled ? 1 : 0;
    if (ended < 3) engine.submit({ended, {}, {2}}, options, chained);
  };
  RequestEvents stops_itself;
  stops_itself.done = chained.done;
  stops_itself.tokens = [&](const StreamedTokens& news) {
    EXPECT_EQ(news.id, streaming);
    EXPECT_TRUE(engine.cancel(streaming));
  };
  streaming = engine.submit({7, {}, {}}, options, stops_itself);
  while (engine.step()) {
  }
  EXPECT_EQ(cancelled, 1);
  EXPECT_EQ(ended, 3);
}

// An exception of a callback leaves step(); no other request's result is lost.
TEST(Engine, ACallbackMayThrow) {
  const Transformer model = poisoned_model(Family::decoder_only, 3);
  Session session(model, 1);
  Engine engine(model, {.slots = 4}, session);
  const auto options = long_greedy();
  Told first, last;
  engine.submit({0, {}, {}}, options, listening_to(first, false));
  engine.submit({1, {}, {}}, options,
                {.done = [](RequestOutcome&&) { fail(ErrorCode::io, "no room"); }});
  engine.submit({2, {}, {}}, options, listening_to(last, false));
  int thrown = 0;
  while (!engine.idle()) {
    try {
      engine.step();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "no room");
      ++thrown;
    }
  }
  EXPECT_EQ(thrown, 1);
  EXPECT_EQ(first.outcome->end, RequestEnd::finished);
  EXPECT_EQ(last.outcome->end, RequestEnd::finished);
  EXPECT_TRUE(same(first.outcome->hypotheses, last.outcome->hypotheses));
}

// Fails in the decoder's n-th call.
struct FailingModel : Observer {
  explicit FailingModel(int n) : left(n) {}
  void see(const Observation& seen) override {
    if (seen.stack == Stack::decoder && seen.site == Site::final_output && --left == 0) {
      throw std::bad_alloc();
    }
  }
  int left;
};

// If the model itself fails, every request is told, and the engine can be used again.
TEST(Engine, AFailedStepFailsEverybodyAndNothingElse) {
  const Transformer model = poisoned_model(Family::encoder_decoder, 3);
  Session session(model, 1);
  const auto options = long_greedy();
  const Told expected = alone(model, {{0, {2, 3}, {}}, options});
  std::vector<Told> told(3);
  Engine engine(model, {.slots = 2}, session);
  for (int64_t i = 0; i < 3; ++i) {
    engine.submit({i, {2, 3}, {}}, options, listening_to(told[static_cast<size_t>(i)], false));
  }
  {
    FailingModel failing(5);
    const ObserverScope scope(session, &failing);
    EXPECT_THROW(while (engine.step()){}, std::bad_alloc);
  }
  EXPECT_TRUE(engine.idle());
  EXPECT_EQ(session.cache.block_count(), 0);
  for (const Told& each : told) {
    ASSERT_TRUE(each.outcome);
    EXPECT_EQ(each.outcome->end, RequestEnd::failed);
  }
  Told again;
  engine.submit({0, {2, 3}, {}}, options, listening_to(again, false));
  while (engine.step()) {
  }
  EXPECT_TRUE(same(again.outcome->hypotheses, expected.outcome->hypotheses));
}

// Steps until all is done; returns how many exceptions came out.
int run_through_exceptions(Engine& engine) {
  int thrown = 0;
  while (!engine.idle()) {
    try {
      engine.step();
    } catch (const std::exception&) {
      ++thrown;
    }
  }
  return thrown;
}

// A trace that throws, even something that looks like a fault of the model, concerns no request;
// nobody's trace misses a step.
TEST(Engine, ATraceMayThrow) {
  const Transformer model = poisoned_model(Family::encoder_decoder, 3);
  Session session(model, 1);
  const auto options = long_greedy();
  const Told expected = alone(model, {{0, {2, 3}, {}}, options});
  std::vector<Told> told(4);
  std::vector<std::vector<int64_t>> lengths(told.size());
  Engine engine(model, {.slots = 8}, session);
  for (size_t i = 0; i < told.size(); ++i) {
    RequestEvents events = listening_to(told[i], false);
    events.step = [&, i](const SearchStep& step) {
      lengths[i].push_back(step.length);
      if (i == 1 && step.length == 4) fail(ErrorCode::bad_format, "no room");
      if (i == 2 && step.length == 39) throw std::bad_alloc();  // in the last step
    };
    engine.submit({static_cast<int64_t>(i), {2, 3}, {}}, options, events);
  }
  EXPECT_EQ(run_through_exceptions(engine), 2);
  for (size_t i = 0; i < told.size(); ++i) {
    ASSERT_TRUE(told[i].outcome);
    EXPECT_TRUE(same(told[i].outcome->hypotheses, expected.outcome->hypotheses));
    ASSERT_EQ(lengths[i].size(), 40u) << i;
    for (int64_t length = 0; length < 40; ++length) {
      EXPECT_EQ(lengths[i][static_cast<size_t>(length)], length);
    }
  }
}

// A callback that throws keeps no other request from being told that it timed out.
TEST(Engine, TimesOutTheOthersIfACallbackThrows) {
  const Transformer model = poisoned_model(Family::encoder_decoder, 3);
  Session session(model, 1);
  EngineClock::time_point now{};
  std::vector<Told> told(5);
  {
    Engine engine(model, {.slots = 2, .now = [&now] { return now; }}, session);
    for (size_t i = 0; i < told.size(); ++i) {
      RequestEvents events = listening_to(told[i], false);
      events.done = [i, tell = events.done](RequestOutcome&& outcome) {
        tell(std::move(outcome));
        if (i == 0 || i == 3) fail(ErrorCode::io, "no room");
      };
      engine.submit({static_cast<int64_t>(i), {2, 3}, {}}, long_greedy(), events,
                    {.deadline = now + seconds(i == 4 ? 50 : 10)});
    }
    engine.step();
    engine.step();
    now += seconds(20);
    EXPECT_EQ(run_through_exceptions(engine), 2);
  }
  for (size_t i = 0; i < told.size(); ++i) {
    ASSERT_TRUE(told[i].outcome) << i;
    EXPECT_EQ(told[i].outcome->end, i == 4 ? RequestEnd::finished : RequestEnd::timed_out);
  }
  EXPECT_TRUE(holds_nothing(session));
}

std::shared_ptr<const SearchOptions> three_samples() {
  auto options = std::make_shared<SearchOptions>(*long_greedy());
  options->sample = true;
  options->n_best = 3;
  return options;
}

// When a callback cancels its request, no tokens of other samples follow.
TEST(Engine, StreamsNothingAfterTheEnd) {
  const Transformer model = poisoned_model(Family::decoder_only, 3);
  Session session(model, 1);
  Engine engine(model, {.slots = 4}, session);
  Told told;
  RequestId id = 0;
  RequestEvents events = listening_to(told, true);
  events.tokens = [&, listen = events.tokens](const StreamedTokens& news) {
    listen(news);
    if (told.stream.size() == 4) engine.cancel(id);  // the first sample of the second step
  };
  id = engine.submit({0, {}, {}}, three_samples(), events);
  while (engine.step()) {
  }
  EXPECT_EQ(told.outcome->end, RequestEnd::cancelled);
  EXPECT_EQ(told.stream.size(), 4u);
}

// A callback that throws gets every part of the stream nevertheless, and each once.
TEST(Engine, LosesNoTokensIfACallbackThrows) {
  const Transformer model = poisoned_model(Family::decoder_only, 3);
  Session session(model, 1);
  Engine engine(model, {.slots = 8}, session);
  Told told, other;
  RequestEvents events = listening_to(told, true);
  events.tokens = [calls = 0, listen = events.tokens](const StreamedTokens& news) mutable {
    listen(news);
    if (++calls % 3 != 0) fail(ErrorCode::io, "no room");
  };
  engine.submit({0, {}, {}}, three_samples(), events);
  engine.submit({1, {}, {}}, three_samples(), listening_to(other, true));
  EXPECT_GT(run_through_exceptions(engine), 20);
  EXPECT_TRUE(stream_is_whole(told, *three_samples()));
  EXPECT_TRUE(stream_is_whole(other, *three_samples()));
}

// Wherever memory runs out in submit(), the exception alone says so.
TEST(Engine, TakesInNothingWithoutMemory) {
  const Transformer model = poisoned_model(Family::encoder_decoder, 3);
  Session session(model, 1);
  Engine engine(model, {.slots = 4}, session);
  const auto options = long_greedy();
  bool was_enough = false;
  for (int64_t allocations = 0; !was_enough; ++allocations) {
    SearchRequest request{0, {2, 3}, {}};
    int told = 0;
    RequestEvents events{.done = [&told](RequestOutcome&&) { ++told; }};
    const RequestTerms terms{.client = static_cast<uint64_t>(allocations)};
    bool taken = false;
    {
      const testing::ScarceMemory scarce(allocations);
      try {
        engine.submit(std::move(request), options, std::move(events), terms);
        taken = true;
        was_enough = scarce.was_enough();
      } catch (const std::bad_alloc&) {
      }
    }
    EXPECT_EQ(told, 0);
    EXPECT_EQ(engine.requests(), taken ? 1 : 0) << allocations;
    while (engine.step()) {
    }
    EXPECT_EQ(told, taken ? 1 : 0);
  }
}

// Wherever memory runs out in a step, every request is told once, and everything is released.
TEST(Engine, LosesNothingWithoutMemory) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << "host memory";
  const Transformer model = poisoned_model(Family::encoder_decoder, 3);
  auto beam = std::make_shared<SearchOptions>(*long_greedy());
  beam->beam = 3;
  beam->max_tokens = 3;
  bool was_enough = false;
  for (int64_t allocations = 0; !was_enough; ++allocations) {
    Session session(model, 1);
    std::vector<Told> told(4);
    {
      EngineClock::time_point now{};
      Engine engine(model, {.slots = 7, .now = [&now] { return now; }}, session);
      for (size_t i = 0; i < told.size(); ++i) {
        engine.submit({static_cast<int64_t>(i), {2, 3}, {}}, beam, listening_to(told[i], true),
                      {.client = i, .deadline = now + seconds(i)});
      }
      now += seconds(1);
      const testing::ScarceMemory scarce(allocations);
      try {
        while (engine.step()) {
        }
        was_enough = scarce.was_enough();
      } catch (const std::bad_alloc&) {
      }
      testing::allocations_left = -1;
      run_through_exceptions(engine);
    }
    for (const Told& each : told) EXPECT_TRUE(each.outcome) << allocations;
    EXPECT_TRUE(holds_nothing(session)) << allocations;
  }
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

// A client with many requests does not keep one with few waiting.
TEST(Engine, ServesClientsInTurns) {
  const Transformer model = poisoned_model(Family::encoder_decoder, 3);
  Session session(model, 1);
  Engine engine(model, {.slots = 1}, session);
  const auto options = long_greedy();
  std::vector<int64_t> order;
  const auto ask = [&](int64_t number, uint64_t client) {
    engine.submit({number, {2, 3}, {}}, options,
                  {.done = [&](RequestOutcome&& outcome) { order.push_back(outcome.number); }},
                  {.client = client});
  };
  for (int64_t i = 0; i < 10; ++i) ask(i, 1);
  ask(100, 2);
  ask(101, 2);
  while (engine.step()) {
  }
  ASSERT_EQ(order.size(), 12u);
  EXPECT_LT(std::find(order.begin(), order.end(), 100) - order.begin(), 2);
  EXPECT_LT(std::find(order.begin(), order.end(), 101) - order.begin(), 4);
}

// A new client does not wait for all sentences that are encoded already.
TEST(Engine, ServesANewClientBeforeEncodedSentences) {
  const Transformer model = poisoned_model(Family::encoder_decoder, 3);
  Session session(model, 1);
  Engine engine(model, {.slots = 8}, session);
  std::vector<int64_t> begun, ended;
  const auto ask = [&](int64_t number, uint64_t client) {
    auto options = std::make_shared<SearchOptions>(*long_greedy());
    options->max_tokens = 3 + number % 8;  // so that slots become free one by one
    RequestEvents events;
    events.done = [&](RequestOutcome&& outcome) { ended.push_back(outcome.number); };
    events.step = [&](const SearchStep& step) {
      if (step.length == 0) begun.push_back(step.number);
    };
    engine.submit({number, {2, 3}, {}}, options, events, {.client = client});
  };
  for (int64_t i = 0; i < 60; ++i) ask(i, 1);
  while (begun.size() == 8 || ended.empty()) engine.step();  // one begins, seven are encoded
  const size_t before = begun.size();
  ask(100, 2);
  while (engine.step()) {
  }
  EXPECT_EQ(ended.size(), 61u);
  const auto place = std::find(begun.begin(), begun.end(), 100) - begun.begin();
  // On a GPU the next two steps are under way already.
  const ptrdiff_t under_way = testing::device().type == DeviceType::cuda ? 2 : 0;
  EXPECT_LE(place, static_cast<ptrdiff_t>(before + 1) + under_way);
}

class FairQueueTest : public ::testing::Test {
 protected:
  void push(RequestId id, uint64_t client, int64_t beam = 1) {
    auto search = std::make_shared<SearchOptions>(small_options());
    search->beam = beam;
    search->max_tokens = 0;
    auto sentence = std::make_unique<Sentence>(
        id, SearchRequest{}, std::make_shared<CheckedOptions>(CheckedOptions{search, tokens_}),
        model_.config());
    sentence->terms.client = client;
    queue.push(std::move(sentence));
  }
  // Pops one, and lets it leave after it has generated so many tokens.
  RequestId serve(int64_t generated = 0) {
    const std::unique_ptr<Sentence> sentence = queue.pop();
    start(*sentence, {});
    const std::vector<std::vector<Choice>> choices(1, {{4, -1.0f}});
    for (int64_t i = 0; i < generated; ++i) tril::advance(*sentence, choices);
    queue.settle(*sentence);
    return sentence->id;
  }
  std::vector<RequestId> popped(size_t count) {
    std::vector<RequestId> order;
    while (order.size() < count) order.push_back(queue.pop()->id);
    return order;
  }

  FairQueue queue;

 private:
  Transformer model_ = poisoned_model(Family::decoder_only, 3);
  std::shared_ptr<const TokenSet> tokens_ = std::make_shared<const TokenSet>(9, Tokens{});
};

// By work, not by requests: a client that requests wide beams gets fewer of them.
TEST_F(FairQueueTest, CountsWork) {
  for (RequestId id = 0; id < 6; ++id) push(id, 1);
  for (RequestId id = 10; id < 16; ++id) push(id, 2, 3);
  EXPECT_EQ(queue.size(), 12);
  EXPECT_EQ(queue.not_encoded().slots, 6 + 18);
  std::vector<RequestId> planned;
  queue.each_in_turn([&](const Sentence& sentence) {
    planned.push_back(sentence.id);
    return true;
  });
  // Three greedy requests for one with a beam of three.
  const std::vector<RequestId> first{0, 10, 1, 2, 3, 11, 4, 5};
  EXPECT_EQ(planned.size(), 12u);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), planned.begin()));
  EXPECT_EQ(popped(8), first);
  // A new or returning client has neither saved up turns nor lost any.
  push(20, 1);
  for (RequestId id = 30; id < 36; ++id) push(id, 3);
  EXPECT_EQ(popped(11), (std::vector<RequestId>{20, 12, 30, 31, 32, 13, 33, 34, 35, 14, 15}));
  EXPECT_EQ(queue.front(), nullptr);
  EXPECT_EQ(queue.pop(), nullptr);
  EXPECT_EQ(queue.not_encoded().slots, 0);
}

// A client whose requests are long gets fewer of them, also if it sends one at a time.
TEST_F(FairQueueTest, CountsTokensGenerated) {
  for (RequestId id = 0; id < 100; ++id) push(id, 1);
  push(1000, 2);
  int of_two = 0;
  for (int i = 0; i < 101; ++i) {
    const bool is_two = queue.front()->id >= 1000;
    serve(is_two ? 39 : 3);
    if (!is_two) continue;
    ++of_two;
    push(1000 + of_two, 2);
  }
  EXPECT_GE(of_two, 8);  // 40 tokens each, against 4
  EXPECT_LE(of_two, 12);
}

// Clients that come once leave nothing behind, although another one always waits; and they do not
// keep that one waiting, although it has had much work done. It gets the share of one among those
// who wait; these become more whenever it is served.
TEST_F(FairQueueTest, NewcomersAreForgottenAndLetOthersThrough) {
  for (RequestId id = 0; id < 1000; ++id) push(id, 0);
  for (int i = 0; i < 8; ++i) serve(60);
  push(1000, 1);
  int of_first = 0;
  int64_t remembered = 0;
  for (uint64_t client = 2; client < 10'002; ++client) {
    push(1000 + static_cast<RequestId>(client), client);  // so that one always waits
    of_first += serve(static_cast<int64_t>(client % 5) * 10) < 1000 ? 1 : 0;
    remembered = std::max(remembered, queue.clients());
  }
  EXPECT_GT(of_first, 100);
  EXPECT_LT(of_first, 200);
  EXPECT_LT(remembered, 500);
  while (queue.size() > 0) serve();
  EXPECT_EQ(queue.clients(), 0);
}

// Engines of several models on one thread take turns: neither waits for the other to end.
TEST(EngineThread, StepsEnginesInTurns) {
  const Transformer model = poisoned_model(Family::decoder_only, 3);
  const Transformer other = poisoned_model(Family::encoder_decoder, 4);
  Session session(model, 1), other_session(other, 1);
  Engine engine(model, {.slots = 4}, session), other_engine(other, {.slots = 4}, other_session);
  const auto options = long_greedy();
  const Told expected = alone(model, {{0, {}, {2}}, options, true});
  std::string steps;
  Told told, other_told;
  {
    EngineThread thread;
    thread.call([&] {
      RequestEvents events = listening_to(told, true),
                    other_events = listening_to(other_told, true);
      events.step = [&](const SearchStep&) { steps += 'a'; };
      other_events.step = [&](const SearchStep&) { steps += 'b'; };
      engine.submit({0, {}, {2}}, options, events);
      other_engine.submit({0, {2, 3}, {}}, options, other_events);
      thread.add(engine);
      thread.add(other_engine);
    });
    EXPECT_FALSE(thread.is_this_thread());
    for (bool idle = false; !idle;) {
      thread.call([&] { idle = engine.idle() && other_engine.idle(); });
    }
    EXPECT_EQ(raised_by([&] { thread.call([] { fail(ErrorCode::io, "no"); }); }).text, "no");
    thread.call([&] {
      EXPECT_TRUE(thread.is_this_thread());
      thread.remove(engine);
      thread.remove(other_engine);
    });
  }
  EXPECT_EQ(steps.size(), 80u);
  EXPECT_EQ(steps.find("aaa"), std::string::npos) << steps;
  EXPECT_EQ(steps.find("bbb"), std::string::npos) << steps;
  EXPECT_TRUE(same(told.outcome->hypotheses, expected.outcome->hypotheses));
  EXPECT_EQ(told.stream, expected.stream);
  const auto shared = EngineThread::of(Device::cpu);
  EXPECT_EQ(shared, EngineThread::of(Device::cpu));
}

// However many tasks come, steps are made in between.
TEST(EngineThread, TasksDoNotKeepEnginesWaiting) {
  const Transformer model = poisoned_model(Family::decoder_only, 3);
  Session session(model, 1);
  Engine engine(model, {.slots = 4}, session);
  Told told;
  int tasks = 0;
  {
    EngineThread thread;
    std::function<void()> again = [&] {
      if (!told.outcome && ++tasks < 100'000) thread.post(again);
    };
    thread.call([&] {
      engine.submit({0, {}, {2}}, long_greedy(), listening_to(told, false));
      thread.add(engine);
      again();
    });
    for (bool idle = false; !idle;) thread.call([&] { idle = engine.idle(); });
    thread.call([&] { thread.remove(engine); });
  }
  EXPECT_EQ(told.outcome->end, RequestEnd::finished);
  EXPECT_LT(tasks, 1000);
}

}  // namespace
}  // namespace tril::engine_test
