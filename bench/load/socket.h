// Sockets that never block, and waiting for many of them.
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace load {

// Closes what it holds.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { close(); }

  int number() const { return number_; }
  bool open() const { return number_ >= 0; }
  void close();
  // Closes so that the other side sees a reset and not an end.
  void reset();

 private:
  int number_;
};

// Where a server listens. Raises std::runtime_error for an address that it cannot read or find.
class Address {
 public:
  explicit Address(const std::string& text);

  // What the header Host says.
  const std::string& host() const { return host_; }
  // A socket that is being connected; closed if that is refused at once.
  Descriptor connect() const;

 private:
  sockaddr_storage address_ = {};
  socklen_t size_ = 0;
  std::string host_;
};

// Bytes written or read at once: 0 where the socket is not ready, -1 at its end or an error.
int64_t write_some(const Descriptor& socket, std::string_view bytes);
int64_t read_some(const Descriptor& socket, std::span<char> bytes);
// Whether connecting has failed.
bool failed(const Descriptor& socket);

class Poll {
 public:
  Poll();
  void add(const Descriptor& socket, uint64_t key);
  // Whether to wait until it can be written, too.
  void change(const Descriptor& socket, uint64_t key, bool writing);
  // Waits for at most so many seconds. What it returns holds until the next call.
  std::span<const epoll_event> wait(double seconds);

 private:
  Descriptor epoll_;
  epoll_event events_[256];
};

}  // namespace load
