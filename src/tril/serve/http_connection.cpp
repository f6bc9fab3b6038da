// A connection with Boost.Asio for its socket and Boost.Beast for HTTP's grammar.
//
// It is one coroutine on a strand of its own: everything of a connection, callbacks included, runs
// on its strand, so it needs no lock. While an answer is being made the coroutine waits for its
// timer `wake_`, which others cancel, and a second wait watches whether the client is still there.
#include "tril/serve/http_connection.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <optional>

#include "tril/base/error.h"
#include "tril/serve/http_text.h"

namespace tril::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::awaitable;
using boost::system::error_code;
using Socket = asio::basic_stream_socket<asio::generic::stream_protocol, Strand>;
using Milliseconds = std::chrono::milliseconds;
using Time = std::chrono::steady_clock::time_point;
using Parser = http::request_parser<http::string_body>;

constexpr size_t kReadBytes = 16 << 10;   // asked of the system at a time
constexpr size_t kAheadBytes = 64 << 10;  // read of further requests while one is answered
constexpr size_t kWriteBytes = 64 << 10;  // written within one time limit
constexpr int64_t kSmall = 64 << 10;      // bodies and answers up to this are always held
constexpr Milliseconds kLook{100};        // between two looks whether the client is still there
constexpr Milliseconds kLinger{1000};     // for the client to read an answer before a close
constexpr Milliseconds kFirst{1000};      // for a first request while the server ends

std::string_view reason_of(int status) {
  return {http::obsolete_reason(static_cast<http::status>(status)).data(),
          http::obsolete_reason(static_cast<http::status>(status)).size()};
}

bool is_whole_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 64> text{};
  return {text.data(),
          std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts)};
}

// What of so many bytes is accounted for.
int64_t counted(size_t bytes) {
  return std::cmp_greater(bytes, kSmall) ? static_cast<int64_t>(bytes) : 0;
}

// Finds lines of a header that continue the one before. They are refused (RFC 9112, 5.2): the
// parser joins them, so that what decides where the message ends could be read in two ways.
class HeaderLines {
 public:
  // The bytes that follow those before.
  void take(std::string_view bytes) {
    for (const char c : bytes) {
      if (ended_) return;
      if (begins_) {
        folded_ = folded_ || c == ' ' || c == '\t';
        ended_ = c == '\r' || c == '\n';
      }
      begins_ = c == '\n';
    }
  }
  bool folded() const { return folded_; }

 private:
  bool begins_ = false;  // a line after the first
  bool folded_ = false;
  bool ended_ = false;  // with an empty line
};

class Connection;

// The exchange of one request of a connection.
class Answering final : public Exchange {
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

class Connection final : public HttpConnection {
 public:
  Connection(std::shared_ptr<HttpShared> shared, std::string client,
             std::optional<uint64_t> network)
      : shared_(std::move(shared)),
        strand_(asio::make_strand(shared_->context)),
        socket_(strand_),
        limit_(strand_),
        wake_(strand_),
        watch_(strand_),
        client_(std::move(client)),
        place_(shared_->places, network),
        turned_away_(shared_->turned_away, network),
        reading_known_(shared_->reading, network),
        reading_unknown_(shared_->reading_of_unknown, network),
        writing_(shared_->writing, network) {
    const std::lock_guard lock(shared_->mutex);
    shared_->open.insert(this);
  }
  ~Connection() override {
    tell_gone();
    const std::lock_guard lock(shared_->mutex);
    shared_->open.erase(this);
    shared_->changed.notify_all();
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void own(FileDescriptor&& socket, int family) {
    socket_.assign(asio::generic::stream_protocol(family, 0), socket.get());
    socket.release();
  }
  bool take_place() override { return place_.hold(1); }
  void start() override {
    asio::co_spawn(
        strand_, [self = shared_self()] { return self->run(); }, asio::detached);
  }
  void refuse() override {
    if (!turned_away_.hold(1)) return;
    asio::co_spawn(
        strand_, [self = shared_self()] { return self->turn_away(); }, asio::detached);
  }
  void drain() override {
    asio::dispatch(strand_, [self = shared_self()] {
      if (self->idle_) self->end_idleness();
    });
  }
  void abort() override {
    asio::dispatch(strand_, [self = shared_self()] {
      self->aborted_ = true;
      self->gone_ = true;
      self->wake_.cancel();
      self->limit_.cancel();
      error_code ignored;
      self->socket_.close(ignored);
    });
  }

  // For Answering.
  void give(uint64_t number, HttpResponse&& response, std::shared_ptr<ByteSource> source) {
    asio::dispatch(strand_, [self = shared_self(), number, response = std::move(response),
                             source = std::move(source)]() mutable {
      if (self->number_ != number) return;
      self->response_ = std::move(response);
      self->source_ = std::move(source);
      self->wake_.cancel();
    });
  }
  void tell_news(uint64_t number) {
    asio::dispatch(strand_, [self = shared_self(), number] {
      if (self->number_ != number) return;
      self->news_ = true;
      self->wake_.cancel();
    });
  }

 private:
  enum class Read { whole, closed, bad };

  std::shared_ptr<Connection> shared_self() {
    return std::static_pointer_cast<Connection>(shared_from_this());
  }

  awaitable<void> run() {
    try {
      while (co_await serve_one()) {
      }
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory for it: it ends
    }
    limit_.cancel();
    wake_.cancel();
    watch_.cancel();
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
    if (aborted_) co_return false;
    is_new_ = false;
    no_limit();
    const bool is_head = parser.get().method() == http::verb::head;
    const bool old = parser.get().version() < 11;
    bool stays = stays_;
    response_.reset();
    source_.reset();
    gone_ = false;
    ++number_;
    watch();
    hand_over(std::move(parser.get().body()));
    while (!response_ && !gone_) co_await wait(std::nullopt);
    reading_known_.release();
    reading_unknown_.release();
    if (gone_) co_return false;
    if (!writing_.hold(counted(response_->body.size()))) {
      response_ = own_error(503, "overloaded", "too many large answers are being sent: try again");
    }
    // While the server ends, requests that have arrived already are still answered.
    if (shared_->draining) stays = stays && (buffer_.size() > 0 || read_now() > 0);
    const bool written = source_ != nullptr ? co_await write_stream(is_head, old, stays)
                                            : co_await write_whole(is_head, old, stays);
    // Nobody reads what is still being made, or may have it.
    if (source_ != nullptr && (!written || is_head)) tell_gone();
    ++number_;  // nothing is expected any more
    asked_.reset();
    source_.reset();
    response_.reset();
    writing_.release();
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
    bool at_start = true;
    bool begun = false;
    bool checked = false;
    HeaderLines lines;
    for (;;) {
      if (at_start) at_start = !skip_empty_line();
      begun = begun || buffer_.size() > 0;
      if (begun && idle_) {
        idle_ = false;
        limit(shared_->options.header_time);
      }
      error_code problem;
      while (!at_start && buffer_.size() > 0 && !parser.is_done()) {
        const size_t used = parser.put(buffer_.data(), problem);
        if (!checked) lines.take(there().substr(0, used));
        buffer_.consume(used);
        if (lines.folded()) {
          co_await write_error(400, "bad_request", "a header may not go on in a second line");
          co_return Read::bad;
        }
        if (problem || (used == 0 && !parser.is_done())) break;
        if (parser.is_header_done() && !checked) {
          checked = true;
          if (const int status = refusal_of(parser.get()); status != 0) {
            co_await write_error(status, code_of(status), why_refused_);
            co_return Read::bad;
          }
          take_header(parser.get());
          limit(shared_->options.body_time);
          if (!parser.is_done() && parser.get().version() >= 11 &&
              equal_ignoring_case(request_.header("Expect"), "100-continue")) {
            co_await write("HTTP/1.1 100 Continue\r\n\r\n");
            limit(shared_->options.body_time);
          }
        }
      }
      if (!reading_->hold(counted(parser.get().body().size()))) {
        reading_->release();
        co_await write_error(503, "overloaded", "too much is being sent here: try again later");
        co_return Read::bad;
      }
      if (parser.is_done()) co_return Read::whole;
      // What is left is the beginning of something the parser takes as a whole: the extension of a
      // chunk or a trailer, for which it has no bound of its own.
      if (!failed(problem) && std::ssize(buffer_) > shared_->options.max_header) {
        problem = http::error::header_limit;
      }
      if (failed(problem)) {
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
    }
  }

  std::string_view there() const {
    return {static_cast<const char*>(buffer_.data().data()), buffer_.size()};
  }

  // An empty line before a request is none of it: some clients send one after a body (RFC 9112,
  // 2.2). False: whether there is one is still to be seen.
  bool skip_empty_line() {
    if (there().empty() || there() == "\r") return false;
    if (there().starts_with("\r\n")) buffer_.consume(2);
    return true;
  }

  // While the server ends: waits no longer, but for the request of a client who has just connected.
  void end_idleness() { limit(is_new_ ? kFirst : Milliseconds(0)); }

  // The status to refuse a header with, 0 for none: where its message ends must be beyond doubt.
  int refusal_of(const Parser::value_type& head) {
    const auto hosts = head.count(http::field::host);
    why_refused_ = hosts == 0 ? "the header Host is missing" : "the header Host is there twice";
    if (hosts > 1 || (hosts == 0 && head.version() >= 11)) return 400;
    const auto lengths = head.count(http::field::content_length);
    const auto codings = head.count(http::field::transfer_encoding);
    why_refused_ = "the length of the body is given twice";
    if (lengths + codings > 1) return 400;
    // The parser takes a list of equal lengths, too.
    why_refused_ = "Content-Length is not one whole number";
    const auto length = head[http::field::content_length];
    if (lengths == 1 && !is_whole_number({length.data(), length.size()})) return 400;
    why_refused_ = "Transfer-Encoding can only be chunked";
    if (codings == 1) {
      const auto coding = head[http::field::transfer_encoding];
      if (head.version() < 11) return 400;
      if (!equal_ignoring_case({coding.data(), coding.size()}, "chunked")) return 501;
    }
    why_refused_ = "a connection cannot be changed into another protocol";
    return head.method() == http::verb::connect ? 405 : 0;
  }

  static std::string_view code_of(int status) {
    if (status == 405) return "method_not_allowed";
    return status == 501 ? "not_implemented" : "bad_request";
  }

  static bool failed(error_code problem) { return problem && problem != http::error::need_more; }

  awaitable<void> answer_fault(error_code problem) {
    if (problem == http::error::body_limit) {
      co_await write_error(413, "too_large",
                           concat("a body may have at most ", shared_->options.max_body, " bytes"));
    } else if (problem == http::error::header_limit) {
      co_await write_error(
          431, "too_large",
          concat("a header may have at most ", shared_->options.max_header, " bytes"));
    } else {
      co_await write_error(400, "bad_request", concat("not HTTP/1.1: ", problem.message()));
    }
  }

  // When the header is complete. What a chunked body adds at its end are not headers: whoever
  // checked them on the way has not seen it.
  void take_header(const Parser::value_type& head) {
    request_ = {};
    request_.method = std::string(head.method_string());
    request_.target = std::string(head.target());
    // The absolute form names the server too.
    if (const size_t scheme = request_.target.find("://");
        scheme != std::string::npos && scheme < request_.target.find('/')) {
      const size_t path = request_.target.find('/', scheme + 3);
      request_.target = path == std::string::npos ? "/" : request_.target.substr(path);
    }
    for (const auto& field : head) {
      request_.headers.push_back({std::string(field.name_string()), std::string(field.value())});
    }
    request_.client = client_;
    stays_ = head.keep_alive();
    const HttpOptions& options = shared_->options;
    const bool is_known = !options.is_known || options.is_known(request_);
    reading_ = is_known ? &reading_known_ : &reading_unknown_;
  }

  void hand_over(std::string&& body) {
    const auto answering = std::make_shared<Answering>(shared_self(), number_);
    asked_ = answering;
    request_.body = std::move(body);
    try {
      shared_->handler(std::move(request_), answering);
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
    if (buffer_.size() >= kAheadBytes) return watch_for_end();
    socket_.async_wait(Socket::wait_read,
                       [self = shared_self(), number = number_](const error_code& problem) {
                         if (problem || self->number_ != number) return;
                         const ssize_t got = self->read_now();
                         const bool nothing = got < 0 && (errno == EAGAIN || errno == EINTR);
                         if (got > 0 || nothing) return self->watch();
                         self->client_left();
                       });
  }

  // Does so when enough was read ahead. As there is more to be read, waiting for something to read
  // would not tell: the system is asked now and then whether the client hung up.
  void watch_for_end() {
    watch_.expires_after(kLook);
    watch_.async_wait([self = shared_self(), number = number_](const error_code& problem) {
      if (problem || self->number_ != number || !self->socket_.is_open()) return;
      pollfd socket{.fd = self->socket_.native_handle(), .events = POLLRDHUP, .revents = 0};
      if (::poll(&socket, 1, 0) <= 0) return self->watch_for_end();
      self->client_left();
    });
  }

  void client_left() {
    gone_ = true;
    tell_gone();
    wake_.cancel();
  }

  // Until woken, or for a time. False: the time passed.
  awaitable<bool> wait(std::optional<Milliseconds> time) {
    wake_.expires_after(time.value_or(std::chrono::hours(24)));
    error_code problem;
    co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, problem));
    co_return problem == asio::error::operation_aborted;
  }

  void tell_gone() {
    if (const auto asked = asked_.lock()) asked->tell_gone();
  }

  // From now on reading and writing fail when the time has passed: timed_out_.
  void limit(Milliseconds time) {
    timed_out_ = false;
    cancel_after(time);
  }
  void cancel_after(Milliseconds time) {
    limit_.expires_after(time);
    limit_.async_wait([weak = std::weak_ptr(shared_self())](const error_code& problem) {
      const auto self = weak.lock();
      if (problem || !self || self->limit_.expiry() > std::chrono::steady_clock::now()) return;
      self->timed_out_ = true;
      error_code ignored;
      self->socket_.cancel(ignored);
      // Again, as it may have come between two operations.
      self->cancel_after(Milliseconds(50));
    });
  }
  // A handler that is on its way sees that it comes too late.
  void no_limit() { limit_.expires_at(std::chrono::steady_clock::time_point::max()); }

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
    if (is_head || no_body) co_return co_await write(text);
    const auto until = std::chrono::steady_clock::now() + shared_->options.answer_time;
    // A small one in one piece; of a large one no copy is made.
    if (std::ssize(response_->body) <= kSmall) {
      text += response_->body;
      co_return co_await write(text, until);
    }
    if (!co_await write(text, until)) co_return false;
    co_return co_await write(response_->body, until);
  }

  awaitable<bool> write_stream(bool is_head, bool old, bool& stays) {
    if (old) stays = false;  // its end is that of the connection
    std::string head = head_of(*response_, old, stays);
    if (!old) head += "Transfer-Encoding: chunked\r\n";
    if (!co_await write(head + "\r\n")) co_return false;
    if (is_head) co_return true;
    const auto source = source_;
    std::string bytes;
    for (bool goes_on = true; goes_on;) {
      news_ = false;
      goes_on = source->take(bytes);
      writing_.hold_anyway(counted(bytes.size()));
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
    const std::string size = concat(
        std::string_view(digits.data(), static_cast<size_t>(end.ptr - digits.data())), "\r\n");
    if (std::ssize(bytes) <= kSmall) co_return co_await write(concat(size, bytes, "\r\n"));
    if (!co_await write(size) || !co_await write(bytes)) co_return false;
    co_return co_await write("\r\n");
  }

  // The text must live until it is written.
  awaitable<bool> write(std::string_view text, Time until = Time::max()) {
    while (!text.empty()) {
      const std::string_view part = text.substr(0, kWriteBytes);
      const Time now = std::chrono::steady_clock::now();
      if (now >= until) co_return false;
      limit(std::min(shared_->options.write_time, std::chrono::ceil<Milliseconds>(until - now)));
      error_code problem;
      co_await asio::async_write(socket_, asio::buffer(part.data(), part.size()),
                                 asio::redirect_error(asio::use_awaitable, problem));
      if (problem) co_return false;
      text.remove_prefix(part.size());
    }
    no_limit();
    co_return true;
  }

  // An error that the handler does not know of.
  HttpResponse own_error(int status, std::string_view code, std::string_view message) {
    HttpResponse response{
        .status = status,
        .body = concat(R"({"error":{"code":")", code, R"(","message":")", message, "\"}}\n")};
    if (status == 503) response.headers.push_back({"Retry-After", "1"});
    shared_->count_refusal(status);
    return response;
  }

  awaitable<void> write_error(int status, std::string_view code, std::string_view message) {
    response_ = own_error(status, code, message);
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

  const std::shared_ptr<HttpShared> shared_;
  Strand strand_;
  Socket socket_;
  Timer limit_;  // of the reading or writing under way
  Timer wake_;   // of the coroutine, while it waits for others
  Timer watch_;  // of watch_for_end()
  const std::string client_;
  boost::beast::flat_buffer buffer_;
  std::string why_refused_;
  HttpRequest request_;  // its header, when that is complete
  bool stays_ = false;   // after the answer to it, if its client is to be believed
  Share place_;
  Share turned_away_;
  Share reading_known_;
  Share reading_unknown_;
  Share* reading_ = &reading_known_;  // of the request being read
  Share writing_;
  bool is_new_ = true;  // without a request so far
  bool idle_ = false;   // between two requests
  bool timed_out_ = false;
  bool aborted_ = false;
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

}  // namespace

std::shared_ptr<HttpConnection> HttpConnection::create(std::shared_ptr<HttpShared> shared,
                                                       FileDescriptor&& socket,
                                                       const sockaddr_storage& client) {
  const auto network = shared->options.bound_addresses ? network_of(client) : std::nullopt;
  auto connection = std::make_shared<Connection>(std::move(shared), host_of(client), network);
  connection->own(std::move(socket), client.ss_family);
  return connection;
}

}  // namespace tril::serve
