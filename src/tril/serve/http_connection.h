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

namespace tril::serve {

using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
using Timer =
    boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                      boost::asio::wait_traits<std::chrono::steady_clock>, Strand>;
class HttpConnection;

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

  std::atomic<int64_t> reading = 0;  // bytes of bodies, as far as they are accounted for
  std::atomic<int64_t> writing = 0;  // bytes of large answers

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
  // Takes the socket over, which does not block; `client`: the address of the peer.
  static std::shared_ptr<HttpConnection> create(std::shared_ptr<HttpShared> shared,
                                                FileDescriptor&& socket, int family,
                                                std::string client);
  virtual ~HttpConnection() = default;

  // Reads requests and answers them.
  virtual void start() = 0;
  // Answers 503 and closes.
  virtual void refuse() = 0;
  // Ends it if it is between two requests. A request that has arrived is still answered.
  virtual void drain() = 0;
  // Ends it at once.
  virtual void abort() = 0;
};

}  // namespace tril::serve
