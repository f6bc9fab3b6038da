// Load never changes an answer: whoever else is being served, and whoever leaves, every answer has
// the bytes it has on an idle server, and its text is that of Translator::translate().
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>

#include "service_support.h"
#include "support/sanitizers.h"
#include "support/testing.h"
#include "tril/translate/served_engine.h"

namespace tril::serve_test {
namespace {

using serve::Service;

// Bodies of requests: every line with several sets of options.
std::vector<std::string> mixed_requests() {
  const std::vector<std::string> options = {
      R"("beam":1,"max_tokens":24,"details":true)",
      R"("beam":4,"n_best":3,"max_tokens":20)",
      R"("max_tokens":12,"alignments":true)",
      R"("sample":true,"temperature":1.3,"seed":11,"n_best":2,"max_tokens":16,"details":true)",
      R"("beam":2,"no_repeat_ngram":2,"max_tokens":18)",
      R"("split":"always","beam":3,"max_tokens":10)"};
  std::vector<std::string> bodies;
  for (const std::string& line : some_lines()) {
    for (const std::string& set : options) {
      bodies.push_back(concat("{\"text\":", json_quoted(line), ",", set, "}"));
    }
  }
  bodies.push_back(concat(R"({"text":[)", json_quoted(some_lines()[0]), ",",
                          json_quoted(some_lines()[7]), R"(],"max_tokens":15})"));
  return bodies;
}

serve::ServiceOptions options_for(int64_t slots, int64_t cache_bytes) {
  serve::ServiceOptions options;
  options.limits.slots = slots;
  options.cache_bytes = cache_bytes;
  options.max_queued_tokens = 1 << 30;
  return options;
}

std::vector<std::string> golden_answers(const std::vector<std::string>& bodies) {
  Service idle(small_models(), options_for(64, 0));
  std::vector<std::string> answers;
  for (const std::string& body : bodies) {
    const auto response = post(idle, "/v1/translate", body);
    EXPECT_EQ(response.status, 200) << body << "\n" << response.body;
    answers.push_back(response.body);
  }
  return answers;
}

struct Tally {
  std::atomic<int> answered = 0, differing = 0, left = 0;
  std::string first{};  // difference; read when all have ended
};

// One client: asks for random requests, streams some, leaves before some answers.
void act(Service& service, const std::vector<std::string>& bodies,
         const std::vector<std::string>& golden, int client, int requests, Tally& tally) {
  std::mt19937 random(static_cast<unsigned>(client) * 977 + 5);
  for (int i = 0; i < requests; ++i) {
    const size_t which = random() % bodies.size();
    const auto exchange = std::make_shared<HeldExchange>();
    std::string body = bodies[which];
    const bool streams = random() % 5 == 0;
    if (streams) body.insert(1, R"("stream":true,)");
    auto asked = request("POST", "/v1/translate", body, {{"Content-Type", "application/json"}});
    asked.client = concat("10.0.0.", client % 7);
    service.handle(std::move(asked), exchange);
    if (random() % 6 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
      exchange->leave();
      ++tally.left;
      continue;
    }
    auto response = exchange->wait();
    std::string answer = response ? response->body : "nothing";
    if (streams) {
      const size_t done = answer.find("event: done\ndata: ");
      answer = done == std::string::npos ? answer : answer.substr(done + 18);
      if (answer.ends_with("\n\n")) answer.pop_back();
    }
    ++tally.answered;
    if (answer != golden[which] && ++tally.differing == 1) {
      tally.first = concat(body, "\n", answer, "\ninstead of\n", golden[which]);
    }
  }
}

void run_load(int clients, int requests, int64_t slots, int threads, int64_t cache,
              const std::vector<std::string>& bodies, const std::vector<std::string>& golden,
              Tally& tally) {
  Service service(small_models(threads), options_for(slots, cache));
  std::vector<std::thread> all;
  for (int client = 0; client < clients; ++client) {
    all.emplace_back([&, client] { act(service, bodies, golden, client, requests, tally); });
  }
  for (std::thread& thread : all) thread.join();
}

TEST(Load, NeverChangesAnAnswer) {
  const auto bodies = mixed_requests();
  const auto golden = golden_answers(bodies);
  Tally tally;
  for (const int clients : {1, 4, 32}) {
    for (const int64_t slots : {int64_t{4}, int64_t{8}, int64_t{64}}) {
      const int threads = 1 + clients % 2 + (slots == 8 ? 1 : 0);
      run_load(clients, TRIL_SANITIZED ? 4 : 8, slots, threads, 0, bodies, golden, tally);
    }
  }
  EXPECT_EQ(tally.differing, 0) << tally.first;
  EXPECT_GT(tally.answered, 150);
  EXPECT_GT(tally.left, 10);
}

TEST(Load, TheCacheChangesNothing) {
  const auto bodies = mixed_requests();
  const auto golden = golden_answers(bodies);
  Tally tally;
  run_load(8, 40, 64, 1, 1 << 20, bodies, golden, tally);
  run_load(8, 40, 64, 1, 20'000, bodies, golden, tally);  // most are forgotten again
  EXPECT_EQ(tally.differing, 0) << tally.first;
}

// The same requests where the order of a sum depends on the number of rows: that is noticed.
TEST(Load, ADependenceOnTheBatchIsNoticed) {
  const auto bodies = mixed_requests();
  served_hooks().order_by_batch = true;
  const auto golden = golden_answers(bodies);  // one row in a step of greedy search
  Tally tally;
  run_load(16, 12, 64, 1, 0, bodies, golden, tally);
  served_hooks() = {};
  EXPECT_GT(tally.differing, 0);
}

TEST(Load, AnswersHoldWhatTranslateGives) {
  Service service(small_models(), options_for(64, 0));
  const Translator translator = small_translator();
  TranslateOptions options;
  options.search.beam = 4;
  options.search.n_best = 2;
  options.search.max_tokens = 20;
  const std::vector<Translation> expected = translator.translate(some_lines(), options);
  for (size_t i = 0; i < some_lines().size(); ++i) {
    const auto answer =
        json(post(service, "/v1/translate",
                  concat(R"({"beam":4,"n_best":2,"max_tokens":20,"details":true,"text":)",
                         json_quoted(some_lines()[i]), "}")));
    const JsonValue& one = answer.find("translations")->items.front();
    EXPECT_EQ(one.find("text")->text, expected[i].text());
    const JsonValue& hypotheses = *one.find("sentences")->items.front().find("hypotheses");
    ASSERT_EQ(hypotheses.items.size(), expected[i].hypotheses.size());
    for (size_t k = 0; k < hypotheses.items.size(); ++k) {
      const TextHypothesis& h = expected[i].hypotheses[k];
      EXPECT_EQ(hypotheses.items[k].find("text")->text, h.text);
      const auto& numbers = hypotheses.items[k].find("log_probs")->items;
      ASSERT_EQ(numbers.size(), h.log_probs.size());
      for (size_t n = 0; n < numbers.size(); ++n) {
        EXPECT_EQ(static_cast<float>(numbers[n].number), h.log_probs[n]);
      }
      EXPECT_EQ(hypotheses.items[k].find("score")->number, h.score);
    }
  }
}

}  // namespace
}  // namespace tril::serve_test
