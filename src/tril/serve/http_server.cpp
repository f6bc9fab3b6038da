// HttpServer with Boost.Asio for sockets and Boost.Beast for HTTP's grammar. The only file that
// includes Boost.
//
// A connection is one coroutine on a strand of its own: everything of a connection, callbacks
// included, runs on its strand, so it needs no lock. While an answer is being made the coroutine
// waits for its timer `wake_`, which others cancel, and a second wait watches whether the client is
// still there.
#include "tril/serve/http_server.h"

// The thread sanitizer does not know fences. Asio's queues have locks, so nothing depends on them.
#ifdef __SANITIZE_THREAD__
#define BOOST_ASIO_DISABLE_FENCED_BLOCK
#endif

#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <future>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>  // before Asio: version 1.74 lacks this include

#include "tril/base/error.h"
#include "tril/serve/http_text.h"

namespace tril::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::awaitable;
using boost::system::error_code;
using Strand = asio::strand<asio::io_context::executor_type>;
using Socket = asio::basic_stream_socket<asio::generic::stream_protocol, Strand>;
using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>, Strand>;
using Milliseconds = std::chrono::milliseconds;
using Parser = http::request_parser<http::string_body>;

constexpr size_t kReadBytes = 16 << 10;   // asked of the system at a time
constexpr size_t kAheadBytes = 64 << 10;  // read of further requests while one is answered
constexpr size_t kWriteBytes = 64 << 10;  // written within one time limit
constexpr Milliseconds kLinger{1000};     // for the client to read an answer before a close
constexpr Milliseconds kFirst{1000};      // for a first request while the server ends
constexpr Milliseconds kLastCome{5};      // for connections that are being made at that moment

std::string_view reason_of(int status) {
  return {http::obsolete_reason(static_cast<http::status>(status)).data(),
          http::obsolete_reason(static_cast<http::status>(status)).size()};
}

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 64> text{};
  return {text.data(),
          std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts)};
}

// ---- addresses ----------------------------------------------------------------------------------

class FileDescriptor {
 public:
  explicit FileDescriptor(int number) : number_(number) {}
  ~FileDescriptor() {
    if (number_ >= 0) ::close(number_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

[[noreturn]] void fail_to_listen(const std::string& where) {
  fail(ErrorCode::io, Field{"listen"}, "serve: cannot listen at ", where, ": ",
       std::strerror(errno));
}

void bind_and_listen(const FileDescriptor& socket, const sockaddr* address, socklen_t size,
                     const std::string& where) {
  if (socket.get() < 0 || ::bind(socket.get(), address, size) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    fail_to_listen(where);
  }
}

int listen_at_path(const std::string& path, const std::string& where) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  require(!path.empty() && path.size() < sizeof address.sun_path, ErrorCode::invalid_argument,
          Field{"listen"}, "serve: '", where, "' names no path of 1 to ",
          sizeof address.sun_path - 1, " bytes");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  // The socket of a server that is gone would be in the way; of one that answers it must stay.
  struct stat there {};
  if (::lstat(path.c_str(), &there) == 0 && S_ISSOCK(there.st_mode)) {
    const FileDescriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(probe.get(), generic, sizeof address) != 0 && errno == ECONNREFUSED) {
      ::unlink(path.c_str());
    }
  }
  bind_and_listen(socket, generic, sizeof address, where);
  return socket.release();
}

int listen_at_port(const std::string& host, uint16_t port, const std::string& where) {
  error_code problem;
  const auto ip = asio::ip::make_address(host, problem);
  require(!problem, ErrorCode::invalid_argument, Field{"listen"}, "serve: '", host,
          "' is no IP address: give one as in 127.0.0.1:8080, 0.0.0.0:8080 or [::1]:8080");
  sockaddr_storage address{};
  socklen_t size = 0;
  if (ip.is_v4()) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(address);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, ip.to_v4().to_bytes().data(), sizeof v4.sin_addr);
    size = sizeof v4;
  } else {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&v6.sin6_addr, ip.to_v6().to_bytes().data(), sizeof v6.sin6_addr);
    size = sizeof v6;
  }
  FileDescriptor socket(::socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  bind_and_listen(socket, reinterpret_cast<const sockaddr*>(&address), size, where);
  return socket.release();
}

constexpr std::string_view kUnix = "unix:";

int listen_at(const std::string& where) {
  if (where.starts_with(kUnix)) return listen_at_path(where.substr(kUnix.size()), where);
  const size_t colon = where.rfind(':');
  uint16_t port = 0;
  const char* first = where.data() + colon + 1;
  const char* last = where.data() + where.size();
  const bool has_port =
      colon != std::string::npos && first != last &&
      std::from_chars(first, last, port) == std::from_chars_result{last, std::errc()};
  require(has_port, ErrorCode::invalid_argument, Field{"listen"}, "serve: '", where,
          "' is no address to listen at: give one as in 127.0.0.1:8080 or unix:/run/tril.sock");
  std::string host = where.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";
  return listen_at_port(host, port, where);
}

std::string host_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    asio::ip::address_v4::bytes_type bytes;
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
    return asio::ip::make_address_v4(bytes).to_string();
  }
  if (address.ss_family == AF_INET6) {
    asio::ip::address_v6::bytes_type bytes;
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, 16);
    return asio::ip::make_address_v6(bytes).to_string();
  }
  return {};
}

// Where a socket listens, with the port the system chose.
std::string address_of(int socket, const std::string& where) {
  if (where.starts_with(kUnix)) return where;
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  const std::string host = host_of(address);
  const uint16_t port =
      ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                          : reinterpret_cast<sockaddr_in&>(address).sin_port);
  return address.ss_family == AF_INET6 ? concat("http://[", host, "]:", port)
                                       : concat("http://", host, ":", port);
}

// ---- one connection -----------------------------------------------------------------------------

class Connection;

// The exchange of one request of a connection.
class Answering final : public Exchange, public std::enable_shared_from_this<Answering> {
 public:
  Answering(std::weak_ptr<Connection> connection, uint64_t number)
      : connection_(std::move(connection)), number_(number) {}
  ~Answering() override;
  Answering(const Answering&) = delete;
  Answering& operator=(const Answering&) = delete;

  void respond(HttpResponse&& response) override;
  void stream(HttpResponse&& head, std::shared_ptr<ByteSource> source) override;
  void more() override;
  void on_gone(std::function<void()> gone) override;

  void tell_gone() {
    std::function<void()> gone;
    {
      const std::lock_guard lock(mutex_);
      is_gone_ = true;
      gone = std::exchange(gone_, nullptr);
    }
    if (gone) gone();
  }

 private:
  void give(HttpResponse&& response, std::shared_ptr<ByteSource> source);

  const std::weak_ptr<Connection> connection_;
  const uint64_t number_;
  std::atomic<bool> answered_ = false;
  std::mutex mutex_;
  std::function<void()> gone_;  // guarded by the mutex
  bool is_gone_ = false;        // likewise
};

// What connections share.
struct Shared {
  Shared(HttpOptions given, Handler handle)
      : options(std::move(given)), handler(std::move(handle)) {}

  const HttpOptions options;
  const Handler handler;
  asio::io_context context;
  std::atomic<bool> draining = false;
  std::atomic<int64_t> accepted = 0;
  std::atomic<int64_t> refused = 0;

  std::mutex mutex;
  std::condition_variable changed;
  std::set<Connection*> open;  // guarded by the mutex
};

class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Shared> shared, int socket, int family, std::string client)
      : shared_(std::move(shared)),
        strand_(asio::make_strand(shared_->context)),
        socket_(strand_, asio::generic::stream_protocol(family, 0), socket),
        limit_(strand_),
        wake_(strand_),
        client_(std::move(client)) {
    const std::lock_guard lock(shared_->mutex);
    shared_->open.insert(this);
  }
  ~Connection() {
    if (const auto asked = asked_.lock()) asked->tell_gone();
    const std::lock_guard lock(shared_->mutex);
    shared_->open.erase(this);
    shared_->changed.notify_all();
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start() {
    asio::co_spawn(
        strand_, [self = shared_from_this()] { return self->run(); }, asio::detached);
  }
  // Answers 503 and closes.
  void refuse() {
    asio::co_spawn(
        strand_, [self = shared_from_this()] { return self->turn_away(); }, asio::detached);
  }
  // Ends it if it is between two requests. A request that has arrived is still answered.
  void drain() {
    asio::dispatch(strand_, [self = shared_from_this()] {
      if (self->idle_) self->end_idleness();
    });
  }

  // Ends it at once.
  void abort() {
    asio::dispatch(strand_, [self = shared_from_this()] {
      self->gone_ = true;
      self->wake_.cancel();
      self->limit_.cancel();
      error_code ignored;
      self->socket_.close(ignored);
    });
  }

  // For Answering.
  void give(uint64_t number, HttpResponse&& response, std::shared_ptr<ByteSource> source) {
    asio::dispatch(strand_, [self = shared_from_this(), number, response = std::move(response),
                             source = std::move(source)]() mutable {
      if (self->number_ != number) return;
      self->response_ = std::move(response);
      self->source_ = std::move(source);
      self->wake_.cancel();
    });
  }
  void tell_news(uint64_t number) {
    asio::dispatch(strand_, [self = shared_from_this(), number] {
      if (self->number_ != number) return;
      self->news_ = true;
      self->wake_.cancel();
    });
  }

 private:
  enum class Read { whole, closed, bad };

  awaitable<void> run() {
    try {
      while (co_await serve_one()) {
      }
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory for it: it ends
    }
    limit_.cancel();
    wake_.cancel();
    error_code ignored;
    socket_.close(ignored);
  }

  awaitable<void> turn_away() {
    co_await write_error(503, "overloaded", "too many connections: try again later");
    co_await linger();
    error_code ignored;
    socket_.close(ignored);
  }

  // One request and its answer. False: the connection is to be closed.
  awaitable<bool> serve_one() {
    Parser parser;
    parser.header_limit(static_cast<uint32_t>(shared_->options.max_header));
    parser.body_limit(static_cast<uint64_t>(shared_->options.max_body));
    switch (co_await read_request(parser)) {
      case Read::closed: co_return false;
      case Read::bad: co_await linger(); co_return false;
      case Read::whole: break;
    }
    is_new_ = false;
    no_limit();
    const bool is_head = parser.get().method() == http::verb::head;
    const bool old = parser.get().version() < 11;
    bool stays = parser.get().keep_alive();
    response_.reset();
    source_.reset();
    gone_ = false;
    ++number_;
    watch();
    hand_over(parser);
    while (!response_ && !gone_) co_await wait(std::nullopt);
    if (gone_) co_return false;
    stays = stays && !shared_->draining;
    const bool written = source_ != nullptr ? co_await write_stream(old, stays)
                                            : co_await write_whole(is_head, old, stays);
    ++number_;  // nothing is expected any more
    asked_.reset();
    source_.reset();
    response_.reset();
    error_code ignored;
    socket_.cancel(ignored);  // the watch
    if (buffer_.capacity() > kAheadBytes && buffer_.size() == 0) buffer_.shrink_to_fit();
    if (written && !stays) co_await linger();
    co_return written&& stays;
  }

  // ---- reading

  awaitable<Read> read_request(Parser& parser) {
    limit(shared_->options.idle_time);
    idle_ = true;
    if (shared_->draining) end_idleness();
    bool begun = buffer_.size() > 0;
    bool checked = false;
    for (;;) {
      if (begun && idle_) {
        idle_ = false;
        limit(shared_->options.header_time);
      }
      error_code problem;
      while (buffer_.size() > 0 && !parser.is_done()) {
        const size_t used = parser.put(buffer_.data(), problem);
        buffer_.consume(used);
        if (problem || (used == 0 && !parser.is_done())) break;
        if (parser.is_header_done() && !checked) {
          checked = true;
          if (const int status = refusal_of(parser.get()); status != 0) {
            co_await write_error(status, "bad_request", why_refused_);
            co_return Read::bad;
          }
          limit(shared_->options.body_time);
          if (!parser.is_done() && equal_ignoring_case(header(parser, "Expect"), "100-continue")) {
            co_await write("HTTP/1.1 100 Continue\r\n\r\n");
          }
        }
      }
      if (parser.is_done()) co_return Read::whole;
      if (problem && problem != http::error::need_more) {
        co_await answer_fault(problem);
        co_return Read::bad;
      }
      problem = {};
      const size_t got =
          co_await socket_.async_read_some(buffer_.prepare(begun ? kReadBytes : kReadBytes / 8),
                                           asio::redirect_error(asio::use_awaitable, problem));
      buffer_.commit(got);
      // A request may have come at the very end of the time.
      if (problem && timed_out_ && !begun && read_now() > 0) problem = {};
      if (problem) {
        if (!timed_out_ || !begun) co_return Read::closed;
        co_await write_error(408, "timeout", "the request did not arrive in time");
        co_return Read::bad;
      }
      begun = true;
    }
  }

  // While the server ends: waits no longer, but for the request of a client who has just connected.
  void end_idleness() { limit(is_new_ ? kFirst : Milliseconds(0)); }

  static std::string_view header(const Parser& parser, std::string_view name) {
    const auto value = parser.get()[{name.data(), name.size()}];
    return {value.data(), value.size()};
  }

  // The status to refuse a header with, 0 for none: where its message ends must be beyond doubt.
  int refusal_of(const Parser::value_type& head) {
    const auto hosts = head.count(http::field::host);
    why_refused_ = hosts == 0 ? "the header Host is missing" : "the header Host is there twice";
    if (hosts > 1 || (hosts == 0 && head.version() >= 11)) return 400;
    const auto lengths = head.count(http::field::content_length);
    const auto codings = head.count(http::field::transfer_encoding);
    why_refused_ = "the length of the body is given twice";
    if (lengths + codings > 1) return 400;
    why_refused_ = "Transfer-Encoding can only be chunked";
    if (codings == 1) {
      const auto coding = head[http::field::transfer_encoding];
      if (head.version() < 11) return 400;
      if (!equal_ignoring_case({coding.data(), coding.size()}, "chunked")) return 501;
    }
    why_refused_ = "a connection cannot be changed into another protocol";
    return head.method() == http::verb::connect ? 405 : 0;
  }

  awaitable<void> answer_fault(error_code problem) {
    if (problem == http::error::body_limit) {
      co_await write_error(413, "too_large",
                           concat("a body may have ", shared_->options.max_body, " bytes"));
    } else if (problem == http::error::header_limit) {
      co_await write_error(431, "too_large",
                           concat("a header may have ", shared_->options.max_header, " bytes"));
    } else {
      co_await write_error(400, "bad_request", concat("not HTTP/1.1: ", problem.message()));
    }
  }

  void hand_over(Parser& parser) {
    const auto answering = std::make_shared<Answering>(weak_from_this(), number_);
    asked_ = answering;
    HttpRequest request;
    const auto& head = parser.get();
    request.method = std::string(head.method_string());
    request.target = std::string(head.target());
    // The absolute form names the server too.
    if (const size_t scheme = request.target.find("://");
        scheme != std::string::npos && scheme < request.target.find('/')) {
      const size_t path = request.target.find('/', scheme + 3);
      request.target = path == std::string::npos ? "/" : request.target.substr(path);
    }
    for (const auto& field : head) {
      request.headers.push_back({std::string(field.name_string()), std::string(field.value())});
    }
    request.body = std::move(parser.get().body());
    request.client = client_;
    try {
      shared_->handler(std::move(request), answering);
    } catch (const std::exception&) {
      answering->respond({.status = 500, .body = R"({"error":{"code":"internal"}})"});
    }
  }

  // What has arrived already, as recv() tells it.
  ssize_t read_now() {
    const auto space = buffer_.prepare(kReadBytes);
    const ssize_t got = ::recv(socket_.native_handle(), space.data(), space.size(), MSG_DONTWAIT);
    if (got > 0) buffer_.commit(static_cast<size_t>(got));
    return got;
  }

  // ---- waiting

  // Reads ahead while an answer is made, and notices when the client is gone.
  void watch() {
    if (buffer_.size() >= kAheadBytes) return;
    socket_.async_wait(Socket::wait_read,
                       [self = shared_from_this(), number = number_](const error_code& problem) {
                         if (problem || self->number_ != number) return;
                         const ssize_t got = self->read_now();
                         const bool nothing = got < 0 && (errno == EAGAIN || errno == EINTR);
                         if (got > 0 || nothing) return self->watch();
                         self->gone_ = true;
                         if (const auto asked = self->asked_.lock()) asked->tell_gone();
                         self->wake_.cancel();
                       });
  }

  // Until woken, or for a time. False: the time passed.
  awaitable<bool> wait(std::optional<Milliseconds> time) {
    wake_.expires_after(time.value_or(std::chrono::hours(24)));
    error_code problem;
    co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, problem));
    co_return problem == asio::error::operation_aborted;
  }

  // From now on reading and writing fail when the time has passed: timed_out_.
  void limit(Milliseconds time) {
    timed_out_ = false;
    cancel_after(time);
  }
  void cancel_after(Milliseconds time) {
    limit_.expires_after(time);
    limit_.async_wait([weak = weak_from_this()](const error_code& problem) {
      const auto self = weak.lock();
      if (problem || !self || self->limit_.expiry() > std::chrono::steady_clock::now()) return;
      self->timed_out_ = true;
      error_code ignored;
      self->socket_.cancel(ignored);
      // Again, as it may have come between two operations.
      self->cancel_after(Milliseconds(50));
    });
  }
  void no_limit() { limit_.cancel(); }

  // ---- writing

  static std::string head_of(const HttpResponse& response, bool old, bool stays) {
    std::string head = concat("HTTP/1.1 ", response.status, " ", reason_of(response.status),
                              "\r\nDate: ", http_date(), "\r\nServer: tril\r\n");
    if (!response.type.empty()) head += concat("Content-Type: ", response.type, "\r\n");
    for (const Header& header : response.headers) {
      head += concat(header.name, ": ", header.value, "\r\n");
    }
    if (!stays) head += "Connection: close\r\n";
    if (stays && old) head += "Connection: keep-alive\r\n";
    return head;
  }

  awaitable<bool> write_whole(bool is_head, bool old, bool stays) {
    const bool no_body = response_->status == 204 || response_->status == 304;
    std::string text = head_of(*response_, old, stays);
    if (!no_body) text += concat("Content-Length: ", response_->body.size(), "\r\n");
    text += "\r\n";
    if (!is_head && !no_body) text += response_->body;
    co_return co_await write(text);
  }

  awaitable<bool> write_stream(bool old, bool& stays) {
    if (old) stays = false;  // its end is that of the connection
    std::string head = head_of(*response_, old, stays);
    if (!old) head += "Transfer-Encoding: chunked\r\n";
    if (!co_await write(head + "\r\n")) co_return false;
    const auto source = source_;
    std::string bytes;
    for (bool goes_on = true; goes_on;) {
      news_ = false;
      goes_on = source->take(bytes);
      if (!bytes.empty() && !co_await write_chunk(std::exchange(bytes, {}), old)) co_return false;
      if (!goes_on || news_) continue;
      const bool woken = co_await wait(shared_->options.heartbeat);
      if (gone_) co_return false;
      if (!woken) bytes = source->heartbeat();
    }
    co_return old || co_await write("0\r\n\r\n");
  }

  awaitable<bool> write_chunk(std::string bytes, bool old) {
    if (old) co_return co_await write(bytes);
    std::array<char, 16> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), bytes.size(), 16);
    co_return co_await write(
        concat(std::string_view(digits.data(), static_cast<size_t>(end.ptr - digits.data())),
               "\r\n", bytes, "\r\n"));
  }

  // The text must live until it is written.
  awaitable<bool> write(std::string_view text) {
    while (!text.empty()) {
      const std::string_view part = text.substr(0, kWriteBytes);
      limit(shared_->options.write_time);
      error_code problem;
      co_await asio::async_write(socket_, asio::buffer(part.data(), part.size()),
                                 asio::redirect_error(asio::use_awaitable, problem));
      if (problem) co_return false;
      text.remove_prefix(part.size());
    }
    no_limit();
    co_return true;
  }

  awaitable<void> write_error(int status, std::string_view code, std::string_view message) {
    response_ = HttpResponse{
        .status = status,
        .body = concat(R"({"error":{"code":")", code, R"(","message":")", message, "\"}}\n")};
    if (status == 503) response_->headers.push_back({"Retry-After", "1"});
    co_await write_whole(false, false, false);
  }

  // Before a close: what the client still sends is read, as unread bytes would make the system
  // reset the connection, and the client might lose the answer.
  awaitable<void> linger() {
    error_code problem;
    socket_.shutdown(Socket::shutdown_send, problem);
    limit(kLinger);
    const auto until = std::chrono::steady_clock::now() + kLinger;
    while (!problem && std::chrono::steady_clock::now() < until) {
      buffer_.clear();
      co_await socket_.async_read_some(buffer_.prepare(kReadBytes),
                                       asio::redirect_error(asio::use_awaitable, problem));
    }
    no_limit();
  }

  const std::shared_ptr<Shared> shared_;
  Strand strand_;
  Socket socket_;
  Timer limit_;  // of the reading or writing under way
  Timer wake_;   // of the coroutine, while it waits for others
  const std::string client_;
  boost::beast::flat_buffer buffer_;
  std::string why_refused_;
  bool is_new_ = true;  // without a request so far
  bool idle_ = false;   // between two requests
  bool timed_out_ = false;
  bool gone_ = false;
  bool news_ = false;
  uint64_t number_ = 0;  // odd: of the request being answered
  std::weak_ptr<Answering> asked_;
  std::optional<HttpResponse> response_;
  std::shared_ptr<ByteSource> source_;
};

Answering::~Answering() {
  if (!answered_) {
    try {
      respond({.status = 500, .body = R"({"error":{"code":"internal"}})"});
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory: it times out
    }
  }
}

void Answering::give(HttpResponse&& response, std::shared_ptr<ByteSource> source) {
  if (answered_.exchange(true)) return;
  if (const auto connection = connection_.lock()) {
    connection->give(number_, std::move(response), std::move(source));
  }
}

void Answering::respond(HttpResponse&& response) { give(std::move(response), nullptr); }

void Answering::stream(HttpResponse&& head, std::shared_ptr<ByteSource> source) {
  give(std::move(head), std::move(source));
}

void Answering::more() {
  if (const auto connection = connection_.lock()) connection->tell_news(number_);
}

void Answering::on_gone(std::function<void()> gone) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_gone_) {
      gone_ = std::move(gone);
      return;
    }
  }
  gone();
}

// ---- accepting ----------------------------------------------------------------------------------

// Accepts what waits at a listening socket.
class Listener : public std::enable_shared_from_this<Listener> {
 public:
  Listener(std::shared_ptr<Shared> shared, int socket)
      : shared_(std::move(shared)),
        strand_(asio::make_strand(shared_->context)),
        socket_(strand_, socket),
        pause_(strand_) {}

  void start() {
    asio::dispatch(strand_, [self = shared_from_this()] { self->listen(); });
  }
  // Closes; first accepts those who wait, if asked to.
  void finish(bool accept, std::function<void()> done) {
    asio::dispatch(strand_, [self = shared_from_this(), accept, done = std::move(done)] {
      if (!accept) return self->close(done);
      self->keep_out();
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
                         self->pause_.expires_after(Milliseconds(50));
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

  // Nobody new is let in: whoever connected between the last accept and the close would have a
  // connection that is never answered. The system drops what asks for a new connection (SYN), and
  // those who ask again are refused.
  void keep_out() {
    if (const std::string& where = shared_->options.listen; where.starts_with(kUnix)) {
      ::unlink(where.substr(kUnix.size()).c_str());
      return;
    }
    constexpr uint32_t kFlags = 13, kSyn = 2;  // a byte of TCP's header, and a bit of it
    sock_filter code[] = {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kFlags),
                          BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kSyn, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, 0), BPF_STMT(BPF_RET | BPF_K, 0xFFFF'FFFF)};
    const sock_fprog program{std::size(code), code};
    ::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
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
      const bool full = [&] {
        const std::lock_guard lock(shared_->mutex);
        return std::ssize(shared_->open) >= shared_->options.max_connections;
      }();
      const auto connection =
          std::make_shared<Connection>(shared_, owned.get(), peer.ss_family, host_of(peer));
      owned.release();
      if (full) {
        ++shared_->refused;
        connection->refuse();
      } else {
        connection->start();
      }
    }
  }

  const std::shared_ptr<Shared> shared_;
  Strand strand_;
  Descriptor socket_;
  Timer pause_;
};

}  // namespace

namespace {

std::vector<std::shared_ptr<Connection>> open_connections(Shared& shared) {
  std::vector<std::shared_ptr<Connection>> open;
  const std::lock_guard lock(shared.mutex);
  for (Connection* connection : shared.open) {
    if (auto alive = connection->weak_from_this().lock()) open.push_back(std::move(alive));
  }
  return open;
}

}  // namespace

struct HttpServer::State {
  State(HttpOptions options, Handler handler)
      : shared(std::make_shared<Shared>(std::move(options), std::move(handler))) {
    const int socket = listen_at(shared->options.listen);
    address = address_of(socket, shared->options.listen);
    listener = std::make_shared<Listener>(shared, socket);
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
    if (const std::string& where = shared->options.listen; where.starts_with(kUnix)) {
      ::unlink(where.substr(kUnix.size()).c_str());
    }
  }

  const std::shared_ptr<Shared> shared;
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
  return {std::ssize(state_->shared->open), state_->shared->accepted, state_->shared->refused};
}

void HttpServer::start() {
  state_->work.emplace(state_->shared->context.get_executor());
  state_->listener->start();
  for (int i = 0; i < state_->shared->options.threads; ++i) {
    state_->threads.emplace_back([shared = state_->shared] { shared->context.run(); });
  }
}

bool HttpServer::drain(std::chrono::milliseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  Shared& shared = *state_->shared;
  state_->stop_listening();
  for (const auto& connection : open_connections(shared)) connection->drain();
  std::unique_lock lock(shared.mutex);
  return shared.changed.wait_until(lock, until, [&] { return shared.open.empty(); });
}

}  // namespace tril::serve
