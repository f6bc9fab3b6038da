// What the APIs share. Internal to serve/.
//
// An API is a table of routes. A handler reads the request, starts a TextJob and says what its
// answer looks like; whatever it raises is answered in the API's own shape of errors.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tril/serve/answer.h"
#include "tril/serve/http.h"
#include "tril/serve/service.h"
#include "tril/serve/shares.h"
#include "tril/serve/text_job.h"

namespace tril::serve {

// Whose shape of errors.
enum class Shape : uint8_t { own, libretranslate, deepl };

struct Client {
  uint64_t id = 0;     // whose turn it is
  std::string name{};  // of its key, or its address
  int64_t tokens_per_minute = 0;
  bool is_known = true;  // false: its key, if it has one, is still to be read
};

// Of one request, for as long as it is being answered.
struct Context {
  HttpRequest request;
  std::shared_ptr<Exchange> exchange;
  Shape shape = Shape::own;
  Client client{};
  std::chrono::steady_clock::time_point arrived{};
  std::atomic<bool> gone = false;  // its client; known while the request waits for a worker
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
  // After admit(): what the request costs its client, in tokens.
  void charge(const Context& context, int64_t tokens);
  // Who asks. Raises an ApiError for a key that is missing or not known. `secret`: of the body.
  Client client_of(const HttpRequest& request, std::string_view secret = {}) const;
  // The same as far as the header tells, for APIs whose keys may also be in the body: who has none
  // there is not known yet.
  Client client_by_header(const HttpRequest& request) const;
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
  // Runs `step` on a thread for slow work, again and again until it returns the answer, unless the
  // client left or its time is over; what it raises is answered as an error. Between two steps
  // others have their turn, so one should be short.
  using Step = std::function<std::optional<HttpResponse>()>;
  void run_slow(const ContextPtr& context, Step step);
  // The same for explanations, of which only so many may wait: raises an ApiError beyond that.
  void run_study(const ContextPtr& context, std::function<HttpResponse()> work);
  // For requests with large bodies, when they were admitted: those are read and cut on a worker of
  // their own. Raises an ApiError where too many are waiting.
  void run_large(const ContextPtr& context, std::function<void()> work);
  // Raises an error where the answer is not to be made any more: the server ends, its client left,
  // or its time is over.
  void check_wanted(const Context& context) const;

  // Answers with what `work` returns, or with the error that it raises.
  void answer_with(const Context& context, const std::function<HttpResponse()>& work);
  // Runs a part of a request; an error that it raises is the answer.
  void guarded(const Context& context, const std::function<void()>& part);
  void respond(const Context& context, HttpResponse&& response);
  void respond(const Context& context, const ApiError& error);

  const ModelSet models;
  const ServiceOptions options;
  Metrics metrics;
  AnswerCache cache;
  TokenBuckets buckets;
  WaitingTokens waiting{metrics.queued_tokens};
  LiveJobs live;
  std::atomic<int64_t> characters = 0;  // translated, for DeepL's usage
  std::atomic<bool> ending = false;     // what has not begun is not begun any more
  Shares studying{8, 2};                // explanations waiting or being made
  // Bytes of large requests waiting or being read; and of those whose key is still to be read, in
  // the body.
  Shares large_bytes{int64_t{64} << 20, int64_t{16} << 20};
  Shares large_bytes_of_unknown{int64_t{16} << 20, int64_t{4} << 20};
  // Last, so that they end before what their tasks use.
  Workers large{2};  // reads large requests, and puts large answers together
  Workers quick{1};  // puts the other answers together
  Workers slow{1};   // another pass of the model: scores, alignments
  Workers study{1};  // explanations

 private:
  JobServices services() { return {cache, metrics, waiting, live, quick, large, slow}; }
  std::string address_of(const HttpRequest& request) const;
  static std::string_view key_in_header(const HttpRequest& request);
  // Starts a job for a request, which is charged, also if the job is refused when it has begun to
  // be cut and tokenized.
  void start(const ContextPtr& context, TextJob& job, TextJob::Done done,
             std::function<void()> news = {});
  // Cancels it when its client leaves.
  void watch(const ContextPtr& context, const std::shared_ptr<TextJob>& job);
  void post(Workers& workers, const ContextPtr& context, Step step);
};

// How a client is told the language of a model's code: "en" of "eng_Latn".
std::string client_code(std::string_view code);
// What it costs a client to have a text's language detected: about the tokens that it would have.
inline int64_t detection_tokens(std::string_view text) {
  return std::max<int64_t>(1, count_characters(text) / 4);
}

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
