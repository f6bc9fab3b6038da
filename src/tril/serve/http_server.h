// HttpServer: HTTP/1.1 on a socket, for any number of connections at a time.
//
// Connections are coroutines on a few threads, which only read, call the handler and write. A
// connection that sends nothing, sends slowly or reads slowly costs memory for itself and delays
// nobody; each stage has its own time limit. Requests whose end two servers could see in different
// places (two lengths, a length and chunks, no Host or two) are refused, and their connection is
// closed. TLS and HTTP/2 belong to a proxy in front.
//
// Needs Boost (Beast) when tril is built; problem_of_http() says whether it was there.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "tril/serve/http.h"

namespace tril::serve {

// Why this build has no HTTP server, in one line; empty: it has.
std::string_view problem_of_http();

struct HttpOptions {
  // "127.0.0.1:8080", "[::1]:8080", "unix:/run/tril.sock"; port 0 is any free one.
  std::string listen = "127.0.0.1:8080";
  int threads = 2;
  int64_t max_connections = 4096;  // more are answered 503 and closed; half of them per address
  int64_t max_header = 16 << 10;   // bytes
  int64_t max_body = 1 << 20;
  // Bytes of all bodies that are being read, and of all answers above 64 KiB that are being
  // written; what would make them more is answered 503. One address may have a quarter of each.
  int64_t max_reading = int64_t{256} << 20;
  int64_t max_writing = int64_t{256} << 20;
  // Whether a request, by its header, is from somebody known; a quarter of max_reading is for all
  // others together. Empty: everybody is.
  std::function<bool(const HttpRequest&)> is_known{};
  // Whether an address is one client. Behind a proxy, whose address all connections have, it is
  // not, and nothing is bounded per address; nor is it at a Unix socket, where peers have none.
  bool bound_addresses = true;
  std::chrono::milliseconds idle_time{75'000};     // between requests of a connection
  std::chrono::milliseconds header_time{10'000};   // for all of a request's header
  std::chrono::milliseconds body_time{30'000};     // for all of its body
  std::chrono::milliseconds write_time{30'000};    // for 64 KiB of an answer
  std::chrono::milliseconds answer_time{300'000};  // for all of an answer that is not a stream
  std::chrono::milliseconds heartbeat{15'000};     // of a stream without news
};

struct HttpCounts {
  int64_t connections = 0;  // open now
  int64_t accepted = 0;     // in all
  int64_t refused = 0;      // for max_connections
  int64_t reading = 0;      // bytes of large bodies being read
  int64_t writing = 0;      // bytes of large answers being written
  // Answers that the transport gave by itself, by status.
  std::map<int, int64_t> refusals{};
};

class HttpServer {
 public:
  // Listens. Raises `invalid_argument` for an address that is none, `io` for one that cannot be
  // listened at, `unsupported` where problem_of_http() says why.
  HttpServer(HttpOptions options, Handler handler);
  // Drops what is open.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // "http://127.0.0.1:8080", "unix:/run/tril.sock".
  std::string address() const;
  HttpCounts counts() const;

  // Starts the threads.
  void start();
  // Connections that are waiting to be accepted still are, then no more. Requests that have arrived
  // are answered, and their connections closed. Returns whether all were within the time.
  bool drain(std::chrono::milliseconds time);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tril::serve
