#include "tril/serve/service.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "tril/base/fingerprint.h"
#include "tril/serve/api.h"
#include "tril/serve/http_text.h"
#include "tril/serve/json_out-inl.h"
#include "tril/text/languages.h"

namespace tril::serve {
namespace {

// Bodies above this are read and tokenized by a worker of their own, so that the threads of HTTP,
// and that of the answers, stay free.
constexpr size_t kLargeBody = 8 << 10;
constexpr std::string_view kEventStream = "text/event-stream";

std::string openai_type(const ApiError& error) {
  if (error.status == 401 || error.status == 403) return "authentication_error";
  if (error.status == 429) return "rate_limit_error";
  return error.status >= 500 ? "server_error" : "invalid_request_error";
}

std::string error_body(Shape shape, const ApiError& error) {
  if (shape == Shape::libretranslate) return dump({{"error", error.message}}) + "\n";
  if (shape == Shape::deepl) return dump({{"message", error.message}}) + "\n";
  // tril's own, with the fields that OpenAI's clients read.
  const Json param = error.field.empty() ? Json(nullptr) : Json(error.field);
  return dump({{"error",
                {{"code", error.code},
                 {"message", error.message},
                 {"field", param},
                 {"type", openai_type(error)},
                 {"param", param}}}}) +
         "\n";
}

std::span<const Route> (*const kTables[])() = {own_routes, libretranslate_routes, deepl_routes,
                                               openai_routes, operations_routes};

bool matches(const Route& route, std::string_view path) {
  if (!route.path.ends_with("/*")) return route.path == path;
  return path.size() >= route.path.size() &&
         path.starts_with(route.path.substr(0, route.path.size() - 1));
}

// The route of a path and method; otherwise which methods the path has, and whose it is.
struct Found {
  const Route* route = nullptr;
  std::string methods{};
  Shape shape = Shape::own;
};

// Of a path that is nowhere: that of the API whose clients ask for it.
Shape shape_of_unknown(std::string_view path) {
  if (path.starts_with("/v2/")) return Shape::deepl;
  const bool is_libretranslate =
      path == "/translate_file" || path == "/suggest" || path.starts_with("/download_file/");
  return is_libretranslate ? Shape::libretranslate : Shape::own;
}

Found find_route(std::string_view method, std::string_view path) {
  Found found;
  for (const auto& table : kTables) {
    for (const Route& route : table()) {
      if (!matches(route, path)) continue;
      found.shape = route.shape;
      if (route.method == method || (method == "HEAD" && route.method == "GET")) {
        found.route = &route;
        return found;
      }
      found.methods += concat(found.methods.empty() ? "" : ", ", route.method);
    }
  }
  if (found.methods.empty()) found.shape = shape_of_unknown(path);
  return found;
}

// Adds what every answer has, and counts it: a stream when it has ended.
class CountedExchange final : public Exchange {
 public:
  CountedExchange(std::shared_ptr<Exchange> inner, Metrics& metrics, std::vector<Header> headers)
      : inner_(std::move(inner)), metrics_(metrics), headers_(std::move(headers)) {
    ++metrics_.requests_in_flight;
  }
  ~CountedExchange() override {
    --metrics_.requests_in_flight;
    if (fate_->counted) return;
    try {
      // Where there is no status, nothing was answered: as a rule because the client had left.
      count(streamed_ != 0 ? streamed_ : kFailed);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory: not counted
    }
  }
  CountedExchange(const CountedExchange&) = delete;
  CountedExchange& operator=(const CountedExchange&) = delete;

  void respond(HttpResponse&& response) override {
    complete(response);
    count(response.status);
    inner_->respond(std::move(response));
  }
  void stream(HttpResponse&& head, std::shared_ptr<ByteSource> source) override {
    complete(head);
    streamed_ = head.status;
    inner_->stream(std::move(head), std::move(source));
  }
  void more() override { inner_->more(); }
  void on_gone(std::function<void()> gone) override {
    inner_->on_gone([fate = fate_, &metrics = metrics_, gone = std::move(gone)] {
      if (!fate->gone.exchange(true) && !fate->counted) ++metrics.cancelled;
      gone();
    });
  }

  std::string api = "none";

 private:
  static constexpr int kClientLeft = 499;  // as nginx calls it
  static constexpr int kFailed = 500;

  void complete(HttpResponse& response) const {
    response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
  }
  void count(int status) {
    const auto seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - arrived_).count();
    metrics_.count(api, fate_->gone ? kClientLeft : status, seconds);
    fate_->counted = true;
  }

  const std::shared_ptr<Exchange> inner_;
  Metrics& metrics_;
  const std::vector<Header> headers_;  // that every answer to this request has
  const std::chrono::steady_clock::time_point arrived_ = std::chrono::steady_clock::now();
  // Known to who is told that the client left, too.
  struct Fate {
    std::atomic<bool> gone = false;
    std::atomic<bool> counted = false;
  };
  const std::shared_ptr<Fate> fate_ = std::make_shared<Fate>();
  int streamed_ = 0;  // the status of a stream
};

// An id that can be sent back as a header.
std::string echoed_id(std::string_view id) {
  const bool is_plain = id.size() <= 128 && std::all_of(id.begin(), id.end(), [](char c) {
                          return c > ' ' && static_cast<unsigned char>(c) < 0x7F;
                        });
  return is_plain ? std::string(id) : std::string();
}

bool allows(const ServiceOptions& options, std::string_view origin) {
  const auto& allowed = options.allowed_origins;
  return std::find(allowed.begin(), allowed.end(), origin) != allowed.end();
}

// The headers of any answer to a request: which scripts may read it, and its own id.
std::vector<Header> usual_headers(const HttpRequest& request, const ServiceOptions& options) {
  std::vector<Header> headers = {{"X-Content-Type-Options", "nosniff"}};
  if (auto id = echoed_id(request.header("X-Request-Id")); !id.empty()) {
    headers.push_back({"X-Request-Id", std::move(id)});
  }
  if (options.allowed_origins.empty()) return headers;
  const bool all = allows(options, "*");
  if (!all) headers.push_back({"Vary", "Origin"});
  if (const std::string origin(request.header("Origin")); all || allows(options, origin)) {
    headers.push_back({"Access-Control-Allow-Origin", all ? "*" : origin});
    headers.push_back(
        {"Access-Control-Expose-Headers", "ETag, Retry-After, X-Request-Id, X-Tril-Fingerprint"});
  }
  return headers;
}

// Whether a browser asks what a script of another origin may do.
bool is_preflight(const HttpRequest& request, const ServiceOptions& options) {
  return !options.allowed_origins.empty() && request.method == "OPTIONS" &&
         !request.header("Access-Control-Request-Method").empty();
}

// Which headers such a script may send: those the browser asks for, as clients add headers of their
// own, which are not read here.
std::string headers_for_scripts(const HttpRequest& request, const ServiceOptions& options) {
  const std::string_view asked = request.header("Access-Control-Request-Headers");
  const bool are_names = std::all_of(asked.begin(), asked.end(), [](char c) {
    return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~, \t").find(c) != std::string_view::npos;
  });
  const bool is_allowed = allows(options, "*") || allows(options, request.header("Origin"));
  if (is_allowed && are_names && !asked.empty()) return std::string(asked);
  return "Authorization, Content-Type, If-None-Match, X-Request-Id";
}

// Server-sent events of a job.
class JobStream final : public ByteSource {
 public:
  JobStream(Core::Stream stream, std::chrono::steady_clock::time_point arrived, Metrics& metrics)
      : stream_(std::move(stream)), arrived_(arrived), metrics_(metrics) {}

  void set_job(const std::shared_ptr<TextJob>& job) { job_ = job; }
  // On a worker, when the job is done: what ends the stream. Nobody waits for the lock meanwhile.
  void finish(TextJob& job) {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    std::string bytes;
    try {
      if (job.error()) {
        stream_.error(*job.error(), bytes);
      } else {
        stream_.events(job, bytes);
        stream_.last(job, bytes);
      }
    } catch (const std::exception& failure) {
      bytes.clear();
      stream_.error(ApiError(500, "internal", failure.what()), bytes);
    }
    const std::lock_guard lock(mutex_);
    last_ = std::move(bytes);
    is_done_ = true;
  }
  bool take(std::string& bytes) override {
    const std::lock_guard lock(mutex_);
    if (is_done_) {
      bytes += std::exchange(last_, {});
      return false;
    }
    if (is_ending_) return true;
    const size_t before = bytes.size();
    if (const auto job = job_.lock()) stream_.events(*job, bytes);
    if (bytes.size() > before && !began_) {
      began_ = true;
      metrics_.first_token_seconds.add(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - arrived_).count());
    }
    return true;
  }
  std::string_view heartbeat() const override { return ":\n\n"; }

 private:
  const Core::Stream stream_;
  // Not the context: its exchange may hold this.
  const std::chrono::steady_clock::time_point arrived_;
  Metrics& metrics_;
  std::weak_ptr<TextJob> job_;  // its callbacks hold this
  std::mutex mutex_;
  std::string last_;  // guarded by the mutex, as the next three
  bool is_ending_ = false;
  bool is_done_ = false;
  bool began_ = false;
};

}  // namespace

std::string client_code(std::string_view code) {
  const std::string base = base_language(code);
  if (base.empty()) return std::string(code);
  const std::string script = script_of_language(code);
  return script.empty() || script == script_of_language(base) ? base : concat(base, "-", script);
}

// ---- Core ---------------------------------------------------------------------------------------

Core::~Core() {
  ending = true;
  // Requests that are being read may start a job; those that wait to be read no longer do.
  large.wait_idle();
  live.end();
}

Core::Core(ModelSet served, ServiceOptions given)
    : models(std::move(served)), options(std::move(given)), cache(options.cache_bytes) {}

// The address of the client: of the peer or, behind a proxy, what the proxy says. A proxy appends
// the address it sees, so the last one is its own word; those before may be anybody's.
std::string Core::address_of(const HttpRequest& request) const {
  if (!options.behind_proxy) return request.client;
  const auto told = std::find_if(
      request.headers.rbegin(), request.headers.rend(),
      [](const Header& header) { return equal_ignoring_case(header.name, "X-Forwarded-For"); });
  if (told == request.headers.rend()) return request.client;
  std::string_view address = told->value;
  if (const size_t comma = address.rfind(','); comma != std::string_view::npos) {
    address.remove_prefix(comma + 1);
  }
  return std::string(trimmed(address).substr(0, 64));
}

std::string_view Core::key_in_header(const HttpRequest& request) {
  const std::string_view given = request.header("Authorization");
  for (const std::string_view scheme : {"Bearer ", "DeepL-Auth-Key "}) {
    if (given.size() > scheme.size() &&
        equal_ignoring_case(given.substr(0, scheme.size()), scheme)) {
      return trimmed(given.substr(scheme.size()));
    }
  }
  return trimmed(given);
}

Client Core::client_of(const HttpRequest& request, std::string_view secret) const {
  Client client{.name = address_of(request), .tokens_per_minute = options.tokens_per_minute};
  if (!options.keys.empty()) {
    std::string_view given = key_in_header(request);
    if (given.empty()) given = trimmed(secret);
    if (given.empty()) {
      throw ApiError(401, "no_key",
                     "this server needs a key: send it in the header Authorization: Bearer KEY");
    }
    const Key* key = find_key(options.keys, given);
    if (key == nullptr) {
      // No key has a blank in it: that is another scheme.
      const bool is_scheme = given.find(' ') != std::string_view::npos;
      throw ApiError(401, "bad_key",
                     is_scheme ? "the header Authorization should be: Bearer KEY"
                               : "this key is not known here");
    }
    client.name = "key " + key->name;
    if (key->tokens_per_minute > 0) client.tokens_per_minute = key->tokens_per_minute;
  }
  client.id = fingerprint(client.name);
  return client;
}

Client Core::client_by_header(const HttpRequest& request) const {
  if (options.keys.empty() || !key_in_header(request).empty()) return client_of(request);
  Client client{.name = "without key " + address_of(request), .is_known = false};
  client.id = fingerprint(client.name);
  return client;
}

void Core::admit(const Context& context) {
  if (!waiting.admits(context.client.id, options.max_queued_tokens)) {
    throw unavailable("overloaded", "too much is waiting to be translated: try again later");
  }
  if (const auto wait = buckets.refusal(context.client.name, context.client.tokens_per_minute)) {
    ApiError limit(429, "rate_limited",
                   concat("more than ", context.client.tokens_per_minute,
                          " source tokens per minute: try again in ", wait->count(), " s"));
    limit.retry_after = *wait;
    throw limit;
  }
}

void Core::charge(const Context& context, int64_t tokens) {
  buckets.charge(context.client.name, context.client.tokens_per_minute, tokens);
}

void Core::start(const ContextPtr& context, TextJob& job, TextJob::Done done,
                 std::function<void()> news) {
  int64_t estimate = 0;
  for (const std::string& text : job.call().texts) estimate += detection_tokens(text);
  charge(*context, estimate);
  const JobClient client{.id = context->client.id, .arrived = context->arrived, .check = [&] {
                           check_wanted(*context);
                         }};
  job.start(client, options.limits, std::move(done), std::move(news));
  charge(*context, job.source_tokens() - estimate);
  for (const std::string& text : job.call().texts) characters += count_characters(text);
}

void Core::watch(const ContextPtr& context, const std::shared_ptr<TextJob>& job) {
  context->exchange->on_gone([weak = std::weak_ptr(job)] {
    if (const auto gone = weak.lock()) gone->cancel();
  });
}

void Core::run(const ContextPtr& context, TextCall call, Answer answer) {
  admit(*context);
  const auto job = std::make_shared<TextJob>(std::move(call), services());
  start(context, *job, [this, context, answer = std::move(answer)](TextJob& done) {
    answer_with(*context, [&] {
      if (done.error()) throw ApiError(*done.error());
      return answer(done);
    });
  });
  watch(context, job);
}

void Core::run_stream(const ContextPtr& context, TextCall call, Stream stream) {
  admit(*context);
  std::string fingerprint = call.model->fingerprint;
  const auto job = std::make_shared<TextJob>(std::move(call), services());
  const auto source = std::make_shared<JobStream>(std::move(stream), context->arrived, metrics);
  source->set_job(job);
  start(
      context, *job,
      [source, context](TextJob& done) {
        source->finish(done);
        context->exchange->more();
      },
      [context] { context->exchange->more(); });
  context->exchange->stream(HttpResponse{.type = std::string(kEventStream)}
                                .with("Cache-Control", "no-store")
                                .with("X-Accel-Buffering", "no")
                                .with("X-Tril-Fingerprint", std::move(fingerprint)),
                            source);
  watch(context, job);
}

void Core::check_wanted(const Context& context) const {
  if (ending) throw unavailable("ending", "the server ends: ask again");
  require(!context.gone, ErrorCode::cancelled, "the client left");
  require(std::chrono::steady_clock::now() < context.arrived + options.limits.timeout,
          ErrorCode::timed_out, "the answer took too long");
}

void Core::post(Workers& workers, const ContextPtr& context, Step step) {
  // So that work which waits is left out when its client leaves.
  context->exchange->on_gone([weak = std::weak_ptr(context)] {
    if (const auto left = weak.lock()) left->gone = true;
  });
  workers.post_steps(context->client.id, [this, context, step = std::move(step)] {
    bool goes_on = false;
    guarded(*context, [&] {
      check_wanted(*context);
      auto answer = step();
      goes_on = !answer;
      if (answer) respond(*context, std::move(*answer));
    });
    return goes_on;
  });
}

void Core::run_slow(const ContextPtr& context, Step step) { post(slow, context, std::move(step)); }

void Core::run_study(const ContextPtr& context, std::function<HttpResponse()> work) {
  const auto place = std::make_shared<Share>(studying, context->client.id);
  if (!place->hold(1)) {
    throw unavailable("overloaded", "too many explanations are waiting: try again later",
                      std::chrono::seconds(5));
  }
  post(study, context, [place, work = std::move(work)] {
    HttpResponse page = work();
    place->release();  // before it is answered: its client may ask again at once
    return page;
  });
}

void Core::run_large(const ContextPtr& context, std::function<void()> work) {
  const Client& client = context->client;
  const auto bytes =
      std::make_shared<Share>(client.is_known ? large_bytes : large_bytes_of_unknown, client.id);
  if (!bytes->hold(std::ssize(context->request.body))) {
    throw unavailable("overloaded", "too many large requests are waiting: try again later");
  }
  context->exchange->on_gone([weak = std::weak_ptr(context)] {
    if (const auto left = weak.lock()) left->gone = true;
  });
  large.post(client.id, [this, context, bytes, work = std::move(work)] {
    if (ending) return respond(*context, unavailable("ending", "the server ends: ask again"));
    if (!context->gone) work();
  });
}

void Core::answer_with(const Context& context, const std::function<HttpResponse()>& work) {
  guarded(context, [&] { respond(context, work()); });
}

void Core::guarded(const Context& context, const std::function<void()>& part) {
  try {
    part();
  } catch (const ApiError& error) {
    // LibreTranslate and DeepL answer so; OpenAI with 401.
    ApiError told = error;
    if (context.shape != Shape::own && told.status == 401) told.status = 403;
    respond(context, told);
  } catch (const Error& error) {
    respond(context, api_error_of(error));
  } catch (const std::exception& error) {
    respond(context, ApiError(500, "internal", error.what()));
  }
}

void Core::respond(const Context& context, HttpResponse&& response) {
  context.exchange->respond(std::move(response));
}

void Core::respond(const Context& context, const ApiError& error) {
  HttpResponse response{.status = error.status, .body = error_body(context.shape, error)};
  if (error.retry_after) {
    response.headers.push_back({"Retry-After", concat(error.retry_after->count())});
  }
  if (error.status == 401) response.headers.push_back({"WWW-Authenticate", "Bearer"});
  context.exchange->respond(std::move(response));
}

// ---- Service ------------------------------------------------------------------------------------

struct Service::State {
  State(ModelSet models, ServiceOptions options) : core(std::move(models), std::move(options)) {}

  std::atomic<bool> draining = false;
  std::function<void(Gauges&)> fill;
  Core core;
};

Service::Service(ModelSet models, ServiceOptions options)
    : state_(std::make_unique<State>(std::move(models), std::move(options))) {}
Service::~Service() = default;

void Service::begin_draining() { state_->draining = true; }
void Service::set_gauges(std::function<void(Gauges&)> fill) { state_->fill = std::move(fill); }
const ModelSet& Service::models() const { return state_->core.models; }
const Metrics& Service::metrics() const { return state_->core.metrics; }

bool Service::knows(const HttpRequest& request) const {
  try {
    return state_->core.client_by_header(request).is_known;
  } catch (const ApiError&) {
    return false;
  }
}

void Service::handle(HttpRequest&& request, std::shared_ptr<Exchange> exchange) {
  Core& core = state_->core;
  const auto counted = std::make_shared<CountedExchange>(std::move(exchange), core.metrics,
                                                         usual_headers(request, core.options));
  const auto context = std::make_shared<Context>();
  context->arrived = std::chrono::steady_clock::now();
  context->request = std::move(request);
  context->exchange = counted;
  const std::string_view path = context->request.path();
  const Found found = find_route(context->request.method, path);
  context->shape = found.shape;
  if (found.route == nullptr) {
    if (found.methods.empty()) {
      return core.respond(*context, ApiError(404, "not_found",
                                             concat("there is nothing at ", printable(path),
                                                    ": see /openapi.json")));
    }
    if (is_preflight(context->request, core.options)) {
      return core.respond(*context, HttpResponse{.status = 204, .type = {}}
                                        .with("Access-Control-Allow-Methods", found.methods)
                                        .with("Access-Control-Allow-Headers",
                                              headers_for_scripts(context->request, core.options))
                                        .with("Access-Control-Max-Age", "86400"));
    }
    HttpResponse wrong{
        .status = 405,
        .body =
            error_body(found.shape, ApiError(405, "method_not_allowed",
                                             concat(printable(path), " takes ", found.methods)))};
    wrong.headers.push_back({"Allow", found.methods});
    return core.respond(*context, std::move(wrong));
  }
  counted->api = std::string(found.route->api);
  // What depends on this server's state.
  if (path == "/livez" || path == "/readyz") {
    const bool ready = path == "/livez" || !state_->draining;
    return core.respond(*context, {.status = ready ? 200 : 503,
                                   .type = "text/plain; charset=utf-8",
                                   .body = ready ? "ok\n" : "draining\n",
                                   .headers = {{"Cache-Control", "no-store"}}});
  }
  if (path == "/metrics") {
    return core.answer_with(*context, [&] {
      context->client = core.client_of(context->request);
      Gauges gauges{.cache_bytes = core.cache.bytes(),
                    .cache_answers = core.cache.size(),
                    .draining = state_->draining};
      if (state_->fill) state_->fill(gauges);
      return HttpResponse{.type = "text/plain; version=0.0.4; charset=utf-8",
                          .body = core.metrics.text(gauges),
                          .headers = {{"Cache-Control", "no-store"}}};
    });
  }
  core.guarded(*context, [&] {
    const std::string_view coding = context->request.header("Content-Encoding");
    if (!coding.empty() && !equal_ignoring_case(coding, "identity")) {
      throw ApiError(415, "unsupported_coding",
                     concat("a body in Content-Encoding ", printable(coding),
                            " is not read here: send it as it is"));
    }
    // LibreTranslate's clients send their key in the body, which its handlers read: until then they
    // are told apart by their addresses.
    if (found.route->needs_key && found.route->shape == Shape::libretranslate) {
      context->client = core.client_by_header(context->request);
    } else if (found.route->needs_key) {
      context->client = core.client_of(context->request);
    }
    const auto handle = [&core, context, handler = found.route->handler] {
      core.guarded(*context, [&] { handler(core, context); });
    };
    if (context->request.body.size() <= kLargeBody) return handle();
    core.admit(*context);
    core.run_large(context, handle);
  });
}

}  // namespace tril::serve
