// Sockets that listen, by the addresses people write. Internal to serve/.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace tril::serve {

class FileDescriptor {
 public:
  explicit FileDescriptor(int number) : number_(number) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept : number_(other.release()) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  FileDescriptor& operator=(FileDescriptor&&) = delete;

  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

// A socket that listens at "127.0.0.1:8080", "[::1]:0" or "unix:/run/tril.sock", and does not
// block. Raises `invalid_argument` for what is no address, `io` where the system refuses. The file
// of a Unix socket whose server is gone is replaced.
FileDescriptor listen_at(const std::string& where);

// Where it listens, with the port the system chose: "http://127.0.0.1:8080", "unix:/run/tril.sock".
std::string address_of(int socket, const std::string& where);

// "127.0.0.1", "::1"; "" for a Unix socket.
std::string host_of(const sockaddr_storage& address);

// A number for who is at an address, to bound what one may have: of IPv6 its network of 64 bits, as
// whoever has one of its addresses has all of them. Nothing for a Unix socket.
std::optional<uint64_t> network_of(const sockaddr_storage& address);

// Lets nobody new connect to it: they are ignored, and refused once it is closed. Who is waiting to
// be accepted still is. Without this, whoever connects between the last accept and the close would
// have a connection that nobody answers. The file of a Unix socket is removed.
void keep_out(int socket, const std::string& where);

}  // namespace tril::serve
