// HttpConnection: one connection of an HttpServer, from its first byte to its last. Internal to
// serve/: only the two files of the server include this, and with it Boost.
#pragma once

// The thread sanitizer does not know fences. Asio's queues have locks, so nothing depends on them.
#ifdef __SANITIZE_THREAD__
#define BOOST_ASIO_DISABLE_FENCED_BLOCK
#endif

#include <atomic>
#include <utility>  // before Asio: version 1.74 lacks this include
//
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "tril/serve/http_server.h"
#include "tril/serve/listening.h"
#include "tril/serve/shares.h"

namespace tril::serve {

using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
using Timer =
    boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                      boost::asio::wait_traits<std::chrono::steady_clock>, Strand>;
class HttpConnection;

constexpr int64_t kMostTurnedAway = 256;  // at a time; more connections are closed without a word

// What the connections of a server share.
struct HttpShared {
  HttpShared(HttpOptions given, Handler handle)
      : options(std::move(given)), handler(std::move(handle)) {}

  const HttpOptions options;
  const Handler handler;
  boost::asio::io_context context;
  std::atomic<bool> draining = false;
  std::atomic<int64_t> accepted = 0;
  std::atomic<int64_t> refused = 0;

  // Of each address: half of the connections, and a quarter of everything else.
  Shares places{options.max_connections, (options.max_connections + 1) / 2};
  Shares turned_away{kMostTurnedAway, kMostTurnedAway / 4};  // connections that are told why
  Shares reading{known_part(), known_part() / 4};            // bytes of bodies
  Shares reading_of_unknown{options.max_reading / 4, options.max_reading / 16};
  Shares writing{options.max_writing, options.max_writing / 4};  // bytes of large answers

  // All of it, unless a quarter is for bodies of those whom nobody knows.
  int64_t known_part() const {
    return options.max_reading - (options.is_known ? options.max_reading / 4 : 0);
  }

  // Requests that were answered without the handler.
  void count_refusal(int status) {
    const std::lock_guard lock(mutex);
    ++refusals[status];
  }

  std::mutex mutex;
  std::map<int, int64_t> refusals;  // guarded by the mutex, as the next
  std::condition_variable changed;
  std::set<HttpConnection*> open;
};

// Lives as long as something of it is going on. Any thread may call it.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  // Takes the socket over, which does not block, of a client at this address.
  static std::shared_ptr<HttpConnection> create(std::shared_ptr<HttpShared> shared,
                                                FileDescriptor&& socket,
                                                const sockaddr_storage& client);
  virtual ~HttpConnection() = default;

  // Before start(): whether there is room for one more connection of its client.
  virtual bool take_place() = 0;
  // Reads requests and answers them.
  virtual void start() = 0;
  // Answers 503, unless many are being told so, and closes.
  virtual void refuse() = 0;
  // Ends it if it is between two requests. A request that has arrived is still answered.
  virtual void drain() = 0;
  // Ends it at once.
  virtual void abort() = 0;
};

}  // namespace tril::serve
