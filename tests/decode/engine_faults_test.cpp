// What goes wrong in an engine, or is called from within it: callbacks that submit, cancel and
// throw, traces that throw, steps that fail, memory that runs out. Nobody else is affected, nothing
// is lost.
#include <algorithm>
#include <new>

#include "engine_support.h"
#include "support/property.h"
#include "support/scarce_memory.h"
#include "tril/models/observer.h"
#include "tril/models/session_state.h"

namespace tril::engine_faults_test {
namespace {

using std::chrono::seconds;
using testing::alone;
using testing::Family;
using testing::holds_nothing;
using testing::listening_to;
using testing::long_greedy;
using testing::poisoned_model;
using testing::same;
using testing::stream_is_whole;
using testing::Told;

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
  EXPECT_EQ(session->cache.block_count(), 0);
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
}  // namespace
}  // namespace tril::engine_faults_test
