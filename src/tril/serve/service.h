// Service: requests in, answers out. The APIs, who may use them, and how much.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tril/serve/http.h"
#include "tril/serve/keys.h"
#include "tril/serve/metrics.h"
#include "tril/serve/model_set.h"
#include "tril/serve/text_call.h"

namespace tril::serve {

struct ServiceOptions {
  CallLimits limits{};
  int64_t cache_bytes = int64_t{64} << 20;
  std::vector<Key> keys{};            // empty: everybody may use it
  int64_t tokens_per_minute = 0;      // of a client whose key says nothing else; 0: no limit
  int64_t max_queued_tokens = 65536;  // source tokens waiting or being decoded; then 503
  // Whether clients are told apart by the address that a proxy in front adds to X-Forwarded-For,
  // instead of by that of the connection.
  bool behind_proxy = false;
  // Of whose pages scripts may read answers: "https://example.org"; "*": everybody's.
  std::vector<std::string> allowed_origins{};
  bool page = true;    // the page at /, and /explain
  bool trust = false;  // as in LoadOptions, where /explain loads a model
};

class Service {
 public:
  Service(ModelSet models, ServiceOptions options);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Answers a request, now or later. Any thread.
  void handle(HttpRequest&& request, std::shared_ptr<Exchange> exchange);
  // Whether the header of a request has a key that is known here, or none is needed. Any thread.
  bool knows(const HttpRequest& request) const;
  // /readyz says no from now on.
  void begin_draining();
  // Where /metrics gets what the transport counts.
  void set_gauges(std::function<void(Gauges&)> fill);
  const ModelSet& models() const;
  const Metrics& metrics() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tril::serve
