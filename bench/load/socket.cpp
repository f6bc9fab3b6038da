#include "socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <stdexcept>

namespace load {
namespace {

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

void Descriptor::close() {
  if (number_ >= 0) ::close(number_);
  number_ = -1;
}

void Descriptor::reset() {
  const linger at_once = {.l_onoff = 1, .l_linger = 0};
  ::setsockopt(number_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close();
}

Address::Address(const std::string& text) {
  if (text.starts_with("unix:")) {
    sockaddr_un place = {};
    place.sun_family = AF_UNIX;
    const std::string path = text.substr(5);
    if (path.empty() || path.size() >= sizeof place.sun_path) fail("no path of a socket: " + text);
    path.copy(place.sun_path, path.size());
    std::memcpy(&address_, &place, size_ = sizeof place);
    host_ = "localhost";
    return;
  }
  host_ = text.starts_with("http://") ? text.substr(7) : text;
  while (host_.ends_with('/')) host_.pop_back();
  const size_t colon = host_.rfind(':');
  if (colon == host_.npos || host_.find('/') != host_.npos) {
    fail("expected http://HOST:PORT or unix:PATH, found: " + text);
  }
  std::string name = host_.substr(0, colon);
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  addrinfo* found = nullptr;
  addrinfo wanted = {};
  wanted.ai_flags = AI_NUMERICSERV;
  wanted.ai_socktype = SOCK_STREAM;
  const int error = ::getaddrinfo(name.c_str(), host_.c_str() + colon + 1, &wanted, &found);
  if (error != 0) fail(text + ": " + ::gai_strerror(error));
  std::memcpy(&address_, found->ai_addr, size_ = found->ai_addrlen);
  ::freeaddrinfo(found);
}

Descriptor Address::connect() const {
  Descriptor made(::socket(address_.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made.open()) fail(std::string("no more sockets: ") + std::strerror(errno));
  const int yes = 1;
  ::setsockopt(made.number(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  const auto* place = reinterpret_cast<const sockaddr*>(&address_);
  if (::connect(made.number(), place, size_) != 0 && errno != EINPROGRESS) made.close();
  return made;
}

int64_t write_some(const Descriptor& socket, std::string_view bytes) {
  const ssize_t count = ::send(socket.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return count >= 0 ? count : errno == EAGAIN || errno == EINTR || errno == ENOTCONN ? 0 : -1;
}

int64_t read_some(const Descriptor& socket, std::span<char> bytes) {
  const ssize_t count = ::recv(socket.number(), bytes.data(), bytes.size(), 0);
  if (count == 0) return -1;
  return count > 0 ? count : errno == EAGAIN || errno == EINTR ? 0 : -1;
}

bool failed(const Descriptor& socket) {
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0;
}

Poll::Poll() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_.open()) fail(std::string("epoll: ") + std::strerror(errno));
}

void Poll::add(const Descriptor& socket, uint64_t key) {
  epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data = {.u64 = key}};
  ::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, socket.number(), &event);
}

void Poll::change(const Descriptor& socket, uint64_t key, bool writing) {
  epoll_event event = {.events = EPOLLIN | (writing ? EPOLLOUT : 0u), .data = {.u64 = key}};
  ::epoll_ctl(epoll_.number(), EPOLL_CTL_MOD, socket.number(), &event);
}

std::span<const epoll_event> Poll::wait(double seconds) {
  seconds = std::clamp(seconds, 0.0, 3600.0);
  const timespec time = {.tv_sec = time_t(seconds),
                         .tv_nsec = long(1e9 * (seconds - std::floor(seconds)))};
  const int most = int(std::size(events_));
  int count = ::epoll_pwait2(epoll_.number(), events_, most, &time, nullptr);
  if (count < 0 && errno == ENOSYS) {  // before Linux 5.11
    count = ::epoll_wait(epoll_.number(), events_, most, int(std::ceil(1000 * seconds)));
  }
  return {events_, size_t(std::max(count, 0))};
}

}  // namespace load
