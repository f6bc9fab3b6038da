// Streams: what is told is final, and the whole of it is the answer without a stream.
#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <mutex>

#include "service_support.h"

namespace tril::stream_test {
namespace {

using namespace serve;
using namespace serve_test;

Service& served() {
  static Service service(small_models(1, true), [] {
    ServiceOptions options;
    options.cache_bytes = 0;
    return options;
  }());
  return service;
}

// Reads whatever there is at every step of the engine, on its thread: sees all that is ever told.
class EagerClient final : public Exchange {
 public:
  void respond(HttpResponse&& response) override {
    const std::lock_guard lock(mutex_);
    response_ = std::move(response);
    ended_ = true;
    changed_.notify_all();
  }
  void stream(HttpResponse&& head, std::shared_ptr<ByteSource> source) override {
    const std::lock_guard lock(mutex_);
    response_ = std::move(head);
    source_ = std::move(source);
    read();
  }
  void more() override {
    const std::lock_guard lock(mutex_);
    read();
  }
  void on_gone(std::function<void()>) override {}

  HttpResponse wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return ended_; }));
    source_ = nullptr;
    return response_;
  }

 private:
  void read() {
    if (source_ == nullptr || ended_) return;
    ended_ = !source_->take(response_.body);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  HttpResponse response_;
  std::shared_ptr<ByteSource> source_;
  bool ended_ = false;
};

HttpResponse streamed(Service& service, const std::string& path, const std::string& fields) {
  const auto client = std::make_shared<EagerClient>();
  service.handle(request("POST", path, "{\"stream\":true," + fields + "}"), client);
  const auto response = client->wait();
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.type, "text/event-stream");
  EXPECT_EQ(header(response, "Cache-Control"), "no-store");
  EXPECT_EQ(header(response, "X-Tril-Fingerprint").size(), 32u);
  return response;
}

// Each text only grows, up to the final one; the last event is the plain answer, byte for byte.
// Returns the number of partial events.
size_t check_stream(Service& service, const std::string& path, const std::string& fields) {
  SCOPED_TRACE(fields);
  const auto plain = post(service, path, "{" + fields + "}");
  EXPECT_EQ(plain.status, 200) << plain.body;
  const Events events = events_of(streamed(service, path, fields));
  if (events.empty() || plain.status != 200) return 0;
  EXPECT_EQ(events.back().first, "done");
  EXPECT_EQ(events.back().second + "\n", plain.body);
  const JsonValue answer = json(plain);
  const auto& final = at(answer, "translations").items;
  std::vector<std::string> told(final.size());
  for (size_t e = 0; e + 1 < events.size(); ++e) {
    EXPECT_EQ(events[e].first, "partial");
    const JsonValue event = parse_json(events[e].second, "event");
    const auto index = static_cast<size_t>(at(event, "index").integer);
    const std::string& text = at(event, "text").text;
    if (index >= told.size()) {
      ADD_FAILURE() << "no text " << index;
      continue;
    }
    EXPECT_GT(text.size(), told[index].size());
    EXPECT_TRUE(text.starts_with(told[index])) << told[index] << "\n" << text;
    EXPECT_TRUE(at(final[index], "text").text.starts_with(text))
        << json_quoted(text) << "\n"
        << json_quoted(at(final[index], "text").text);
    told[index] = text;
  }
  return events.size() - 1;
}

const char* const kSearches[] = {
    R"("beam":1,"max_tokens":30)", R"("beam":4,"n_best":2,"max_tokens":24)",
    R"("beam":2,"max_tokens":3)",
    R"("sample":true,"seed":3,"temperature":1.4,"n_best":2,"max_tokens":20)",
    R"("beam":3,"max_tokens":12,"details":true,"alignments":true,"receipt":true)"};

TEST(Stream, OnlyGrowsToTheAnswer) {
  size_t partial = 0;
  for (const char* search : kSearches) {
    for (const std::string& line : some_lines()) {
      partial += check_stream(served(), "/v1/translate",
                              concat(R"("target":"hi","text":)", json_quoted(line), ",", search));
    }
  }
  EXPECT_GT(partial, 4 * some_lines().size());
}

TEST(Stream, OfTextsOfManySentences) {
  const std::string texts[] = {"how are you\n",
                               "\n\n how are you \r\nI am fine\n banana\n\n",
                               "How are you? I am fine. Where are they?  ",
                               "",
                               "\n",
                               "How are you? " + some_lines()[7] + "\nbanana\r\n"};
  for (const char* search : kSearches) {
    for (const std::string& text : texts) {
      for (const char* split : {"long", "always"}) {
        (void)check_stream(served(), "/v1/translate",
                           concat(R"("target":"hi","split":")", split, R"(","text":)",
                                  json_quoted(text), ",", search));
      }
    }
    (void)check_stream(served(), "/v1/translate",
                       concat(R"("target":"hi","text":[)", json_quoted(texts[1]), ",",
                              json_quoted(texts[5]), R"(,"how"],)", search));
  }
}

TEST(Stream, OfContinuedText) {
  for (const char* search : {kSearches[0], kSearches[1], kSearches[2], kSearches[3]}) {
    for (const std::string prompt : {"how are", "a\nb", " how \n", "मैं ठी"}) {
      (void)check_stream(served(), "/v1/generate",
                         concat(R"("model":"story","text":)", json_quoted(prompt), ",", search));
    }
  }
}

TEST(Stream, OfWhatIsInTheCache) {
  Service service(small_models(), {});
  const std::string fields = R"("text":["how are you\nbanana\n","I am fine"],"max_tokens":9)";
  ASSERT_EQ(post(service, "/v1/translate", "{" + fields + "}").status, 200);
  const int64_t misses = metric(service, "tril_cache_misses_total");
  (void)check_stream(service, "/v1/translate", fields);
  EXPECT_EQ(metric(service, "tril_cache_misses_total"), misses);
  // A stream fills it as well.
  const std::string other = R"("text":"where are they","max_tokens":9)";
  (void)streamed(service, "/v1/translate", other);
  const int64_t hits = metric(service, "tril_cache_hits_total");
  ASSERT_EQ(post(service, "/v1/translate", "{" + other + "}").status, 200);
  EXPECT_EQ(metric(service, "tril_cache_hits_total"), hits + 1);
}

// The first words come before the last: nobody waits for the end. The engine stands still while
// they are read.
TEST(Stream, TellsBeforeTheEnd) {
  Service service(small_models(), {});
  class FirstNews final : public Exchange {
   public:
    void respond(HttpResponse&&) override {}
    void stream(HttpResponse&&, std::shared_ptr<ByteSource> source) override {
      source_.set_value(std::move(source));
    }
    void more() override {
      if (is_told_) return;
      is_told_ = true;
      std::string bytes;
      const bool goes_on = given_.get()->take(bytes);
      first_.set_value(concat(goes_on ? "" : "the end: ", bytes));
    }
    void on_gone(std::function<void()>) override {}
    std::promise<std::shared_ptr<ByteSource>> source_;
    std::future<std::shared_ptr<ByteSource>> given_ = source_.get_future();
    std::promise<std::string> first_;
    bool is_told_ = false;
  };
  const auto client = std::make_shared<FirstNews>();
  const std::string asked = R"("text":"how are you","beam":1,"min_tokens":9,"max_tokens":9)";
  service.handle(request("POST", "/v1/translate", "{" + asked + R"(,"stream":true})"), client);
  const std::string event = client->first_.get_future().get();
  constexpr std::string_view kPartial = "event: partial\ndata: ";
  ASSERT_TRUE(event.starts_with(kPartial)) << event;
  const std::string text = parse_json(event.substr(kPartial.size()), "event").find("text")->text;
  // It comes within two steps of the engine: what it tells are the first two tokens at most.
  const auto whole =
      json(post(service, "/v1/translate", concat("{", asked, R"(,"details":true})")));
  const auto& ids = whole.find("translations")
                        ->items[0]
                        .find("sentences")
                        ->items[0]
                        .find("hypotheses")
                        ->items[0]
                        .find("ids")
                        ->items;
  ASSERT_EQ(ids.size(), 9);
  const std::vector<int32_t> two = {static_cast<int32_t>(ids[0].integer),
                                    static_cast<int32_t>(ids[1].integer)};
  EXPECT_FALSE(text.empty());
  EXPECT_LE(text.size(), small_translator().tokenizer().decode(two).size());
  EXPECT_NE(get(service, "/metrics").body.find("tril_first_token_seconds_count 1\n"),
            std::string::npos);
}

TEST(Stream, RefusalsAreAnsweredWithoutOne) {
  const auto refused =
      post(served(), "/v1/translate", R"({"stream":true,"text":"a","target":"xx"})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.type, "application/json");
  const auto late = post(served(), "/v1/translate",
                         concat(R"({"stream":true,"split":"never","target":"hi","text":")",
                                std::string(900, 'x'), "\"}"));
  const Events events = events_of(late);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events.front().first, "error");
  EXPECT_NE(events.front().second.find(R"("field":"text")"), std::string::npos);
}

// ---- OpenAI's -----------------------------------------------------------------------------------

// The chunks of each choice, joined, and how it finished.
struct Joined {
  std::vector<std::string> texts, finish;
  int64_t usage = 0;
};

Joined joined(const HttpResponse& response, size_t choices) {
  Joined all{std::vector<std::string>(choices), std::vector<std::string>(choices)};
  const Events events = events_of(response);
  EXPECT_FALSE(events.empty());
  if (events.empty()) return all;
  EXPECT_EQ(events.back().second, "[DONE]");
  for (size_t e = 0; e + 1 < events.size(); ++e) {
    EXPECT_EQ(events[e].first, "");
    const JsonValue chunk = parse_json(events[e].second, "chunk");
    EXPECT_EQ(at(chunk, "object").text, "text_completion");
    for (const JsonValue& choice : at(chunk, "choices").items) {
      const auto index = static_cast<size_t>(at(choice, "index").integer);
      EXPECT_EQ(all.finish.at(index), "") << "more after the end";
      all.texts.at(index) += at(choice, "text").text;
      if (at(choice, "finish_reason").kind == JsonValue::Kind::string) {
        all.finish.at(index) = at(choice, "finish_reason").text;
      }
    }
    all.usage += at(chunk, "usage/total_tokens").integer;
  }
  return all;
}

void check_completion(const std::string& fields, size_t choices = 1) {
  SCOPED_TRACE(fields);
  const auto plain = post(served(), "/v1/completions", "{" + fields + "}");
  ASSERT_EQ(plain.status, 200) << plain.body;
  const Joined all = joined(streamed(served(), "/v1/completions", fields), choices);
  for (size_t i = 0; i < choices; ++i) {
    EXPECT_EQ(all.texts[i], text_at(plain, concat("choices/", i, "/text")));
    EXPECT_EQ(all.finish[i], text_at(plain, concat("choices/", i, "/finish_reason")));
  }
}

TEST(Stream, OfCompletionsJoinsToTheAnswer) {
  for (const std::string prompt :
       {"", "how are", "  how  are ", "a\nb", "a\r\nb\n", "मैं ठी", "é x"}) {
    for (const char* more : {R"("temperature":0)", R"("seed":4,"temperature":1.3)",
                             R"("temperature":0,"echo":true)"}) {
      check_completion(
          concat(R"("model":"story","max_tokens":12,"prompt":)", json_quoted(prompt), ",", more));
    }
  }
  check_completion(R"("model":"story","max_tokens":9,"prompt":["how","are","\n"],"temperature":0)",
                   3);
  check_completion(R"("model":"en-hi","prompt":["how are you\n","I am fine"])", 2);
  check_completion(R"("model":"en-hi","prompt":["how are you\nbanana",""],"echo":true)", 2);
}

TEST(Stream, OfCompletionsEndsBeforeAStop) {
  const std::string drawn = R"("model":"story","max_tokens":16,"temperature":0,"prompt":"how are")";
  const std::string whole =
      text_at(post(served(), "/v1/completions", "{" + drawn + "}"), "choices/0/text");
  const auto is_start = [&](size_t at) { return at >= whole.size() || (whole[at] & 0xC0) != 0x80; };
  int tried = 0;
  for (size_t begin = 0; begin < whole.size(); ++begin) {
    for (size_t size = 1; size < 12 && begin + size <= whole.size(); size += 2) {
      if (!is_start(begin) || !is_start(begin + size)) continue;
      const std::string stop = json_quoted(whole.substr(begin, size));
      check_completion(concat(drawn, R"(,"stop":)", stop));
      // A longer one that begins before and never ends, and one that ends within another.
      check_completion(concat(drawn, R"(,"stop":[)", stop, R"(,"xxxxxxxxxxxxxxxxx"],"echo":true)"));
      if (begin > 0 && is_start(begin - 1)) {
        check_completion(
            concat(drawn, R"(,"stop":[)", stop, ",", json_quoted(whole.substr(begin - 1)), "]"));
      }
      ++tried;
    }
  }
  EXPECT_GT(tried, 5);
}

TEST(Stream, OfCompletionsTellsItsUsage) {
  const std::string fields = R"("model":"story","max_tokens":6,"temperature":0,"prompt":"how are")";
  const auto plain = post(served(), "/v1/completions", "{" + fields + "}");
  const Joined all = joined(
      streamed(served(), "/v1/completions", fields + R"(,"stream_options":{"include_usage":true})"),
      1);
  EXPECT_EQ(all.usage, at(json(plain), "usage/total_tokens").integer);
  EXPECT_EQ(joined(streamed(served(), "/v1/completions", fields), 1).usage, 0);
}

}  // namespace
}  // namespace tril::stream_test
