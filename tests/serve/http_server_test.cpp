// HttpServer at the level of bytes on a socket: where messages end, who waits for whom, and what
// happens when clients are slow, wrong or gone.
#include "tril/serve/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/sanitizers.h"
#include "support/temp_folder.h"
#include "support/testing.h"
#include "tril/base/error.h"
#include "tril/serve/listening.h"

namespace tril::http_server_test {
namespace {

using namespace std::chrono_literals;
using serve::Exchange;
using serve::HttpOptions;
using serve::HttpRequest;
using serve::HttpResponse;
using serve::HttpServer;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point time) {
  return std::chrono::duration<double>(Clock::now() - time).count();
}

class Client {
 public:
  explicit Client(const HttpServer& server, const char* from = "127.0.0.1") {
    const std::string address = server.address();
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    ::inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
    const timeval most{20, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    sockaddr_in own{};
    own.sin_family = AF_INET;
    ::inet_pton(AF_INET, from, &own.sin_addr);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  }
  ~Client() { close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      text.remove_prefix(static_cast<size_t>(sent));
    }
  }
  // Reads until the text is there or the connection ends.
  std::string read_until(std::string_view text) {
    while (read_.find(text) == std::string::npos && receive()) {
    }
    return read_;
  }
  // Reads until the server closes; "" at the end of a time limit.
  std::string read_all() {
    while (receive()) {
    }
    return closed_ ? read_ : "not closed: " + read_;
  }
  // One answer with a Content-Length; what follows it stays.
  std::string answer() {
    while (read_.find("\r\n\r\n") == std::string::npos && receive()) {
    }
    const size_t head = read_.find("\r\n\r\n");
    if (head == std::string::npos) return std::exchange(read_, {});
    size_t length = 0;
    if (const size_t at = read_.find("Content-Length: "); at < head) {
      length = std::stoul(read_.substr(at + 16));
    }
    while (read_.size() < head + 4 + length && receive()) {
    }
    const std::string one = read_.substr(0, head + 4 + length);
    read_.erase(0, head + 4 + length);
    return one;
  }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  void reset() {
    const linger at_once{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }
  int socket() const { return socket_; }

 private:
  bool receive() {
    char bytes[4096];
    const ssize_t got = ::recv(socket_, bytes, sizeof bytes, 0);
    closed_ = got == 0 || (got < 0 && errno == ECONNRESET);
    if (got <= 0) return false;
    read_.append(bytes, static_cast<size_t>(got));
    return true;
  }

  int socket_ = -1;
  std::string read_;
  bool closed_ = false;
};

// Answers with method, target and body; /hold keeps the exchange, /stream streams.
class Echo {
 public:
  void operator()(HttpRequest&& request, std::shared_ptr<Exchange> exchange) {
    ++requests;
    if (request.target == "/hold") {
      exchange->on_gone([this] { ++gone; });
      const std::lock_guard lock(mutex);
      held.push_back(std::move(exchange));
      return;
    }
    if (request.target == "/drop") return;
    if (request.target == "/headers") {
      std::string names;
      for (const serve::Header& header : request.headers) names += header.name + " ";
      return exchange->respond({.type = "text/plain", .body = names});
    }
    if (request.target == "/large") {
      return exchange->respond({.body = std::string(8 << 20, 'x')});
    }
    exchange->respond({.type = "text/plain",
                       .body = concat(request.method, " ", request.target, " ", request.body)});
  }
  void answer_held() {
    const std::lock_guard lock(mutex);
    for (const auto& exchange : held) exchange->respond({.type = "text/plain", .body = "held"});
    held.clear();
  }
  bool holds(size_t count) {
    const auto until = Clock::now() + 10s;
    while (Clock::now() < until) {
      {
        const std::lock_guard lock(mutex);
        if (held.size() == count) return true;
      }
      std::this_thread::sleep_for(1ms);
    }
    return false;
  }

  std::atomic<int> requests = 0;
  std::atomic<int> gone = 0;
  std::mutex mutex;
  std::vector<std::shared_ptr<Exchange>> held;  // guarded by the mutex
};

class Http : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!serve::problem_of_http().empty()) GTEST_SKIP() << serve::problem_of_http();
    start({});
  }
  void start(HttpOptions options) {
    if (!serve::problem_of_http().empty()) return;
    server.reset();
    options.listen = "127.0.0.1:0";
    server = std::make_unique<HttpServer>(
        options, [this](HttpRequest&& request, std::shared_ptr<Exchange> exchange) {
          echo(std::move(request), std::move(exchange));
        });
    server->start();
  }
  // What the server sends for these bytes until it closes.
  std::string all_for(std::string_view bytes) {
    Client client(*server);
    client.send(bytes);
    return client.read_all();
  }
  bool eventually(const std::function<bool()>& holds) {
    const auto until = Clock::now() + 10s;
    while (Clock::now() < until) {
      if (holds()) return true;
      std::this_thread::sleep_for(1ms);
    }
    return holds();
  }

  Echo echo;
  std::unique_ptr<HttpServer> server;
};

constexpr std::string_view kGet = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";

TEST_F(Http, AnswersOneAfterTheOtherOnOneConnection) {
  Client client(*server);
  for (int i = 0; i < 3; ++i) {
    client.send(kGet);
    EXPECT_TRUE(client.answer().ends_with("\r\n\r\nGET /a "));
  }
  // Pipelined, and cut anywhere.
  const std::string two =
      concat("POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", kGet);
  for (size_t cut = 1; cut < two.size(); cut += 7) {
    client.send(std::string_view(two).substr(0, cut));
    std::this_thread::sleep_for(1ms);
    client.send(std::string_view(two).substr(cut));
    EXPECT_TRUE(client.answer().ends_with("\r\n\r\nPOST /b hello"));
    EXPECT_TRUE(client.answer().ends_with("\r\n\r\nGET /a "));
  }
}

TEST_F(Http, ReadsBodiesOfEveryKind) {
  Client client(*server);
  client.send(
      "POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n");
  EXPECT_TRUE(client.answer().ends_with("POST /c abc0123456789"));
  // Some clients send the fields of a GET in its body.
  client.send("GET /d HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody");
  EXPECT_TRUE(client.answer().ends_with("GET /d body"));
  client.send(kGet);
  EXPECT_TRUE(client.answer().ends_with("GET /a "));
  client.send("POST /e HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.answer(), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("ok");
  EXPECT_TRUE(client.answer().ends_with("POST /e ok"));
  client.send("GET http://h/f?x HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(client.answer().ends_with("GET /f?x "));
  client.send("HEAD /g HTTP/1.1\r\nHost: h\r\n\r\n");
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_NE(head.find("Content-Length: 8"), std::string::npos);
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
}

TEST_F(Http, OldClientsAreAnsweredAndLeft) {
  EXPECT_TRUE(all_for("GET /a HTTP/1.0\r\n\r\n").ends_with("GET /a "));
  Client client(*server);
  client.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_NE(client.answer().find("Connection: keep-alive"), std::string::npos);
  client.send("GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  EXPECT_NE(client.read_all().find("Connection: close"), std::string::npos);
}

// Where two servers could see the end of a message in different places, the second could be made
// to read a body as a request: none of these is passed on.
TEST_F(Http, RefusesWhatCouldBeSmuggled) {
  const std::string inner = "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n";
  const std::vector<std::string> heads = {
      "Host: h\r\nContent-Length: 4\r\nContent-Length: 40",
      "Host: h\r\nContent-Length: 4\r\nContent-Length: 4",
      "Host: h\r\nContent-Length: 4, 40",
      "Host: h\r\nContent-Length: 4, 4",
      "Host: h\r\nContent-Length:",
      "Host: h\r\nContent-Length:\r\n 4",
      "Host: h\r\nContent-Length:\r\n\t4",
      "Host: h\r\nTransfer-Encoding:\r\n chunked",
      "Host: h\r\nTransfer-Encoding: chunked\r\n ",
      "Host: h\r\nX: a\r\n b",
      "Host:\r\n h",
      "Host: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked",
      "Host: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 4",
      "Host: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
      "Host: h\r\nTransfer-Encoding: identity",
      "Host: h\r\nTransfer-Encoding: gzip, chunked",
      "Host: h\r\nTransfer-Encoding: xchunked",
      "Host: h\r\nTransfer-Encoding : chunked",
      "Host: h\r\nContent-Length: -1",
      "Host: h\r\nContent-Length: +4",
      "Host: h\r\nContent-Length: 0x4",
      "Host: h\r\nContent-Length: 99999999999999999999",
      "Host: h\r\nContent Length: 4",
      "Content-Length: 0",
      "Host: h\r\nHost: i",
      "Host: h\r\nX: a\rb",
      std::string("Host: h\r\nX: a\0b", 15),
  };
  for (const std::string& head : heads) {
    const int before = echo.requests;
    const std::string answer =
        all_for(concat("POST /outer HTTP/1.1\r\n", head, "\r\n\r\n", "0\r\n\r\n", inner));
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.1 5"))
        << head << "\n"
        << answer;
    EXPECT_EQ(answer.find("smuggled"), std::string::npos) << head;
    EXPECT_EQ(echo.requests, before) << head;
    EXPECT_NE(answer.find("Connection: close"), std::string::npos) << head;
  }
  for (const std::string_view junk : {"\x16\x03\x01\x02 tls?", "GET / HTTP/2.0\r\nHost: h\r\n\r\n",
                                      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET\r\n\r\n"}) {
    EXPECT_TRUE(all_for(concat(junk, "\r\n\r\n")).starts_with("HTTP/1.1 400")) << junk;
  }
}

// However they arrive; what only looks like one is not.
TEST_F(Http, FindsContinuedLinesInPieces) {
  const std::string folded = "GET /a HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n";
  for (size_t cut = 1; cut < folded.size(); cut += 3) {
    Client client(*server);
    client.send(std::string_view(folded).substr(0, cut));
    std::this_thread::sleep_for(2ms);
    client.send(std::string_view(folded).substr(cut));
    EXPECT_TRUE(client.answer().starts_with("HTTP/1.1 400")) << cut;
  }
  Client client(*server);
  client.send("POST /a HTTP/1.1\r\nHost: h\r\nX: \t a \r\nContent-Length: 6\r\n\r\n \r\n\r\n ");
  EXPECT_TRUE(client.answer().ends_with("POST /a  \r\n\r\n "));
}

TEST_F(Http, IgnoresOneEmptyLineBeforeARequest) {
  Client client(*server);
  client.send(concat("\r\n", kGet, "\r\n", kGet));
  EXPECT_TRUE(client.answer().ends_with("GET /a "));
  EXPECT_TRUE(client.answer().ends_with("GET /a "));
  client.send("\r");
  std::this_thread::sleep_for(5ms);
  client.send("\n");
  std::this_thread::sleep_for(5ms);
  client.send(kGet);
  EXPECT_TRUE(client.answer().ends_with("GET /a "));
  EXPECT_TRUE(all_for(concat("\r\n\r\n", kGet)).starts_with("HTTP/1.1 400"));
  EXPECT_TRUE(all_for(concat("\rG", kGet)).starts_with("HTTP/1.1 400"));
  // It begins nothing: the connection is as idle as before.
  start({.idle_time = 20s, .header_time = 100ms});
  Client idle(*server);
  idle.send("\r\n");
  std::this_thread::sleep_for(300ms);
  idle.send(kGet);
  EXPECT_TRUE(idle.answer().ends_with("GET /a "));
}

TEST_F(Http, BoundsHeaderAndBody) {
  start({.max_header = 1000, .max_body = 2000});
  const std::string long_header =
      concat("GET /a HTTP/1.1\r\nHost: h\r\nX: ", std::string(2000, 'x'));
  EXPECT_TRUE(all_for(long_header + "\r\n\r\n").starts_with("HTTP/1.1 431"));
  EXPECT_TRUE(all_for("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2001\r\n\r\n")
                  .starts_with("HTTP/1.1 413"));
  EXPECT_TRUE(all_for(concat("POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n",
                             "fff\r\n", std::string(0xfff, 'y')))
                  .starts_with("HTTP/1.1 413"));
  EXPECT_EQ(echo.requests, 0);
}

// The parser has no bound of its own for these.
TEST_F(Http, BoundsWhatChunksSayBesides) {
  const std::string head = "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string_view begin : {"5;", "5\r\nhello\r\n0\r\nX: ", "5\r\nhello\r\n0;a="}) {
    start({.max_header = 1000, .body_time = 20s});
    Client client(*server);
    client.send(concat(head, begin));
    for (int i = 0; i < 40; ++i) client.send(std::string(1000, 'x'));
    EXPECT_TRUE(client.read_all().starts_with("HTTP/1.1 431")) << begin;
    EXPECT_EQ(echo.requests, 0);
  }
  Client client(*server);
  client.send(concat(head, "5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n"));
  EXPECT_TRUE(client.answer().ends_with("POST /a hello"));
}

// What a chunked body adds at its end was seen by nobody who looked at the header.
TEST_F(Http, TrailersAreNoHeaders) {
  Client client(*server);
  client.send(
      "POST /headers HTTP/1.1\r\nHost: h\r\nX-One: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
      "2\r\nhi\r\n0\r\nAuthorization: Bearer k\r\nConnection: close\r\n\r\n");
  const std::string answer = client.answer();
  EXPECT_NE(answer.find("X-One"), std::string::npos) << answer;
  EXPECT_EQ(answer.find("Authorization"), std::string::npos) << answer;
  client.send(kGet);  // the connection is still there
  EXPECT_TRUE(client.answer().ends_with("GET /a "));
}

// Many large bodies, from people nobody knows, do not keep those out whom somebody does.
TEST_F(Http, BoundsWhatAllSendTogether) {
  HttpOptions options;
  options.max_reading = 1'000'000;
  options.is_known = [](const HttpRequest& request) { return request.header("X-Key") == "k"; };
  start(options);
  const std::string part(200'000, 'x');
  Client unknown(*server);
  unknown.send(concat("POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 300000\r\n\r\n", part));
  EXPECT_TRUE(eventually([&] { return server->counts().reading >= 200'000; }));
  Client second(*server);
  second.send(concat("POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 200000\r\n\r\n", part));
  const std::string refused = second.read_all();
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 503")) << refused.substr(0, 200);
  EXPECT_NE(refused.find("Retry-After: 1\r\n"), std::string::npos);
  Client known(*server);
  known.send(
      concat("POST /b HTTP/1.1\r\nHost: h\r\nX-Key: k\r\nContent-Length: 200000\r\n\r\n", part));
  EXPECT_TRUE(known.answer().ends_with("xxxx"));
  Client little(*server);
  little.send(kGet);
  EXPECT_TRUE(little.answer().ends_with("GET /a "));
  unknown.close();
  EXPECT_TRUE(eventually([&] { return server->counts().reading == 0; }));
}

// One address has a part of it only, and who sends nothing yet is let in.
TEST_F(Http, BoundsWhatOneAddressSends) {
  HttpOptions options;
  options.max_reading = 2'000'000;
  start(options);
  const std::string part(200'000, 'x');
  const std::string head = "POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 200001\r\n\r\n";
  Client one(*server), two(*server), three(*server), other(*server, "127.0.0.2");
  one.send(head + part);
  two.send(head + part);
  EXPECT_TRUE(eventually([&] { return server->counts().reading >= 400'000; }));
  three.send(head + part);
  EXPECT_TRUE(three.read_all().starts_with("HTTP/1.1 503"));
  other.send(head + part + "y");
  EXPECT_TRUE(other.answer().ends_with("xxy"));
  one.send("y");
  two.send("y");
  EXPECT_TRUE(one.answer().ends_with("xxy"));
  EXPECT_TRUE(two.answer().ends_with("xxy"));
  EXPECT_TRUE(eventually([&] { return server->counts().reading == 0; }));
}

TEST_F(Http, BoundsWhatIsHeldForOneAddress) {
  HttpOptions options;
  options.max_writing = 30 << 20;
  start(options);
  const std::string ask = "GET /large HTTP/1.1\r\nHost: h\r\n\r\n";
  Client one(*server), two(*server), other(*server, "127.0.0.2");
  one.send(ask);
  EXPECT_TRUE(eventually([&] { return server->counts().writing == 8 << 20; }));
  two.send(ask);
  EXPECT_TRUE(two.answer().starts_with("HTTP/1.1 503"));
  other.send(ask);
  EXPECT_TRUE(other.answer().ends_with("xxxx"));
  EXPECT_TRUE(one.answer().ends_with("xxxx"));
  EXPECT_TRUE(eventually([&] { return server->counts().writing == 0; }));
}

// Of many large answers that nobody reads, later ones are not held.
TEST_F(Http, BoundsWhatIsHeldForSlowReaders) {
  HttpOptions options;
  options.max_writing = 12 << 20;
  start(options);
  Client one(*server), two(*server);
  one.send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(eventually([&] { return server->counts().writing == 8 << 20; }));
  two.send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(two.answer().starts_with("HTTP/1.1 503"));
  two.send(kGet);
  EXPECT_TRUE(two.answer().ends_with("GET /a "));
  EXPECT_TRUE(one.answer().ends_with("xxxx"));
  EXPECT_TRUE(eventually([&] { return server->counts().writing == 0; }));
  two.send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(two.answer().ends_with("xxxx"));
}

// Reading a little now and then does not hold an answer for ever.
TEST_F(Http, AnAnswerHasOneTimeLimit) {
  HttpOptions options;
  options.answer_time = 300ms;
  start(options);
  Client client(*server);
  client.send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
  char bytes[50'000];
  const auto begin = Clock::now();
  size_t got = 0;
  for (ssize_t some = 1; some > 0 && seconds_since(begin) < 10; got += static_cast<size_t>(some)) {
    std::this_thread::sleep_for(20ms);
    some = std::max<ssize_t>(0, ::recv(client.socket(), bytes, sizeof bytes, 0));
  }
  EXPECT_LT(got, size_t{8} << 20);
  EXPECT_LT(seconds_since(begin), 10);
}

TEST_F(Http, WhoAsksToContinueHasNoMoreTimeThanOthers) {
  start({.body_time = 300ms});
  Client client(*server);
  client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n");
  const auto begin = Clock::now();
  EXPECT_NE(client.read_all().find("HTTP/1.1 408"), std::string::npos);
  EXPECT_LT(seconds_since(begin), 10.0);
}

TEST_F(Http, SlowClientsEndAndDelayNobody) {
  start({.idle_time = 400ms, .header_time = 300ms, .body_time = 300ms});
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 50; ++i) {
    slow.push_back(std::make_unique<Client>(*server));
    if (i % 3 == 0) slow.back()->send("GET /a HTTP/1.1\r\nHo");
    if (i % 3 == 1) slow.back()->send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nab");
  }
  const auto begin = Clock::now();
  Client quick(*server);
  quick.send(kGet);
  EXPECT_TRUE(quick.answer().ends_with("GET /a "));
  EXPECT_LT(seconds_since(begin), TRIL_SANITIZED ? 1.0 : 0.2);
  // A byte now and then does not help: the limit is for the whole header.
  for (int i = 0; i < 10; ++i) {
    slow[0]->send("s");
    std::this_thread::sleep_for(60ms);
  }
  EXPECT_TRUE(slow[0]->read_all().starts_with("HTTP/1.1 408"));
  EXPECT_TRUE(slow[1]->read_all().starts_with("HTTP/1.1 408"));
  EXPECT_EQ(slow[2]->read_all(), "");  // sent nothing, so nothing is to be said
  slow.clear();
  quick.close();
  EXPECT_TRUE(eventually([&] { return server->counts().connections == 0; }));
}

TEST_F(Http, AClientThatDoesNotReadIsGivenUp) {
  start({.write_time = 300ms});
  Client client(*server);
  const int small = 4096;
  ::setsockopt(client.socket(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  client.send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(eventually([&] { return echo.requests == 1; }));
  EXPECT_TRUE(eventually([&] { return server->counts().connections == 0; }));
}

TEST_F(Http, ThousandsOfIdleConnectionsCostNobodyTime) {
  const size_t many = TRIL_SANITIZED ? 200 : 900;  // both ends take a descriptor of this process
  std::vector<std::unique_ptr<Client>> idle;
  for (size_t i = 0; i < many; ++i) {
    idle.push_back(std::make_unique<Client>(*server));
    if (::testing::Test::HasFailure()) GTEST_SKIP() << "too few descriptors";
  }
  EXPECT_TRUE(
      eventually([&] { return server->counts().connections == static_cast<int64_t>(many); }));
  const auto begin = Clock::now();
  Client quick(*server);
  quick.send(kGet);
  EXPECT_TRUE(quick.answer().ends_with("GET /a "));
  EXPECT_LT(seconds_since(begin), TRIL_SANITIZED ? 1.0 : 0.05);
}

TEST_F(Http, TooManyConnectionsAreTurnedAway) {
  start({.max_connections = 2});
  Client one(*server), two(*server, "127.0.0.2");
  one.send(kGet);
  two.send(kGet);
  one.answer();
  two.answer();
  const std::string refused = all_for(kGet);
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 503"));
  EXPECT_NE(refused.find("Retry-After: 1"), std::string::npos);
  EXPECT_EQ(server->counts().refused, 1);
}

bool is_served(Client& client) {
  client.send(kGet);
  return client.answer().ends_with("GET /a ");
}

// One address has half of all connections at most, and the last quarter is for those who have none.
// Who is turned away takes nobody's place.
TEST_F(Http, ConnectionsOfOneAddressKeepNobodyOut) {
  start({.max_connections = 8});
  std::vector<std::unique_ptr<Client>> open;
  const auto served_from = [&](const char* address) {
    open.push_back(std::make_unique<Client>(*server, address));
    return is_served(*open.back());
  };
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(served_from("127.0.0.1"));
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(served_from("127.0.0.1"));
  EXPECT_TRUE(served_from("127.0.0.2"));
  EXPECT_TRUE(served_from("127.0.0.2"));
  EXPECT_FALSE(served_from("127.0.0.2"));
  EXPECT_TRUE(served_from("127.0.0.3"));
  EXPECT_TRUE(served_from("127.0.0.4"));
  EXPECT_FALSE(served_from("127.0.0.5"));
  open.clear();
  EXPECT_TRUE(eventually([&] { return server->counts().connections == 0; }));
  EXPECT_TRUE(served_from("127.0.0.1"));
  // Behind a proxy all have its address.
  start({.max_connections = 8, .bound_addresses = false});
  open.clear();
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(served_from("127.0.0.1"));
  EXPECT_FALSE(served_from("127.0.0.2"));
}

TEST_F(Http, NoticesAClientThatGoesAway) {
  Client one(*server);
  one.send("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n");
  Client two(*server);
  two.send("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n");
  ASSERT_TRUE(echo.holds(2));
  one.close();
  EXPECT_TRUE(eventually([&] { return echo.gone == 1; }));
  two.reset();
  EXPECT_TRUE(eventually([&] { return echo.gone == 2; }));
  echo.answer_held();  // to nobody
  EXPECT_TRUE(eventually([&] { return server->counts().connections == 0; }));
  // One who has already sent the next request is still noticed.
  Client three(*server);
  three.send(concat("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n", kGet));
  ASSERT_TRUE(echo.holds(1));
  three.close();
  EXPECT_TRUE(eventually([&] { return echo.gone == 3; }));
  const std::lock_guard lock(echo.mutex);
  echo.held.clear();
}

// One who has sent more than is read ahead, too.
TEST_F(Http, NoticesAClientThatGoesAwayHoweverMuchItSentAhead) {
  std::string much;
  while (much.size() < 100'000) much += kGet;
  for (const bool resets : {false, true}) {
    const int before = echo.gone;
    Client client(*server);
    client.send(concat("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n", much));
    ASSERT_TRUE(echo.holds(1));
    std::this_thread::sleep_for(150ms);
    EXPECT_EQ(echo.gone, before);
    resets ? client.reset() : client.close();
    EXPECT_TRUE(eventually([&] { return echo.gone == before + 1; }));
    echo.answer_held();
  }
  EXPECT_TRUE(eventually([&] { return server->counts().connections == 0; }));
  // Who stays has all answers.
  Client stays(*server);
  stays.send(concat("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n", much));
  ASSERT_TRUE(echo.holds(1));
  echo.answer_held();
  EXPECT_TRUE(stays.answer().ends_with("held"));
  for (size_t i = 0; i < much.size() / kGet.size(); ++i) {
    ASSERT_TRUE(stays.answer().ends_with("GET /a ")) << i;
  }
}

TEST_F(Http, AForgottenRequestIsAnErrorNotSilence) {
  Client client(*server);
  client.send("GET /drop HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(client.answer().starts_with("HTTP/1.1 500"));
}

// A source of numbered lines, made by another thread.
class Lines final : public serve::ByteSource {
 public:
  bool take(std::string& bytes) override {
    const std::lock_guard lock(mutex);
    bytes += std::exchange(news, {});
    return !ended;
  }
  std::string_view heartbeat() const override { return "beat\n"; }
  std::mutex mutex;
  std::string news;
  bool ended = false;
};

TEST_F(Http, StreamsAsThingsHappen) {
  if (!serve::problem_of_http().empty()) GTEST_SKIP();
  const auto lines = std::make_shared<Lines>();
  std::shared_ptr<Exchange> asked;
  std::mutex mutex;
  HttpServer streaming({.listen = "127.0.0.1:0", .heartbeat = 50ms},
                       [&](HttpRequest&&, std::shared_ptr<Exchange> exchange) {
                         exchange->stream({.type = "text/plain"}, lines);
                         const std::lock_guard lock(mutex);
                         asked = std::move(exchange);
                       });
  streaming.start();
  Client client(streaming);
  client.send(kGet);
  EXPECT_NE(client.read_until("\r\n\r\n").find("Transfer-Encoding: chunked"), std::string::npos);
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return asked != nullptr;
  }));
  const auto say = [&](const std::string& text, bool end) {
    {
      const std::lock_guard lock(lines->mutex);
      lines->news += text;
      lines->ended = end;
    }
    asked->more();
  };
  say("one\n", false);
  EXPECT_NE(client.read_until("4\r\none\n\r\n").find("4\r\none\n\r\n"), std::string::npos);
  EXPECT_NE(client.read_until("5\r\nbeat\n\r\n").find("beat"), std::string::npos);
  say("two\n", true);
  EXPECT_TRUE(client.read_until("0\r\n\r\n").ends_with("4\r\ntwo\n\r\n0\r\n\r\n"));
}

// A stream without end: there is always something new.
class Endless final : public serve::ByteSource {
 public:
  explicit Endless(std::weak_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  bool take(std::string& bytes) override {
    bytes += std::string(100'000, 'x');
    if (const auto exchange = exchange_.lock()) exchange->more();
    return true;
  }

 private:
  const std::weak_ptr<Exchange> exchange_;
};

// Whoever makes a stream is told when nobody reads it: the client has left, reads nothing, or asked
// for the head alone.
TEST_F(Http, AStreamThatNobodyReadsIsGivenUp) {
  if (!serve::problem_of_http().empty()) GTEST_SKIP();
  std::atomic<int> gone = 0;
  std::mutex mutex;
  std::vector<std::shared_ptr<Exchange>> held;
  HttpServer streaming({.listen = "127.0.0.1:0", .write_time = 300ms},
                       [&](HttpRequest&&, std::shared_ptr<Exchange> exchange) {
                         exchange->on_gone([&] { ++gone; });
                         exchange->stream({.type = "text/plain"},
                                          std::make_shared<Endless>(exchange));
                         const std::lock_guard lock(mutex);
                         held.push_back(std::move(exchange));
                       });
  streaming.start();
  Client still(streaming);
  still.send(kGet);
  EXPECT_TRUE(eventually([&] { return gone == 1; }));
  Client resets(streaming);
  resets.send(kGet);
  resets.read_until("xxxx");
  resets.reset();
  EXPECT_TRUE(eventually([&] { return gone == 2; }));
  Client head(streaming);
  head.send("HEAD /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  const std::string answer = head.read_all();
  EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << answer.substr(0, 300);
  EXPECT_EQ(answer.find("xxxx"), std::string::npos);
  EXPECT_TRUE(eventually([&] { return gone == 3; }));
}

TEST_F(Http, DrainingAnswersWhatWasAccepted) {
  Client idle(*server);
  idle.send(kGet);
  idle.answer();
  Client busy(*server);
  busy.send("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n");
  ASSERT_TRUE(echo.holds(1));
  Client begun(*server);
  begun.send("POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhe");
  ASSERT_TRUE(eventually([&] { return server->counts().connections == 3; }));
  std::this_thread::sleep_for(20ms);
  std::atomic<int> drained = -1;
  std::thread drain([&] { drained = server->drain(10s) ? 1 : 0; });
  EXPECT_EQ(idle.read_all(), "");
  idle.close();
  begun.send("llo");
  const std::string answer = begun.read_all();
  EXPECT_NE(answer.find("Connection: close"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("POST /b hello"));
  begun.close();
  EXPECT_EQ(drained, -1);
  echo.answer_held();
  EXPECT_TRUE(busy.read_all().ends_with("held"));
  busy.close();
  drain.join();
  EXPECT_EQ(drained, 1);
}

// Requests that had arrived on the same connection before the end are answered, too.
TEST_F(Http, DrainingAnswersWhatWasSentAhead) {
  Client busy(*server);
  busy.send(concat("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n", kGet, kGet));
  ASSERT_TRUE(echo.holds(1));
  std::this_thread::sleep_for(20ms);
  std::thread drain([&] { EXPECT_TRUE(server->drain(10s)); });
  std::this_thread::sleep_for(50ms);
  echo.answer_held();
  EXPECT_TRUE(busy.answer().ends_with("held"));
  EXPECT_TRUE(busy.answer().ends_with("GET /a "));
  const std::string last = busy.answer();
  EXPECT_TRUE(last.ends_with("GET /a "));
  EXPECT_NE(last.find("Connection: close"), std::string::npos);
  EXPECT_EQ(busy.read_all(), "");
  busy.close();
  drain.join();
}

// Whoever was accepted, or waits to be, is answered, whenever the end comes.
TEST_F(Http, DrainingUnderLoadLosesNothing) {
  for (int turn = 0; turn < (TRIL_SANITIZED ? 5 : 30); ++turn) {
    start({});
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 20; ++i) {
      clients.push_back(std::make_unique<Client>(*server));
      clients.back()->send(kGet);
    }
    std::thread drain([&] { EXPECT_TRUE(server->drain(10s)); });
    for (const auto& client : clients) {
      EXPECT_TRUE(client->read_all().ends_with("GET /a "));
      client->close();
    }
    drain.join();
  }
}

TEST_F(Http, EndsWithConnectionsOpen) {
  Client idle(*server), held(*server), begun(*server);
  held.send("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n");
  begun.send("POST /b HTTP/1.1\r\nHo");
  ASSERT_TRUE(echo.holds(1));
  EXPECT_FALSE(server->drain(50ms));
  server.reset();
  EXPECT_EQ(echo.gone, 1);
  echo.answer_held();
}

// A subscriber has all addresses of a network of IPv6, and is one client.
TEST(HttpAddress, IsThatOfANetwork) {
  const auto network = [](const char* text) {
    sockaddr_storage address{};
    auto& four = reinterpret_cast<sockaddr_in&>(address);
    auto& six = reinterpret_cast<sockaddr_in6&>(address);
    if (::inet_pton(AF_INET, text, &four.sin_addr) == 1) {
      address.ss_family = AF_INET;
    } else if (::inet_pton(AF_INET6, text, &six.sin6_addr) == 1) {
      address.ss_family = AF_INET6;
    } else {
      address.ss_family = AF_UNIX;
    }
    return serve::network_of(address);
  };
  EXPECT_EQ(network("10.0.0.1"), network("::ffff:10.0.0.1"));
  EXPECT_NE(network("10.0.0.1"), network("10.0.0.2"));
  EXPECT_NE(network("::ffff:10.0.0.1"), network("::ffff:10.0.0.2"));
  EXPECT_EQ(network("2001:db8::1"), network("2001:db8::ffff:1"));
  EXPECT_NE(network("2001:db8::1"), network("2001:db8:0:1::1"));
  EXPECT_EQ(network("unix:/run/tril.sock"), std::nullopt);
}

TEST(HttpAddress, SaysWhatCannotBeListenedAt) {
  if (!serve::problem_of_http().empty()) GTEST_SKIP() << serve::problem_of_http();
  const auto listen = [](const std::string& where) {
    HttpServer({.listen = where}, [](HttpRequest&&, std::shared_ptr<Exchange>) {});
  };
  for (const char* where : {"", "8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999",
                            "example.org:80", "unix:", ":80"}) {
    EXPECT_THROW(listen(where), Error) << where;
  }
  HttpServer first({.listen = "127.0.0.1:0"}, [](HttpRequest&&, std::shared_ptr<Exchange>) {});
  EXPECT_THROW(listen(first.address().substr(7)), Error);
  const testing::TempFolder folder;
  const std::string path = concat("unix:", folder.path(), "/socket");
  {
    HttpServer second({.listen = path}, [](HttpRequest&&, std::shared_ptr<Exchange>) {});
    EXPECT_EQ(second.address(), path);
    EXPECT_THROW(listen(path), Error);
  }
  listen(path);
}

}  // namespace
}  // namespace tril::http_server_test
