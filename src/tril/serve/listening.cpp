#include "tril/serve/listening.h"

#include <linux/filter.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "tril/base/error.h"

namespace tril::serve {
namespace {

constexpr std::string_view kUnix = "unix:";

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

FileDescriptor listen_at_path(const std::string& path, const std::string& where) {
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
  return socket;
}

FileDescriptor listen_at_port(const std::string& host, uint16_t port, const std::string& where) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string number = concat(port);
  const int problem =
      host.empty() ? EAI_NONAME : ::getaddrinfo(host.c_str(), number.c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, ::freeaddrinfo);
  require(problem == 0, ErrorCode::invalid_argument, Field{"listen"}, "serve: '", host,
          "' is no IP address: give one as in 127.0.0.1:8080, 0.0.0.0:8080 or [::1]:8080");
  FileDescriptor socket(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  bind_and_listen(socket, found->ai_addr, found->ai_addrlen, where);
  return socket;
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (number_ >= 0) ::close(number_);
}

FileDescriptor listen_at(const std::string& where) {
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
  if (address.ss_family != AF_INET && address.ss_family != AF_INET6) return {};
  std::array<char, NI_MAXHOST> host{};
  const int problem = ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), sizeof address,
                                    host.data(), host.size(), nullptr, 0, NI_NUMERICHOST);
  return problem == 0 ? host.data() : std::string();
}

std::optional<uint64_t> network_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr;
  }
  if (address.ss_family != AF_INET6) return std::nullopt;
  const in6_addr& six = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  constexpr size_t kMapped = 12;  // bytes before the IPv4 address that one of IPv6 can hold
  if (IN6_IS_ADDR_V4MAPPED(&six)) {
    uint32_t four = 0;
    std::memcpy(&four, six.s6_addr + kMapped, sizeof four);
    return four;
  }
  uint64_t network = 0;
  std::memcpy(&network, six.s6_addr, sizeof network);
  return network;
}

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

void keep_out(int socket, const std::string& where) {
  if (where.starts_with(kUnix)) {
    ::unlink(where.substr(kUnix.size()).c_str());
    return;
  }
  // A filter of the system that drops what asks for a new connection.
  constexpr uint32_t kFlags = 13, kSyn = 2;  // a byte of TCP's header, and a bit of it
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kFlags),
                        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kSyn, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, 0), BPF_STMT(BPF_RET | BPF_K, 0xFFFF'FFFF)};
  const sock_fprog program{std::size(code), code};
  ::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

}  // namespace tril::serve
