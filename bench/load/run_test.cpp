#include "run.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "json_text.h"
#include "report.h"
#include "small_server.h"

namespace load {
namespace {

using testing::answer;
using testing::chunk;
using testing::Reply;
using testing::SmallServer;

std::string line_of(const std::string& body) { return json_string(json_at(body, "text")); }

std::string translated(const std::string& line) {
  return R"({"translations": [{"text": )" + json_quoted(line + "!") +
         R"(}], "usage": {"target_tokens": 3}})";
}

Reply plain(const std::string& body) { return {{answer(200, translated(line_of(body)))}}; }

class Run : public ::testing::Test {
 protected:
  Run() {
    write("lines", "one\ntwo \"2\"\nthree\n");
    options_.lines = file("lines");
    options_.requests = 60;
    options_.clients = 4;
    options_.path = "/v1/translate";
    options_.body = R"({"text": "@"})";
    options_.answer = "translations.0.text";
    options_.timeout = 5;
  }

  static std::string file(const std::string& name) {
    return ::testing::TempDir() + "tril_load_" + std::to_string(::getpid()) + "_" + name;
  }

  static std::string write(const std::string& name, const std::string& text) {
    std::ofstream(file(name)) << text;
    return file(name);
  }

  Report run(const SmallServer& server) {
    options_.address = server.address();
    return load::run(options_);
  }

  Options options_;
};

TEST_F(Run, ClosedLoopKeepsItsConnections) {
  SmallServer server(plain);
  options_.warm_up_requests = 10;
  const Report report = run(server);
  EXPECT_EQ(report.sent, 60);
  EXPECT_EQ(report.answered, 60);
  EXPECT_EQ(report.finished, 60);
  EXPECT_EQ(report.latencies.size(), 60u);
  EXPECT_EQ(report.target_tokens, 180);
  EXPECT_TRUE(report.errors.empty());
  EXPECT_EQ(server.connections(), 4);
}

TEST_F(Run, UnixSocket) {
  SmallServer server(plain, file("socket"));
  EXPECT_EQ(run(server).answered, 60);
}

TEST_F(Run, AnswersInPiecesAndChunks) {
  SmallServer server([](const std::string& body) -> Reply {
    const std::string text = translated(line_of(body));
    return {{"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-",
             "Encoding: chunked\r\n\r\n", chunk(text.substr(0, 9)), chunk(text.substr(9)) + "0\r",
             "\n\r\n"}};
  });
  options_.golden = {write("golden", "one!\ntwo \"2\"!\nthree!\n")};
  const Report report = run(server);
  EXPECT_EQ(report.answered, 60);
  EXPECT_EQ(report.checked, 60);
  EXPECT_EQ(report.wrong, 0);
  EXPECT_EQ(server.connections(), 4);
}

TEST_F(Run, ConnectionsThatCloseAreReplaced) {
  SmallServer server([](const std::string& body) -> Reply {
    return {{answer(200, translated(line_of(body)), "Connection: close\r\n")}, true};
  });
  EXPECT_EQ(run(server).answered, 60);
  EXPECT_EQ(server.connections(), 60);
}

TEST_F(Run, WrongAndUnequalAnswersAreFound) {
  std::mutex mutex;
  std::set<std::string> seen;
  SmallServer server([&](const std::string& body) -> Reply {
    const std::lock_guard lock(mutex);
    const bool first = seen.insert(line_of(body)).second;
    return {
        {answer(200, translated(line_of(body) + (first && line_of(body) == "three" ? "?" : "")))}};
  });
  options_.clients = 1;
  options_.golden = {write("golden", "one!\ntwo!\nthree!\n")};
  options_.answers = file("answers");
  const Report report = run(server);
  EXPECT_EQ(report.checked, 60);
  EXPECT_EQ(report.wrong, 21);    // every second line, and the first third
  EXPECT_EQ(report.unequal, 19);  // to the first third
  std::set<std::string> answers;
  for (const std::string& line : read_lines(file("answers"))) answers.insert(line);
  EXPECT_EQ(answers, (std::set<std::string>{R"({"line": 1, "options": 0, "text": "one!"})",
                                            R"({"line": 2, "options": 0, "text": "two \"2\"!"})",
                                            R"({"line": 3, "options": 0, "text": "three!"})",
                                            R"({"line": 3, "options": 0, "text": "three?!"})"}));
}

TEST_F(Run, OptionsAreMixed) {
  SmallServer server([](const std::string& body) -> Reply {
    const std::string beam(json_at(body, "beam"));
    return {{answer(200, translated(line_of(body) + beam))}};
  });
  options_.mix = {R"({"beam": 1})", "{}"};
  options_.golden = {write("golden1", "one1!\ntwo \"2\"1!\nthree1!\n"),
                     write("golden2", "one!\ntwo \"2\"!\nthree!\n")};
  const Report report = run(server);
  EXPECT_EQ(report.checked, 60);
  EXPECT_TRUE(report.faultless());
}

TEST_F(Run, RefusalsAreCountedApart) {
  std::atomic<int> number = 0;
  SmallServer server([&](const std::string& body) -> Reply {
    switch (number++ % 6) {
      case 0: return {{answer(503, "{}", "Retry-After: 1\r\n")}};
      case 1: return {{answer(429, "{}")}};
      case 2: return {{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"}, true};
      case 3: return {{}, true};
      case 4: return {{answer(200, "{}")}};
      default: return plain(body);
    }
  });
  options_.clients = 1;
  options_.pause = 0.001;
  const Report report = run(server);
  EXPECT_EQ(report.answered, 10);
  const std::map<std::string, int64_t> expected = {
      {"503", 10}, {"429", 10}, {"malformed", 20}, {"closed", 10}};
  EXPECT_EQ(report.errors, expected);
}

TEST_F(Run, NobodyThere) {
  std::string address;
  {
    SmallServer server(plain);
    address = server.address();
  }
  options_.address = address;
  const Report report = load::run(options_);
  const std::map<std::string, int64_t> expected = {{"connect", 60}};
  EXPECT_EQ(report.errors, expected);
}

TEST_F(Run, AnswersThatDoNotComeInTime) {
  SmallServer server([&](const std::string&) -> Reply { return {}; });
  options_.requests = 4;
  options_.timeout = 0.05;
  const Report report = run(server);
  const std::map<std::string, int64_t> expected = {{"timeout", 4}};
  EXPECT_EQ(report.errors, expected);
}

TEST_F(Run, Streams) {
  const auto partial = [](const std::string& text) {
    return chunk("event: partial\ndata: {\"index\": 0, \"text\": " + json_quoted(text) + "}\n\n");
  };
  std::atomic<bool> torn = false;
  SmallServer server([&](const std::string& body) -> Reply {
    const std::string line = line_of(body);
    if (json_at(body, "stream") != "true") return plain(body);
    return {{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", partial(line.substr(0, 1)),
             partial(torn ? "z" : line), chunk("event: done\ndata: " + translated(line) + "\n\n"),
             "0\r\n\r\n"}};
  });
  options_.stream = 0.5;
  options_.golden = {write("golden", "one!\ntwo \"2\"!\nthree!\n")};
  const Report whole = run(server);
  EXPECT_EQ(whole.answered, 60);
  EXPECT_GT(whole.first_events.size(), 15u);
  EXPECT_LT(whole.first_events.size(), 45u);
  EXPECT_TRUE(whole.faultless());
  torn = true;
  const Report other = run(server);
  EXPECT_EQ(other.torn, int64_t(other.first_events.size()));
  EXPECT_EQ(other.wrong, 0);
}

TEST_F(Run, ClientsLeave) {
  SmallServer server([](const std::string& body) -> Reply {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return plain(body);
  });
  options_.cancel = 0.5;
  options_.cancel_within = 0.01;
  const Report report = run(server);
  EXPECT_EQ(report.answered + report.cancelled, 60);
  EXPECT_GT(report.cancelled, 15);
  EXPECT_GT(report.answered, 15);
  EXPECT_TRUE(report.errors.empty());
}

// A server that stands still makes everyone wait who comes meanwhile, also those for whom a client
// that waits for its answer before it asks again would not have asked.
TEST_F(Run, OpenLoopCountsFromTheScheduledArrival) {
  std::mutex mutex;
  std::atomic<int> number = 0;
  SmallServer server([&](const std::string& body) -> Reply {
    const std::lock_guard lock(mutex);
    if (number++ == 50) std::this_thread::sleep_for(std::chrono::milliseconds(400));
    return plain(body);
  });
  options_.rate = 200;
  options_.requests = 200;
  options_.connections = 2;
  Report report = run(server);
  EXPECT_EQ(report.answered, 200);
  EXPECT_LE(server.connections(), 2);
  // 80 of 200 arrive meanwhile and wait 200 ms on average.
  EXPECT_GT(percentile(report.latencies, 0.95), 0.25);
  EXPECT_LT(percentile(report.latencies, 0.4), 0.1);
  EXPECT_GT(percentile(report.lateness, 0.95), 0.25);
  EXPECT_NEAR(report.seconds, 1, 0.5);
}

TEST_F(Run, SecondsLeaveOutTheWarmUp) {
  SmallServer server([](const std::string& body) -> Reply {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return plain(body);
  });
  options_.requests = 0;
  options_.warm_up = 0.2;
  options_.seconds = 0.5;
  const Report report = run(server);
  EXPECT_EQ(report.seconds, 0.5);
  EXPECT_LE(report.finished, 4 * 51);
  EXPECT_GT(report.finished, 20);
  EXPECT_NEAR(double(report.sent), double(report.finished), 8);
}

TEST(Options, Refuses) {
  const auto refused = [](std::vector<std::string> arguments) {
    try {
      parse_options(arguments);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refused({}), "");
  EXPECT_NE(refused({"a:1", "lines"}), "");  // no amount
  EXPECT_EQ(refused({"a:1", "lines", "--requests", "1"}), "");
  EXPECT_NE(refused({"a:1", "lines", "--requests", "1", "--seconds", "1"}), "");
  EXPECT_NE(refused({"a:1", "lines", "--requests", "-1"}), "");
  EXPECT_NE(refused({"a:1", "lines", "--requests"}), "");
  EXPECT_NE(refused({"a:1", "lines", "more", "--requests", "1"}), "");
  EXPECT_NE(refused({"a:1", "lines", "--requests", "1", "--cancel", "2"}), "");
  EXPECT_NE(refused({"a:1", "lines", "--requests", "1", "--target", "json"}), "");
  EXPECT_NE(refused({"a:1", "lines", "--requests", "1", "--options", "4"}), "");
  EXPECT_NE(refused({"a:1", "lines", "--requests", "1", "--verify", "x", "--verify", "y"}), "");
}

}  // namespace
}  // namespace load
