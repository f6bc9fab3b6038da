// Any bytes to a connection of the server; the first says after how many it pauses. Whatever
// arrives, the connection ends, every answer is one of HTTP, and each request that reached the
// handler has one, and is one whose end no other server can see in another place. Where the bytes
// were cut makes no difference.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "http_reader.h"
#include "scratch.h"
#include "tril/serve/http_server.h"
#include "tril/serve/http_text.h"

namespace {

using tril::fuzz::check;
using namespace tril::serve;
using namespace std::string_view_literals;

constexpr int64_t kMaxHeader = 2048;
constexpr int64_t kMaxBody = 512;

int64_t headers_named(const HttpRequest& request, std::string_view name) {
  return std::count_if(request.headers.begin(), request.headers.end(), [&](const Header& header) {
    return equal_ignoring_case(header.name, name);
  });
}

// What the transport promises of a request that it hands over.
void check_request(const HttpRequest& request) {
  check(!request.method.empty() && !request.target.empty());
  for (const unsigned char c : request.method + request.target) check(c > ' ' && c != 0x7F);
  check(static_cast<int64_t>(request.body.size()) <= kMaxBody);
  check(headers_named(request, "Host") <= 1);
  check(headers_named(request, "Content-Length") + headers_named(request, "Transfer-Encoding") <=
        1);
  for (const Header& header : request.headers) {
    check(header.name.find_first_of("\r\n\0:"sv) == header.name.npos);
    check(header.value.find_first_of("\r\n\0"sv) == header.value.npos);
  }
}

class Once final : public ByteSource {
 public:
  explicit Once(std::string text) : text_(std::move(text)) {}
  bool take(std::string& bytes) override {
    bytes += text_;
    return false;
  }

 private:
  const std::string text_;
};

std::mutex mutex;
std::vector<std::string> handled;  // of the connection now: what was asked; guarded by the mutex

std::string described(const HttpRequest& request) {
  return request.method + " " + request.target + " " + request.body + "\n";
}

void handle(HttpRequest&& request, const std::shared_ptr<Exchange>& exchange) {
  check_request(request);
  {
    const std::lock_guard lock(mutex);
    handled.push_back(described(request));
  }
  if (request.target.starts_with("/stream")) {
    exchange->stream({.type = "text/event-stream"}, std::make_shared<Once>(described(request)));
    exchange->more();
  } else {
    exchange->respond({.type = "text/plain", .body = described(request)});
  }
}

std::string socket_path() { return tril::fuzz::scratch() + "/socket"; }

HttpServer& server() {
  static HttpServer& it = [&]() -> HttpServer& {
    HttpOptions options;
    options.listen = "unix:" + socket_path();
    options.threads = 1;
    options.max_header = kMaxHeader;
    options.max_body = kMaxBody;
    static HttpServer made(options, handle);
    made.start();
    return made;
  }();
  return it;
}

void send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // the server has heard enough
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

// Everything the server answers to the bytes, sent in pieces. Who closes his side while something
// is answered counts as gone, so that comes when nothing was heard for so many milliseconds.
std::string answers_to(const std::vector<std::string_view>& pieces, int patience) {
  (void)server();
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = socket_path();
  check(socket >= 0 && path.size() < sizeof address.sun_path);
  std::memcpy(address.sun_path, path.data(), path.size());
  check(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0) ::usleep(200);
    send_all(socket, pieces[i]);
  }
  std::string answers;
  for (bool closed = false;;) {
    pollfd ready{.fd = socket, .events = POLLIN, .revents = 0};
    const bool news = ::poll(&ready, 1, closed ? 20'000 : patience) == 1;
    if (!news) {
      check(!closed);  // or it hangs
      ::shutdown(socket, SHUT_WR);
      closed = true;
      continue;
    }
    char bytes[4096];
    const ssize_t got = ::read(socket, bytes, sizeof bytes);
    if (got <= 0) break;
    answers.append(bytes, static_cast<size_t>(got));
  }
  ::close(socket);
  return answers;
}

// Reads one answer from the front, and returns its status; to HEAD, it has no body. 0: it is cut.
int take_answer(std::string_view& bytes, bool to_head) {
  load::HttpReader reader;
  while (!bytes.empty() && !reader.complete()) {
    const bool at_end = to_head && bytes.starts_with("\r\n\r\n");
    reader.feed(bytes.substr(0, at_end ? 4 : 1));
    bytes.remove_prefix(at_end ? 4 : 1);
    if (at_end && reader.status() >= 200) return reader.status();
  }
  try {
    if (!reader.complete()) reader.end();
  } catch (const std::runtime_error&) {
    return 0;
  }
  return reader.status();
}

// The requests that the handler was given, and with what the transport refused one after them, or
// 0.
struct Outcome {
  std::vector<std::string> asked;
  int refused = 0;
};

// Nothing where not each request has its answer, or where something follows a refusal.
std::optional<Outcome> outcome(const std::vector<std::string_view>& pieces, int patience) {
  {
    const std::lock_guard lock(mutex);
    handled.clear();
  }
  const std::string answers = answers_to(pieces, patience);
  const std::lock_guard lock(mutex);
  std::string_view bytes = answers;
  for (const std::string& one : handled) {
    if (take_answer(bytes, one.starts_with("HEAD ")) != 200) return std::nullopt;
  }
  // A client that was told to go on may go away instead.
  if (bytes.empty() || bytes == "HTTP/1.1 100 Continue\r\n\r\n") return Outcome{handled};
  const int refused = take_answer(bytes, false);
  if (refused < 400 || refused >= 600 || !bytes.empty()) return std::nullopt;
  return Outcome{handled, refused};
}

// Both let the same requests in. How the rest is refused may differ, since what is no HTTP may show
// before its end has come or after; and the bound on a header is checked before the next bytes are
// looked at, so that some more may pass.
bool agree(const Outcome& one, const Outcome& other) {
  return one.asked == other.asked || one.refused == 431 || other.refused == 431;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size == 0 || !problem_of_http().empty()) return 0;
  const std::string_view text = tril::fuzz::view(bytes, size).substr(1);
  const size_t cut = std::min<size_t>(bytes[0], text.size());
  // What fails where little time was given must not where there was much.
  for (const int patience : {2, 500}) {
    const auto whole = outcome({text}, patience);
    const auto apart = outcome({text.substr(0, cut), text.substr(cut)}, patience);
    if (whole && apart && agree(*whole, *apart)) return 0;
  }
  check(false);
  return 0;
}
