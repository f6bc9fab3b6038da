// What a client may ask for and how much of it, and what becomes of those who wait too long or
// leave. The engine is held still where a test needs it busy.
#include <gtest/gtest.h>

#include <thread>

#include "service_support.h"
#include "tril/serve/waiting.h"

namespace tril::limits_test {
namespace {

using namespace std::chrono_literals;
using namespace serve;
using namespace serve_test;
using Clock = TokenBuckets::Clock;

std::string short_body(const std::string& more = {}) {
  return R"({"text":"how are you","beam":1,"max_tokens":3)" + more + "}";
}

// ---- tokens per minute --------------------------------------------------------------------------

TEST(TokenBuckets, AreFilledSteadily) {
  TokenBuckets buckets;
  const Clock::time_point start{1h};
  EXPECT_EQ(buckets.refusal("a", 60, start), std::nullopt);
  buckets.charge("a", 60, 60, start);
  EXPECT_EQ(buckets.refusal("a", 60, start), 1s);
  EXPECT_EQ(buckets.refusal("a", 60, start + 999ms), std::nullopt);  // not empty any more
  buckets.charge("a", 60, 61, start + 1s);
  EXPECT_EQ(buckets.refusal("a", 60, start + 1s), 61s);
  EXPECT_EQ(buckets.refusal("a", 60, start + 31s), 31s);
  EXPECT_EQ(buckets.refusal("a", 60, start + 62s), std::nullopt);
}

TEST(TokenBuckets, HoldOneMinute) {
  TokenBuckets buckets;
  const Clock::time_point start{1h};
  EXPECT_EQ(buckets.refusal("a", 100, start), std::nullopt);
  buckets.charge("a", 100, 100, start + 24h);
  EXPECT_NE(buckets.refusal("a", 100, start + 24h), std::nullopt);
}

TEST(TokenBuckets, TellHowLongToWait) {
  const Clock::time_point start{1h};
  for (const int64_t taken : {60, 61, 100, 1000, 123456}) {
    TokenBuckets buckets;
    buckets.charge("a", 60, taken, start);
    const auto wait = buckets.refusal("a", 60, start);
    ASSERT_TRUE(wait.has_value());
    if (*wait > 2s) {
      EXPECT_NE(buckets.refusal("a", 60, start + *wait - 2s), std::nullopt) << taken;
    }
    EXPECT_EQ(buckets.refusal("a", 60, start + *wait), std::nullopt) << taken;
  }
}

TEST(TokenBuckets, AreOfOneClientEach) {
  TokenBuckets buckets;
  const Clock::time_point start{1h};
  buckets.charge("a", 60, 1000, start);
  EXPECT_NE(buckets.refusal("a", 60, start), std::nullopt);
  EXPECT_EQ(buckets.refusal("b", 60, start), std::nullopt);
  EXPECT_EQ(buckets.refusal("a", 0, start), std::nullopt);  // no limit
}

TEST(TokenBuckets, ForgetNobodyWhoHasToWait) {
  TokenBuckets buckets;
  Clock::time_point now{1h};
  buckets.charge("greedy", 60, 60 * 60, now);  // an hour's worth
  // So many clients that those whose buckets are full are forgotten; none is here before 1 s.
  for (int i = 0; i < 70'000; ++i) buckets.charge(concat(i), 60, 60, now);
  EXPECT_NE(buckets.refusal("7", 60, now), std::nullopt);
  now += 3min;
  for (int i = 0; i < 70'000; ++i) buckets.charge(concat("new ", i), 60, 1, now);
  EXPECT_NE(buckets.refusal("greedy", 60, now), std::nullopt);
  EXPECT_EQ(buckets.refusal("7", 60, now), std::nullopt);
}

TEST(Limits, TokensOfAClient) {
  ServiceOptions options;
  options.tokens_per_minute = 2;
  options.cache_bytes = 0;
  Service service(small_models(), options);
  ASSERT_EQ(post(service, "/v1/translate", short_body()).status, 200);
  const auto refused = post(service, "/v1/translate", short_body());
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(text_at(refused, "error/code"), "rate_limited");
  EXPECT_EQ(text_at(refused, "error/type"), "rate_limit_error");
  const std::string wait = header(refused, "Retry-After");
  EXPECT_GT(std::stoi(wait), 0);
  EXPECT_EQ(text_at(refused, "error/message"),
            concat("more than 2 source tokens per minute: try again in ", wait, " s"));
  // In the other shapes too, and for scores.
  const auto deepl = post(service, "/v2/translate", R"({"text":["how"],"target_lang":"HI"})");
  EXPECT_EQ(deepl.status, 429);
  EXPECT_NE(header(deepl, "Retry-After"), "");
  EXPECT_NE(text_at(deepl, "message"), "null");
  const auto libre = post(service, "/translate", R"({"q":"how","target":"hi"})");
  EXPECT_EQ(libre.status, 429);
  EXPECT_NE(text_at(libre, "error"), "null");
  EXPECT_EQ(post(service, "/v1/score", R"({"source":"how","target":"x"})").status, 429);
  EXPECT_EQ(post(service, "/v1/translate", short_body(R"(,"stream":true)")).status, 429);
  // Another address is another client.
  auto elsewhere = request("POST", "/v1/translate", short_body());
  elsewhere.client = "127.0.0.2";
  EXPECT_EQ(ask(service, elsewhere).status, 200);
}

TEST(Limits, TokensOfAKey) {
  ServiceOptions options;
  options.tokens_per_minute = 2;
  options.keys = {{"a", "small", 0}, {"b", "large", 1'000'000}};
  options.cache_bytes = 0;
  Service service(small_models(), options);
  const std::vector<Header> small = {{"Authorization", "Bearer a"}};
  const std::vector<Header> large = {{"Authorization", "Bearer b"}};
  EXPECT_EQ(post(service, "/v1/translate", short_body(), small).status, 200);
  EXPECT_EQ(post(service, "/v1/translate", short_body(), small).status, 429);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(post(service, "/v1/translate", short_body(), large).status, 200);
  }
}

// A client's limit does not depend on what others asked for before.
TEST(Limits, CachedAnswersCountToo) {
  for (const int64_t cache : {int64_t{0}, int64_t{1} << 20}) {
    ServiceOptions options;
    options.tokens_per_minute = 5;  // the line has four tokens or fewer
    options.cache_bytes = cache;
    Service service(small_models(), options);
    int answered = 0;
    while (post(service, "/v1/translate", R"({"text":"how","beam":1,"max_tokens":3})").status ==
           200) {
      ++answered;
    }
    EXPECT_EQ(answered, 2);
  }
}

TEST(Limits, ClientsBehindAProxyAreToldApart) {
  ServiceOptions options;
  options.tokens_per_minute = 2;
  options.cache_bytes = 0;
  const auto status = [](Service& service, const Header& header) {
    return post(service, "/v1/translate", short_body(), {header}).status;
  };
  options.behind_proxy = true;
  Service behind(small_models(), options);
  EXPECT_EQ(status(behind, {"X-Forwarded-For", "10.0.0.1"}), 200);
  EXPECT_EQ(status(behind, {"X-Forwarded-For", " 10.0.0.1"}), 429);
  EXPECT_EQ(status(behind, {"X-Forwarded-For", "10.0.0.2"}), 200);
  // The last is the proxy's own word; those before are the client's.
  EXPECT_EQ(status(behind, {"X-Forwarded-For", "10.0.0.9, 10.0.0.3"}), 200);
  EXPECT_EQ(status(behind, {"X-Forwarded-For", "10.0.0.8, 10.0.0.3"}), 429);
  EXPECT_EQ(post(behind, "/v1/translate", short_body(),
                 {{"X-Forwarded-For", "10.0.0.7"}, {"X-Forwarded-For", "10.0.0.3"}})
                .status,
            429);
  EXPECT_EQ(status(behind, {"X-Real-IP", "10.0.0.4"}), 200);  // of the connection
  EXPECT_EQ(status(behind, {"X-Real-IP", "10.0.0.5"}), 429);
  // Without a proxy nobody can choose to be another.
  options.behind_proxy = false;
  Service open(small_models(), options);
  EXPECT_EQ(status(open, {"X-Forwarded-For", "10.0.0.1"}), 200);
  EXPECT_EQ(status(open, {"X-Forwarded-For", "10.0.0.2"}), 429);
}

// ---- size of a request --------------------------------------------------------------------------

TEST(Limits, SizeOfARequest) {
  ServiceOptions options;
  options.limits.max_texts = 2;
  options.limits.max_units = 3;
  options.limits.max_beam = 4;
  Service service(small_models(), options);
  const auto answer = [&](const std::string& fields) {
    const auto response = post(service, "/v1/translate", "{" + fields + R"(,"max_tokens":2})");
    if (response.status == 200) return std::string("200");
    return concat(response.status, " ", text_at(response, "error/field"), ": ",
                  text_at(response, "error/message"));
  };
  EXPECT_EQ(answer(R"("text":["a","b"])"), "200");
  EXPECT_EQ(answer(R"("text":["a","b","c"])"),
            "413 text: text: 3 texts, a request may have at most 2");
  EXPECT_EQ(answer(R"("text":"a\nb\n\nc")"), "200");
  EXPECT_EQ(answer(R"("text":["a\nb","c\nd"])"),
            "413 text: more than 3 lines and sentences in one request");
  EXPECT_EQ(answer(R"("text":"a","beam":4)"), "200");
  EXPECT_EQ(answer(R"("text":"a","beam":5)"),
            "400 beam: beam: expected a whole number from 1 to 4, got 5");
  EXPECT_EQ(answer(R"("text":"a","n_best":5,"sample":true)"),
            "400 n_best: n_best: expected a whole number from 1 to 4, got 5");
  EXPECT_EQ(answer(R"("text":"a\nb","n_best":2,"sample":true)"),
            "413 n_best: 4 results in one request: at most 3");
  std::string ids = "1";
  for (int i = 0; i < 1000; ++i) ids += ",1";
  EXPECT_EQ(answer(concat(R"("text":"a","forbid":[[)", ids, "]]")),
            "400 forbid: forbid: 1001 tokens, at most 1000 in all");
  EXPECT_EQ(post(service, "/v1/completions", R"({"model":"en-hi","prompt":"a","n":5})").status,
            400);
  EXPECT_EQ(post(service, "/translate", R"({"q":["a","b","c"],"target":"hi"})").status, 413);
  EXPECT_EQ(post(service, "/v2/translate", R"({"text":["a","b","c"],"target_lang":"HI"})").status,
            413);
  EXPECT_EQ(post(service, "/v1/score", R"({"source":["a","b","c"],"target":["a","b","c"]})").status,
            413);
  EXPECT_EQ(post(service, "/v1/tokenize", R"({"text":["a","b","c"]})").status, 413);
  EXPECT_EQ(service.metrics().units_in_flight, 0);
  EXPECT_EQ(service.metrics().queued_tokens, 0);
}

int64_t soon(const std::atomic<int64_t>& value, int64_t wanted) {
  const auto until = Clock::now() + 30s;
  while (value != wanted && Clock::now() < until) std::this_thread::sleep_for(1ms);
  return value;
}

// ---- a busy engine ------------------------------------------------------------------------------

// One client's many sentences keep out that client alone, until there are far too many.
TEST(Limits, AFullQueueIsThatOfWhoFilledIt) {
  ServiceOptions options;
  options.max_queued_tokens = 30;
  Service service(small_models(), options);
  const auto gate = Gate::close(service);
  const auto post_from = [&](const std::string& address, const std::string& body) {
    auto one = request("POST", "/v1/translate", body);
    one.client = address;
    const auto exchange = std::make_shared<HeldExchange>();
    service.handle(std::move(one), exchange);
    return exchange;
  };
  const std::string ten = R"({"text":["how are you","I am fine, thank you","where are they"]})";
  const auto greedy = post_from("10.0.0.1", ten);
  ASSERT_GE(service.metrics().queued_tokens, 30);
  ASSERT_LT(service.metrics().queued_tokens, 100);
  EXPECT_EQ(post_from("10.0.0.1", short_body())->wait()->status, 503);
  const auto other = post_from("10.0.0.2", short_body());
  EXPECT_EQ(other->answers(), 0);  // it waits
  std::vector<std::shared_ptr<HeldExchange>> more;
  for (int i = 3; i < 40; ++i) more.push_back(post_from(concat("10.0.0.", i), short_body()));
  EXPECT_EQ(more.back()->wait()->status, 503);
  EXPECT_LT(service.metrics().queued_tokens, 4 * 30 + 10);
  gate->release();
  EXPECT_EQ(greedy->wait()->status, 200);
  EXPECT_EQ(other->wait()->status, 200);
  EXPECT_EQ(soon(service.metrics().queued_tokens, 0), 0);
}

// A sentence that is done waits no longer, though others of its request do.
TEST(Limits, SentencesLeaveTheQueueOneByOne) {
  Service service(small_models(), {});
  const auto exchange = std::make_shared<HeldExchange>();
  std::string body = R"({"beam":4,"max_tokens":190,"min_tokens":150,"text":["how",)";
  for (int i = 0; i < 60; ++i) body += concat("\"I am fine, thank you ", i, "\",");
  service.handle(request("POST", "/v1/translate", body + R"("how are you"]})"), exchange);
  const int64_t all = service.metrics().queued_tokens;
  const auto until = Clock::now() + 60s;
  bool some_left = false;
  while (!some_left && exchange->answers() == 0 && Clock::now() < until) {
    const int64_t left = service.metrics().queued_tokens;
    some_left = left > 0 && left < all;
    std::this_thread::sleep_for(100us);
  }
  EXPECT_TRUE(some_left);
  EXPECT_EQ(exchange->wait()->status, 200);
}

TEST(Limits, AFullQueueIsTold) {
  ServiceOptions options;
  options.max_queued_tokens = 1;
  Service service(small_models(), options);
  const auto gate = Gate::close(service);
  const auto refused = post(service, "/v1/translate", short_body());
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(text_at(refused, "error/code"), "overloaded");
  EXPECT_EQ(header(refused, "Retry-After"), "1");
  EXPECT_EQ(post(service, "/v2/translate", R"({"text":["a"],"target_lang":"HI"})").status, 503);
  EXPECT_EQ(post(service, "/v1/score", R"({"source":"a","target":"b"})").status, 503);
  gate->release();
  // Soon there is room again.
  const auto until = Clock::now() + 30s;
  while (service.metrics().queued_tokens > 0 && Clock::now() < until)
    std::this_thread::sleep_for(1ms);
  EXPECT_EQ(post(service, "/v1/translate", short_body()).status, 200);
}

// Asks while the engine stands still, and lets it go on when this client's time is over.
HttpResponse late_answer(const std::string& path, const std::string& body,
                         const ServiceOptions& options = {}) {
  Service service(small_models(), options);
  const auto gate = Gate::close(service);
  const auto exchange = std::make_shared<HeldExchange>();
  service.handle(request("POST", path, body, {{"Content-Type", "application/json"}}), exchange);
  std::this_thread::sleep_for(150ms);
  gate->release();
  const auto response = exchange->wait();
  EXPECT_TRUE(response.has_value());
  EXPECT_EQ(exchange->answers(), 1);
  return response.value_or(HttpResponse{});
}

TEST(Limits, DeadlinesAreKept) {
  const auto own = late_answer("/v1/translate", short_body(R"(,"timeout":0.1)"));
  EXPECT_EQ(own.status, 504);
  EXPECT_EQ(text_at(own, "error/code"), "deadline");
  EXPECT_EQ(text_at(own, "error/field"), "timeout");
  const auto stream = late_answer("/v1/translate", short_body(R"(,"timeout":0.1,"stream":true)"));
  EXPECT_EQ(stream.status, 200);  // it had begun
  const Events events = events_of(stream);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().first, "error");
  EXPECT_NE(events.back().second.find(R"("code":"deadline")"), std::string::npos);
  // The server's own, which nobody can extend.
  ServiceOptions options;
  options.limits.timeout = 2ms;
  Service service(small_models(), options);
  EXPECT_EQ(late_answer("/v1/translate", short_body(R"(,"timeout":60)"), {.limits = options.limits})
                .status,
            504);
  EXPECT_EQ(
      late_answer("/translate", R"({"q":"how are you","target":"hi"})", {.limits = options.limits})
          .status,
      504);
}

TEST(Limits, WhatAClientLeavesIsDropped) {
  for (const char* stream : {"", R"(,"stream":true)"}) {
    Service service(small_models(), {});
    const auto gate = Gate::close(service);
    const auto exchange = std::make_shared<HeldExchange>();
    const std::string body = concat(
        R"({"text":["how are you","I am fine, thank you","banana"],"beam":4,"max_tokens":190)",
        stream, "}");
    service.handle(request("POST", "/v1/translate", body), exchange);
    EXPECT_EQ(service.metrics().units_in_flight, 4);
    EXPECT_EQ(metric(service, "tril_sentences_in_flight"), 4);
    EXPECT_GT(metric(service, "tril_queued_tokens"), 0);
    exchange->leave();
    gate->release();
    EXPECT_EQ(soon(service.metrics().units_in_flight, 0), 0);
    EXPECT_EQ(soon(service.metrics().queued_tokens, 0), 0);
    EXPECT_EQ(metric(service, "tril_cancelled_total"), 1);
    EXPECT_EQ(metric(service, "tril_sentences_in_flight"), 0);
    EXPECT_EQ(soon(service.metrics().requests_in_flight, 0), 0);
    EXPECT_NE(
        get(service, "/metrics").body.find("tril_requests_total{api=\"v1\",status=\"499\"} 1\n"),
        std::string::npos);
    // Nothing of it is kept: the same again is translated.
    EXPECT_EQ(metric(service, "tril_cache_answers"), 1);  // the gate's own
    EXPECT_EQ(post(service, "/v1/translate", short_body()).status, 200);
  }
}

// Who leaves with the answer in hand cancelled nothing.
TEST(Limits, LeavingAfterTheAnswerIsNoCancelling) {
  Service service(small_models(), {});
  const auto exchange = std::make_shared<HeldExchange>();
  service.handle(request("POST", "/v1/translate", short_body()), exchange);
  ASSERT_TRUE(exchange->wait().has_value());
  EXPECT_EQ(soon(service.metrics().requests_in_flight, 0), 0);
  exchange->leave();
  EXPECT_EQ(metric(service, "tril_cancelled_total"), 0);
}

// A service that ends answers everybody first, those too whose large bodies nobody has read yet.
void end_service(bool all_large) {
  std::vector<std::shared_ptr<HeldExchange>> exchanges;
  {
    Service service(small_models(), {});
    for (int i = 0; i < 12; ++i) {
      std::string text = i % 2 == 0 && !all_large
                             ? "how are you"
                             : std::string(3000, '\n') + std::string(9000, ' ');
      if (i % 2 != 0 || all_large) text += "how are you";
      std::string body = concat(R"({"max_tokens":150,"text":)", json_quoted(text));
      if (i % 3 == 0) body += R"(,"alignments":true)";
      if (i % 3 == 1) body += R"(,"stream":true)";
      exchanges.push_back(std::make_shared<HeldExchange>());
      service.handle(request("POST", "/v1/translate", body + "}"), exchanges.back());
    }
  }
  for (const auto& exchange : exchanges) {
    EXPECT_EQ(exchange->answers(), 1);
    const auto response = exchange->wait();
    ASSERT_TRUE(response.has_value());
    EXPECT_TRUE(response->status == 200 || response->status == 503) << response->body;
    if (response->status == 503) {
      EXPECT_NE(header(*response, "Retry-After"), "") << response->body;
    }
  }
}

TEST(Limits, AnEndingServiceAnswersEverybody) {
  for (const bool all_large : {false, true}) end_service(all_large);
}

// Keeps the thread for slow work where it is.
class SlowClient final : public Exchange {
 public:
  void respond(HttpResponse&& response) override {
    status_ = response.status;
    ++answers_;
    while (!released_) std::this_thread::sleep_for(1ms);
  }
  void stream(HttpResponse&&, std::shared_ptr<ByteSource>) override {}
  void more() override {}
  void on_gone(std::function<void()>) override {}
  std::atomic<int> status_ = 0;
  std::atomic<int> answers_ = 0;
  std::atomic<bool> released_ = false;
};

std::shared_ptr<HeldExchange> post_from(Service& service, const std::string& client,
                                        const std::string& path, const std::string& body,
                                        std::vector<Header> headers = {}) {
  auto one = request("POST", path, body, std::move(headers));
  one.client = client;
  const auto exchange = std::make_shared<HeldExchange>();
  service.handle(std::move(one), exchange);
  return exchange;
}

// A line many times: all but the first come from the cache.
std::string repeated(int lines, const std::string& more = {}) {
  std::string text;
  for (int i = 0; i < lines; ++i) text += "how\\n";
  return concat(R"({"max_tokens":3,"beam":1,"text":")", text, "\"", more, "}");
}

// Clients whose answers the workers for large ones cannot get rid of; there are two workers. The
// line was asked for before.
std::shared_ptr<SlowClient> block_large(Service& service, int clients = 2) {
  const auto blocks = std::make_shared<SlowClient>();
  for (int i = 0; i < clients; ++i) {
    auto one = request("POST", "/v1/translate", repeated(100));
    one.client = concat("10.0.9.", i);
    service.handle(std::move(one), blocks);
  }
  const auto until = Clock::now() + 30s;
  while (blocks->answers_ < clients && Clock::now() < until) std::this_thread::sleep_for(1ms);
  return blocks;
}

// What the engine has no part in is in turns, too: requests that the cache answers do not delay
// those of others, and nothing is made of them when their client has left.
TEST(Limits, CachedAnswersDelayNobody) {
  ServiceOptions options;
  options.max_queued_tokens = 1 << 30;
  Service service(small_models(), options);
  ASSERT_EQ(post(service, "/v1/translate", repeated(1)).status, 200);
  const auto blocks = block_large(service);
  std::vector<std::shared_ptr<HeldExchange>> flood;
  for (int i = 0; i < 40; ++i) {
    flood.push_back(
        post_from(service, "10.0.0.1", "/v1/translate", repeated(1600, R"(,"details":true)")));
  }
  const auto answered = [&] {
    int count = 0;
    for (const auto& one : flood) count += one->answers();
    return count;
  };
  EXPECT_EQ(post_from(service, "10.0.0.2", "/v1/translate", repeated(1))->wait()->status, 200);
  EXPECT_EQ(answered(), 0);
  EXPECT_GE(service.metrics().queued_tokens, 40 * 1600);  // what waits for its answer waits
  const auto large = post_from(service, "10.0.0.2", "/v1/translate", repeated(1500));
  for (size_t i = 20; i < flood.size(); ++i) flood[i]->leave();
  blocks->released_ = true;
  EXPECT_EQ(large->wait()->status, 200);
  EXPECT_LT(answered(), 10);
  EXPECT_EQ(soon(service.metrics().requests_in_flight, 0), 0);
  int made = 0;
  for (const auto& one : flood) made += one->wait()->status == 200 ? 1 : 0;
  EXPECT_EQ(made, 20);
  EXPECT_EQ(soon(service.metrics().queued_tokens, 0), 0);
}

// A job whose answer is put together by `large` waits there until then, with its tokens; one that
// its client left meanwhile is counted as such.
TEST(Limits, LargeRequestsThatAreLeftAreCounted) {
  Service service(small_models(), {});
  ASSERT_EQ(post(service, "/v1/translate", repeated(1)).status, 200);
  const auto blocks = block_large(service);
  EXPECT_GE(service.metrics().queued_tokens, 100);
  const auto leaves = post_from(service, "10.0.0.3", "/v1/translate", repeated(3000));
  leaves->leave();
  blocks->released_ = true;
  EXPECT_EQ(soon(service.metrics().requests_in_flight, 0), 0);
  EXPECT_EQ(soon(service.metrics().queued_tokens, 0), 0);
  EXPECT_EQ(service.metrics().cancelled, 1);
  EXPECT_NE(get(service, "/metrics").body.find("{api=\"v1\",status=\"499\"} 1\n"),
            std::string::npos);
}

// Bodies whose key is in the body, and wrong, are read in turns with those of others.
TEST(Limits, WithoutAKeyNobodyIsDelayed) {
  ServiceOptions options;
  options.keys = {{"right", "alice", 0}};
  Service service(small_models(), options);
  const std::string large(1'000'000, 'x');
  std::vector<std::shared_ptr<HeldExchange>> flood;
  for (int i = 0; i < 30; ++i) {
    flood.push_back(post_from(service, "10.0.0.1", "/translate",
                              concat(R"({"api_key":"wrong","q":")", large, "\"}")));
  }
  // No more than a quarter of what may wait is theirs.
  int refused = 0;
  for (const auto& one : flood) refused += one->answers() > 0 && one->wait()->status == 503;
  EXPECT_GE(refused, 10);
  const auto alice = post_from(service, "10.0.0.2", "/v1/translate", repeated(2000),
                               {{"Authorization", "Bearer right"}});
  EXPECT_EQ(alice->wait()->status, 200);
  int told = 0;
  for (const auto& one : flood) told += one->answers();
  EXPECT_LT(told - refused, 10);
  for (const auto& one : flood) EXPECT_GE(one->wait()->status, 401);
}

// One client's long tasks leave a worker to the others.
TEST(Limits, LargeRequestsOfOneClientLeaveOthersAWorker) {
  Service service(small_models(), {});
  ASSERT_EQ(post(service, "/v1/translate", repeated(1)).status, 200);
  const auto blocks = block_large(service, 1);
  const auto same = post_from(service, "10.0.9.0", "/v1/translate", repeated(2000));
  EXPECT_EQ(post_from(service, "10.0.0.2", "/v1/translate", repeated(2000))->wait()->status, 200);
  EXPECT_EQ(same->answers(), 0);
  blocks->released_ = true;
  EXPECT_EQ(same->wait()->status, 200);
}

// Nor do its bodies fill the place for those that wait.
TEST(Limits, LargeBodiesOfOneClientLeaveRoomForOthers) {
  Service service(small_models(), {});
  ASSERT_EQ(post(service, "/v1/translate", repeated(1)).status, 200);
  const auto blocks = block_large(service);
  const std::string large =
      concat(R"({"max_tokens":3,"text":"how)", std::string(1'000'000, ' '), "\"}");
  std::vector<std::shared_ptr<HeldExchange>> flood;
  for (int i = 0; i < 70; ++i) {
    flood.push_back(post_from(service, "10.0.0.1", "/v1/translate", large));
  }
  const auto other = post_from(service, "10.0.0.2", "/v1/translate", large);
  EXPECT_EQ(other->answers(), 0);  // it waits
  int refused = 0;
  for (const auto& one : flood) refused += one->answers();
  EXPECT_EQ(refused, 70 - 16);
  EXPECT_EQ(flood.back()->wait()->status, 503);
  for (const auto& one : flood) one->leave();
  blocks->released_ = true;
  EXPECT_EQ(other->wait()->status, 200);
}

// One that is refused because it came to more than it may has cost as much as another.
TEST(Limits, RefusedRequestsAreCharged) {
  for (const char* split : {"long", "always"}) {
    ServiceOptions options;
    options.tokens_per_minute = 100;
    options.limits.max_units = 3;
    Service service(small_models(), options);
    std::string text;
    for (int i = 0; i < 200; ++i) text += "Where are they going? ";
    const std::string body = concat(R"({"text":")", text, R"(","split":")", split, "\"}");
    EXPECT_EQ(post(service, "/v1/translate", body).status, 413);
    EXPECT_EQ(post(service, "/v1/translate", short_body()).status, 429);
  }
}

// What is charged ahead is settled when the tokens are known: blanks have none.
TEST(Limits, WhatIsChargedAheadIsSettled) {
  ServiceOptions options;
  options.tokens_per_minute = 100;
  Service service(small_models(), options);
  const std::string body = concat(R"({"max_tokens":3,"text":"how)", std::string(3000, ' '), "\"}");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(post(service, "/v1/translate", body).status, 200) << i;
}

// A text is not cut to the end when its time is over meanwhile: nothing of it is submitted.
TEST(Limits, DeadlinesAreKeptWhileATextIsCut) {
  ServiceOptions options;
  options.limits.timeout = 20ms;
  Service service(small_models(), options);
  std::string text;
  for (int i = 0; i < 40'000; ++i) text += "how are you ";
  EXPECT_EQ(post(service, "/v1/translate", concat(R"({"text":")", text, "\"}")).status, 504);
  EXPECT_EQ(service.metrics().cache_misses, 0);
}

// An explanation takes seconds, and only eight may wait: one client has two of them.
TEST(Limits, ExplanationsOfOneClientKeepNobodyOut) {
  Service service(small_models(), {});
  const auto get_from = [&](const std::string& client, const std::shared_ptr<Exchange>& exchange) {
    auto one = request("GET", "/explain?text=how", {});
    one.client = client;
    service.handle(std::move(one), exchange);
  };
  const auto blocks = std::make_shared<SlowClient>();
  get_from("10.0.0.1", blocks);
  const auto until = Clock::now() + 30s;
  while (blocks->answers_ == 0 && Clock::now() < until) std::this_thread::sleep_for(1ms);
  std::vector<std::shared_ptr<HeldExchange>> all;
  const auto status = [&](const std::string& client) {
    all.push_back(std::make_shared<HeldExchange>());
    get_from(client, all.back());
    return all.back()->answers() == 0 ? 0 : all.back()->wait()->status;
  };
  EXPECT_EQ(status("10.0.0.1"), 0);  // it waits
  for (int i = 0; i < 22; ++i) EXPECT_EQ(status("10.0.0.1"), 503);
  EXPECT_EQ(header(*all.back()->wait(), "Retry-After"), "5");
  EXPECT_EQ(status("10.0.0.2"), 0);
  for (int i = 3; i < 8; ++i) EXPECT_EQ(status(concat("10.0.0.", i)), 0);
  EXPECT_EQ(status("10.0.0.8"), 503);  // now there are eight
  blocks->released_ = true;
  for (const auto& one : all) EXPECT_NE(one->wait()->status, 0);
  EXPECT_EQ(soon(service.metrics().requests_in_flight, 0), 0);
  EXPECT_NE(ask(service, request("GET", "/explain?text=how")).status, 503);
}

// Notes when it was answered, and by which client.
class NotedExchange final : public Exchange {
 public:
  struct Order {
    std::mutex mutex;
    std::string names;
    size_t count() {
      const std::lock_guard lock(mutex);
      return names.size();
    }
  };
  NotedExchange(std::shared_ptr<Order> order, char name) : order_(std::move(order)), name_(name) {}
  void respond(HttpResponse&& response) override {
    EXPECT_EQ(response.status, 200) << response.body;
    const std::lock_guard lock(order_->mutex);
    order_->names += name_;
  }
  void stream(HttpResponse&&, std::shared_ptr<ByteSource>) override {}
  void more() override {}
  void on_gone(std::function<void()>) override {}

 private:
  const std::shared_ptr<Order> order_;
  const char name_;
};

// Many texts to be scored or aligned do not hold up the one of another client.
TEST(Limits, SlowWorkIsInTurnsTextByText) {
  std::string lines;
  for (int i = 0; i < 60; ++i) {
    lines += concat(i > 0 ? "," : "", R"("where are they going today? )", i, R"( thank you")");
  }
  const std::string many_scores = concat(R"({"source":[)", lines, R"(],"target":[)", lines, "]}");
  const std::string many_alignments =
      concat(R"({"max_tokens":3,"alignments":true,"text":[)", lines, "]}");
  for (const bool aligns : {false, true}) {
    Service service(small_models(), {});
    const std::string one_score = R"({"source":"how","target":"x"})";
    const auto blocks = std::make_shared<SlowClient>();
    service.handle(request("POST", "/v1/score", one_score), blocks);
    const auto until = Clock::now() + 60s;
    while (blocks->answers_ == 0 && Clock::now() < until) std::this_thread::sleep_for(1ms);
    const auto order = std::make_shared<NotedExchange::Order>();
    const auto send = [&](const std::string& client, const char* path, const std::string& body,
                          char name) {
      auto one = request("POST", path, body);
      one.client = client;
      service.handle(std::move(one), std::make_shared<NotedExchange>(order, name));
    };
    if (aligns) {
      send("10.0.0.1", "/v1/translate", many_alignments, 'a');
    } else {
      send("10.0.0.1", "/v1/score", many_scores, 'a');
    }
    // So that it waits for its answer before the other comes.
    EXPECT_EQ(soon(service.metrics().units_in_flight, 0), 0);
    std::this_thread::sleep_for(20ms);
    send("10.0.0.2", "/v1/score", one_score, 'b');
    blocks->released_ = true;
    while (order->count() < 2 && Clock::now() < until) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(order->names, "ba") << aligns;
  }
}

TEST(Limits, ScoresWaitLikeEverythingElse) {
  const std::string body = R"({"source":"how","target":"x"})";
  for (const bool full : {false, true}) {
    ServiceOptions options;
    options.max_queued_tokens = full ? 1 : 1000;
    options.limits.timeout = full ? 60s : 20ms;
    Service service(small_models(), options);
    const auto slow = std::make_shared<SlowClient>();
    service.handle(request("POST", "/v1/score", body), slow);
    const auto until = Clock::now() + 30s;
    while (slow->status_ == 0 && Clock::now() < until) std::this_thread::sleep_for(1ms);
    EXPECT_GT(metric(service, "tril_queued_tokens"), 0);
    const auto exchange = std::make_shared<HeldExchange>();
    service.handle(request("POST", "/v1/score", body), exchange);
    if (!full) std::this_thread::sleep_for(40ms);
    slow->released_ = true;
    const auto response = exchange->wait();
    ASSERT_TRUE(response.has_value());
    EXPECT_EQ(response->status, full ? 503 : 504);
    EXPECT_EQ(soon(service.metrics().queued_tokens, 0), 0);
  }
}

// Many at a time that are for no text at all: each has its own part of what waits.
TEST(Limits, EmptyScoresOfOneClientDoNotMeet) {
  Service service(small_models(), {});
  std::vector<std::thread> threads;
  std::atomic<int> answered = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int each = 0; each < 25; ++each) {
        if (post(service, "/v1/score", R"({"source":[""],"target":[""]})").status == 200)
          ++answered;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, 100);
  EXPECT_EQ(soon(service.metrics().queued_tokens, 0), 0);
}

TEST(Limits, NothingWaitsForNobody) {
  std::atomic<int64_t> total = 0;
  WaitingTokens waiting(total);
  waiting.add(1, 0);
  waiting.add(1, 3);
  waiting.remove(1, 3);
  waiting.remove(1, 0);
  waiting.remove(2, 0);
  EXPECT_EQ(total, 0);
  EXPECT_TRUE(waiting.admits(1, 1));
}

// ---- the numbers --------------------------------------------------------------------------------

TEST(Limits, MetricsCountWhatHappened) {
  Service service(small_models(), {});
  ASSERT_EQ(post(service, "/v1/translate", R"({"text":["how","how","are"],"max_tokens":2})").status,
            200);
  ASSERT_EQ(post(service, "/v1/translate", R"({"text":"how","max_tokens":2})").status, 200);
  ASSERT_EQ(post(service, "/v1/translate", R"({"text":7})").status, 400);
  const std::string text = get(service, "/metrics").body;
  EXPECT_NE(text.find("\ntril_requests_total{api=\"v1\",status=\"200\"} 2\n"), std::string::npos);
  EXPECT_NE(text.find("\ntril_requests_total{api=\"v1\",status=\"400\"} 1\n"), std::string::npos);
  EXPECT_NE(text.find("\ntril_request_seconds_count{api=\"v1\"} 3\n"), std::string::npos) << text;
  EXPECT_EQ(metric(service, "tril_cache_hits_total") + metric(service, "tril_cache_misses_total"),
            4);
  EXPECT_GE(metric(service, "tril_cache_hits_total"), 1);
  EXPECT_GT(metric(service, "tril_source_tokens_total"), 0);
  EXPECT_GT(metric(service, "tril_target_tokens_total"), 0);
  // Every sample line is a name, perhaps labels, and a number; every metric says its type.
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) continue;
    const size_t blank = line.rfind(' ');
    ASSERT_NE(blank, std::string::npos) << line;
    size_t used = 0;
    (void)std::stod(line.substr(blank + 1), &used);
    EXPECT_EQ(used, line.size() - blank - 1) << line;
  }
}

TEST(Limits, DrainingIsToldToWhoAsks) {
  Service service(small_models(), {});
  EXPECT_EQ(get(service, "/readyz").status, 200);
  service.begin_draining();
  EXPECT_EQ(get(service, "/readyz").status, 503);
  EXPECT_EQ(get(service, "/livez").status, 200);
  EXPECT_EQ(metric(service, "tril_draining"), 1);
  EXPECT_EQ(post(service, "/v1/translate", short_body()).status, 200);  // what still comes in
}

// It reads text, too.
TEST(Limits, DetectionIsCharged) {
  for (const auto& [path, field] : {std::pair("/v1/detect", "text"), {"/detect", "q"}}) {
    Service service(small_models(), {.tokens_per_minute = 10});
    const auto detect = [&, path = path, field = field](const std::string& text) {
      return post(service, path, concat("{\"", field, "\":", json_quoted(text), "}")).status;
    };
    EXPECT_EQ(detect("how are you"), 200);
    EXPECT_EQ(detect(std::string(400, 'a')), 200) << "a request may overdraw it once";
    EXPECT_EQ(detect("how are you"), 429) << path;
  }
}

}  // namespace
}  // namespace tril::limits_test
