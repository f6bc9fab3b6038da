#include "small_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace load::testing {
namespace {

// The body of the next request; false at the connection's end.
bool receive(int socket, std::string& bytes, std::string& body) {
  for (;;) {
    const size_t head = bytes.find("\r\n\r\n");
    if (head != bytes.npos) {
      const size_t at = bytes.find("Content-Length: ") + 16;
      const size_t length = std::stoul(bytes.substr(at, bytes.find('\r', at) - at));
      if (bytes.size() >= head + 4 + length) {
        body = bytes.substr(head + 4, length);
        bytes.erase(0, head + 4 + length);
        return true;
      }
    }
    char buffer[4096];
    const ssize_t count = ::recv(socket, buffer, sizeof buffer, 0);
    if (count <= 0) return false;
    bytes.append(buffer, size_t(count));
  }
}

int listen_at(const std::string& path) {
  if (path.empty()) {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in place = {};
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(listener, reinterpret_cast<sockaddr*>(&place), sizeof place) != 0) return -1;
    return listener;
  }
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un place = {};
  place.sun_family = AF_UNIX;
  path.copy(place.sun_path, sizeof place.sun_path - 1);
  ::unlink(path.c_str());
  if (::bind(listener, reinterpret_cast<sockaddr*>(&place), sizeof place) != 0) return -1;
  return listener;
}

}  // namespace

std::string answer(int status, const std::string& body, const std::string& headers) {
  return "HTTP/1.1 " + std::to_string(status) + " Reason\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string chunk(const std::string& text) {
  char size[24];
  std::snprintf(size, sizeof size, "%zx\r\n", text.size());
  return size + text + "\r\n";
}

SmallServer::SmallServer(Handler handler, const std::string& path)
    : handler_(std::move(handler)), listener_(listen_at(path)), address_("unix:" + path) {
  if (listener_ < 0 || ::listen(listener_, 256) != 0) throw std::runtime_error("cannot listen");
  if (path.empty()) {
    sockaddr_in place = {};
    socklen_t size = sizeof place;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&place), &size);
    address_ = "http://127.0.0.1:" + std::to_string(ntohs(place.sin_port));
  }
  accepting_ = std::thread([this] { accept(); });
}

SmallServer::~SmallServer() {
  ::shutdown(listener_, SHUT_RDWR);
  accepting_.join();
  for (std::thread& thread : serving_) thread.join();
  ::close(listener_);
}

void SmallServer::accept() {
  for (;;) {
    const int socket = ::accept(listener_, nullptr, nullptr);
    if (socket < 0) return;
    ++connections_;
    serving_.emplace_back([this, socket] {
      serve(socket);
      ::close(socket);
    });
  }
}

void SmallServer::serve(int socket) {
  std::string bytes, body;
  while (receive(socket, bytes, body)) {
    const Reply reply = handler_(body);
    for (const std::string& piece : reply.pieces) {
      if (::send(socket, piece.data(), piece.size(), MSG_NOSIGNAL) < 0) return;
      if (reply.pieces.size() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (reply.closes) return;
  }
}

}  // namespace load::testing
