// What the APIs share. Internal to serve/.
//
// An API is a table of routes. A handler reads the request, starts a TextJob and says what its
// answer looks like; whatever it raises is answered in the API's own shape of errors.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tril/serve/answer.h"
#include "tril/serve/http.h"
#include "tril/serve/service.h"
#include "tril/serve/text_job.h"

namespace tril::serve {

// Whose shape of errors.
enum class Shape : uint8_t { own, libretranslate, deepl };

struct Client {
  uint64_t id = 0;     // whose turn it is
  std::string name{};  // of its key, or its address
  int64_t tokens_per_minute = 0;
};

// Of one request, for as long as it is being answered.
struct Context {
  HttpRequest request;
  std::shared_ptr<Exchange> exchange;
  Shape shape = Shape::own;
  std::string_view api{};  // for the metrics
  Client client{};
  std::chrono::steady_clock::time_point arrived{};
};
using ContextPtr = std::shared_ptr<Context>;

// What handlers use.
class Core {
 public:
  Core(ModelSet models, ServiceOptions options);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // Raises an ApiError if the client has used up its limit, or the queue is full.
  void admit(const Context& context);
  // Who asks. Raises an ApiError for a key that is missing or not known. `secret`: of the body.
  Client client_of(const HttpRequest& request, std::string_view secret = {}) const;
  // Carries out a call; `answer` makes the response, on a worker, unless the job failed.
  using Answer = std::function<HttpResponse(TextJob&)>;
  void run(const ContextPtr& context, TextCall call, Answer answer);
  // The same as server-sent events. `events` appends what is new, and `last` ends the stream.
  struct Stream {
    std::function<void(TextJob&, std::string&)> events;
    std::function<void(TextJob&, std::string&)> last;
    std::function<void(const ApiError&, std::string&)> error;
  };
  void run_stream(const ContextPtr& context, TextCall call, Stream stream);
  // Runs `work` on a thread for slow work; what it raises is answered as an error.
  void run_slow(const ContextPtr& context, std::function<HttpResponse()> work);
  void run_study(const ContextPtr& context, std::function<HttpResponse()> work);

  void respond(const Context& context, HttpResponse&& response);
  void respond(const Context& context, const ApiError& error);

  const ModelSet models;
  const ServiceOptions options;
  Metrics metrics;
  AnswerCache cache;
  TokenBuckets buckets;
  LiveJobs live;
  std::atomic<int64_t> characters = 0;  // translated, for DeepL's usage
  std::atomic<int64_t> studying = 0;    // explanations waiting or being made
  // Last, so that they end before what their tasks use.
  Workers quick{1};
  Workers slow{1};
  Workers study{1};

 private:
  JobServices services() { return {cache, metrics, live, quick, slow}; }
  void submitted(const Context& context, const TextJob& job);
};

// How a client is told the language of a model's code: "en" of "eng_Latn".
std::string client_code(std::string_view code);
// The fields of a LibreTranslate or DeepL client have other names for some languages.
std::string wanted_code(std::string_view code);

struct Route {
  std::string_view method;
  std::string_view path;  // ending in "/*": all below
  void (*handler)(Core&, const ContextPtr&);
  Shape shape = Shape::own;
  std::string_view api{};
  bool needs_key = true;
};
std::span<const Route> own_routes();
std::span<const Route> libretranslate_routes();
std::span<const Route> deepl_routes();
std::span<const Route> openai_routes();
std::span<const Route> operations_routes();

}  // namespace tril::serve
