// Fairness: clients are served in turns, whatever they ask for, and so are engines on one thread.
#include <algorithm>

#include "engine_support.h"
#include "support/property.h"
#include "tril/decode/engine_thread.h"
#include "tril/decode/intake.h"

namespace tril::engine_turns_test {
namespace {

using testing::alone;
using testing::Family;
using testing::listening_to;
using testing::long_greedy;
using testing::poisoned_model;
using testing::raised_by;
using testing::same;
using testing::small_options;
using testing::Tokens;
using testing::Told;

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
        id, SearchRequest{},
        std::make_shared<CheckedOptions>(CheckedOptions{search, {nullptr, tokens_, nullptr}}),
        model_.config());
    sentence->terms.client = client;
    queue.push(std::move(sentence));
  }
  // Pops one, and lets it leave after it has generated so many tokens.
  RequestId serve(int64_t generated = 0) {
    const std::unique_ptr<Sentence> sentence = queue.pop();
    start(*sentence, {});
    const std::vector<std::vector<Choice>> choices(1, {{4, -1.0f, -1.0f}});
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
}  // namespace tril::engine_turns_test
