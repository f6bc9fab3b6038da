// A server for the tests, which answers as it is told, in the pieces it is told.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace load::testing {

// What is sent, with a short pause after each piece. With `closes` the connection ends after them.
struct Reply {
  std::vector<std::string> pieces;
  bool closes = false;
};

// A whole answer; or one of a single chunk.
std::string answer(int status, const std::string& body, const std::string& headers = "");
std::string chunk(const std::string& text);

class SmallServer {
 public:
  // Is called with a request's body, by several threads at once.
  using Handler = std::function<Reply(const std::string& body)>;

  // Listens on a free port of 127.0.0.1, or at a path.
  explicit SmallServer(Handler handler, const std::string& path = "");
  // Waits for the clients to leave.
  ~SmallServer();

  const std::string& address() const { return address_; }
  int connections() const { return connections_; }

 private:
  void accept();
  void serve(int socket);

  Handler handler_;
  int listener_;
  std::string address_;
  std::atomic<int> connections_ = 0;
  std::thread accepting_;
  std::vector<std::thread> serving_;
};

}  // namespace load::testing
