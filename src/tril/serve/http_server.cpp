// HttpServer: accepting, and ending. A connection is in http_connection.cpp.
#include "tril/serve/http_server.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <future>
#include <optional>
#include <thread>
#include <vector>

#include "tril/serve/http_connection.h"  // before Boost's: it says how those are used
//
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

namespace tril::serve {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::chrono::milliseconds kPause{50};    // when no descriptors are left
constexpr std::chrono::milliseconds kLastCome{5};  // for connections being made at the end

// Accepts what waits at a listening socket.
class Listener : public std::enable_shared_from_this<Listener> {
 public:
  Listener(std::shared_ptr<HttpShared> shared, FileDescriptor&& socket)
      : shared_(std::move(shared)),
        strand_(asio::make_strand(shared_->context)),
        socket_(strand_, socket.release()),
        pause_(strand_) {}

  void start() {
    asio::dispatch(strand_, [self = shared_from_this()] { self->listen(); });
  }
  // Closes; first accepts those who wait, if asked to.
  void finish(bool accept, std::function<void()> done) {
    asio::dispatch(strand_, [self = shared_from_this(), accept, done = std::move(done)] {
      keep_out(self->socket_.native_handle(), self->shared_->options.listen);
      if (!accept) return self->close(done);
      self->pause_.expires_after(kLastCome);
      self->pause_.async_wait([self, done](const error_code&) {
        self->accept_all();
        self->close(done);
      });
    });
  }

 private:
  using Descriptor = asio::posix::basic_stream_descriptor<Strand>;

  void listen() {
    socket_.async_wait(Descriptor::wait_read,
                       [self = shared_from_this()](const error_code& problem) {
                         if (problem) return;
                         if (self->accept_all()) return self->listen();
                         // No descriptors are left: those who wait are accepted when others have
                         // gone.
                         self->pause_.expires_after(kPause);
                         self->pause_.async_wait([self](const error_code& stopped) {
                           if (!stopped) self->listen();
                         });
                       });
  }

  void close(const std::function<void()>& done) {
    error_code ignored;
    socket_.close(ignored);
    done();
  }

  bool accept_all() {
    for (;;) {
      sockaddr_storage peer{};
      socklen_t size = sizeof peer;
      const int socket = ::accept4(socket_.native_handle(), reinterpret_cast<sockaddr*>(&peer),
                                   &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (socket < 0) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        return errno == EAGAIN || errno == EWOULDBLOCK;
      }
      FileDescriptor owned(socket);
      const int on = 1;
      ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      ++shared_->accepted;
      take(std::move(owned), peer);
    }
  }

  void take(FileDescriptor&& socket, const sockaddr_storage& peer) {
    try {
      const auto connection = HttpConnection::create(shared_, std::move(socket), peer);
      if (connection->take_place()) {
        connection->start();
      } else {
        ++shared_->refused;
        connection->refuse();
      }
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory: it is closed
    }
  }

  const std::shared_ptr<HttpShared> shared_;
  Strand strand_;
  Descriptor socket_;
  Timer pause_;
};

std::vector<std::shared_ptr<HttpConnection>> open_connections(HttpShared& shared) {
  std::vector<std::shared_ptr<HttpConnection>> open;
  const std::lock_guard lock(shared.mutex);
  for (HttpConnection* connection : shared.open) {
    if (auto alive = connection->weak_from_this().lock()) open.push_back(std::move(alive));
  }
  return open;
}

// A handler that fails, for want of memory, concerns its connection and no others.
void run_all(asio::io_context& context) {
  for (;;) {
    try {
      context.run();
      return;
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): as said above
    }
  }
}

}  // namespace

struct HttpServer::State {
  State(HttpOptions options, Handler handler)
      : shared(std::make_shared<HttpShared>(std::move(options), std::move(handler))) {
    FileDescriptor socket = listen_at(shared->options.listen);
    address = address_of(socket.get(), shared->options.listen);
    listener = std::make_shared<Listener>(shared, std::move(socket));
  }

  // Accepts those who wait at the socket, if the threads run, and closes it.
  void stop_listening() {
    if (shared->draining.exchange(true)) return;
    std::promise<void> closed;
    listener->finish(!threads.empty(), [&] { closed.set_value(); });
    if (threads.empty()) shared->context.run();
    closed.get_future().wait();
  }

  // Ends connections instead of the context: what they hold would otherwise never be released. The
  // threads end when nothing is left to do.
  void stop() {
    stop_listening();
    for (const auto& connection : open_connections(*shared)) connection->abort();
    work.reset();
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }

  const std::shared_ptr<HttpShared> shared;
  std::string address;
  std::shared_ptr<Listener> listener;
  std::vector<std::thread> threads;
  // Keeps the threads while none of the connections has anything to do: what others hand over at
  // that moment would never run, and would hold its connection forever.
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work;
};

std::string_view problem_of_http() { return {}; }

HttpServer::HttpServer(HttpOptions options, Handler handler)
    : state_(std::make_shared<State>(std::move(options), std::move(handler))) {}

HttpServer::~HttpServer() { state_->stop(); }

std::string HttpServer::address() const { return state_->address; }

HttpCounts HttpServer::counts() const {
  const std::lock_guard lock(state_->shared->mutex);
  HttpShared& shared = *state_->shared;
  return {.connections = std::ssize(shared.open),
          .accepted = shared.accepted,
          .refused = shared.refused,
          .reading = shared.reading.held() + shared.reading_of_unknown.held(),
          .writing = shared.writing.held(),
          .refusals = shared.refusals};
}

void HttpServer::start() {
  state_->work.emplace(state_->shared->context.get_executor());
  state_->listener->start();
  for (int i = 0; i < state_->shared->options.threads; ++i) {
    state_->threads.emplace_back([shared = state_->shared] { run_all(shared->context); });
  }
}

bool HttpServer::drain(std::chrono::milliseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  HttpShared& shared = *state_->shared;
  state_->stop_listening();
  for (const auto& connection : open_connections(shared)) connection->drain();
  std::unique_lock lock(shared.mutex);
  return shared.changed.wait_until(lock, until, [&] { return shared.open.empty(); });
}

}  // namespace tril::serve
