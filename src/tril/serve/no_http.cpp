// HttpServer where tril was built without Boost.
#include "tril/base/error.h"
#include "tril/serve/http_server.h"

namespace tril::serve {

struct HttpServer::State {};

std::string_view problem_of_http() {
  return "this build has no HTTP server: install libboost-dev (Boost 1.74 or later) and build "
         "again";
}

HttpServer::HttpServer(HttpOptions, Handler) {
  fail(ErrorCode::unsupported, "serve: ", problem_of_http());
}
HttpServer::~HttpServer() = default;
std::string HttpServer::address() const { return {}; }
HttpCounts HttpServer::counts() const { return {}; }
void HttpServer::start() {}
bool HttpServer::drain(std::chrono::milliseconds) { return true; }

}  // namespace tril::serve
