// HTTP as the APIs see it: requests that arrived whole, and the exchange that answers one.
//
// The APIs know nothing of sockets, and the transport (http_server.h) nothing of translations, so
// that either can be tested without the other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tril::serve {

struct Header {
  std::string name;
  std::string value;
};

struct HttpRequest {
  std::string method;  // "GET"
  std::string target;  // "/v1/translate?text=Hello", as it was sent
  std::vector<Header> headers;
  std::string body;
  std::string client;  // the address of the peer; "" for a Unix socket

  // The value of the first header of this name, in any case; "" if there is none.
  std::string_view header(std::string_view name) const;
  std::string_view path() const;   // of the target, without the query
  std::string_view query() const;  // after the "?"
};

struct HttpResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body{};
  std::vector<Header> headers{};

  HttpResponse&& with(std::string name, std::string value) && {
    headers.push_back({std::move(name), std::move(value)});
    return std::move(*this);
  }
};

// The bytes of an answer that is written while it is being made. The transport asks for more
// whenever the client has read what there was, so a slow client makes nobody hold more than the
// latest state.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Appends what is there now, perhaps nothing. False: that was the end. Called by one thread at a
  // time.
  virtual bool take(std::string& bytes) = 0;
  // To be written when nothing else was for a while, so that proxies see the connection live.
  virtual std::string_view heartbeat() const { return {}; }
};

// One request and its answer. Any thread may call it; it may outlive its connection, and then does
// nothing. Exactly one of respond() and stream() is called, once.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void respond(HttpResponse&& response) = 0;
  // The head, then what the source gives. more(): the source has something new, or its end.
  virtual void stream(HttpResponse&& head, std::shared_ptr<ByteSource> source) = 0;
  virtual void more() = 0;
  // Calls this once if the client goes away before it has its answer, on any thread, perhaps at
  // once. Whoever wants to know holds the exchange meanwhile: nobody is told through one that is
  // no more.
  virtual void on_gone(std::function<void()> gone) = 0;
};

// What answers requests; called by several threads.
using Handler = std::function<void(HttpRequest&&, std::shared_ptr<Exchange>)>;

}  // namespace tril::serve
