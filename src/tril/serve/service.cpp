#include "tril/serve/service.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <utility>

#include "tril/base/fingerprint.h"
#include "tril/serve/api.h"
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
  CountedExchange(std::shared_ptr<Exchange> inner, Metrics& metrics, std::string request_id)
      : inner_(std::move(inner)), metrics_(metrics), request_id_(std::move(request_id)) {
    ++metrics_.requests_in_flight;
  }
  ~CountedExchange() override {
    --metrics_.requests_in_flight;
    if (streamed_ == 0) return;
    try {
      count(streamed_);
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
    inner_->on_gone([is_gone = is_gone_, gone = std::move(gone)] {
      *is_gone = true;
      gone();
    });
  }

  std::string api = "none";

 private:
  static constexpr int kClientLeft = 499;  // as nginx calls it

  void complete(HttpResponse& response) const {
    response.headers.push_back({"X-Content-Type-Options", "nosniff"});
    if (!request_id_.empty()) response.headers.push_back({"X-Request-Id", request_id_});
  }
  void count(int status) {
    const auto seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - arrived_).count();
    metrics_.count(api, *is_gone_ ? kClientLeft : status, seconds);
  }

  const std::shared_ptr<Exchange> inner_;
  Metrics& metrics_;
  const std::string request_id_;
  const std::chrono::steady_clock::time_point arrived_ = std::chrono::steady_clock::now();
  const std::shared_ptr<std::atomic<bool>> is_gone_ = std::make_shared<std::atomic<bool>>(false);
  int streamed_ = 0;  // the status of a stream
};

// An id that can be sent back as a header.
std::string echoed_id(std::string_view id) {
  const bool is_plain = id.size() <= 128 && std::all_of(id.begin(), id.end(), [](char c) {
                          return c > ' ' && static_cast<unsigned char>(c) < 0x7F;
                        });
  return is_plain ? std::string(id) : std::string();
}

// Server-sent events of a job.
class JobStream final : public ByteSource {
 public:
  JobStream(Core::Stream stream, std::chrono::steady_clock::time_point arrived, Metrics& metrics)
      : stream_(std::move(stream)), arrived_(arrived), metrics_(metrics) {}

  void set_job(const std::shared_ptr<TextJob>& job) { job_ = job; }
  // On a worker, when the job is done: what ends the stream.
  void finish(TextJob& job) {
    const std::lock_guard lock(mutex_);
    std::string bytes;
    if (job.error()) {
      stream_.error(*job.error(), bytes);
    } else {
      stream_.events(job, bytes);
      stream_.last(job, bytes);
    }
    last_ = std::move(bytes);
    is_done_ = true;
  }
  bool take(std::string& bytes) override {
    const std::lock_guard lock(mutex_);
    if (is_done_) {
      bytes += last_;
      return false;
    }
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
  std::string last_;  // guarded by the mutex, as the next two
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
  // Requests that are still to be read come first: the one that is being read may start a job.
  const auto all_read = std::make_shared<std::promise<void>>();
  large.post([all_read] { all_read->set_value(); });
  all_read->get_future().wait();
  live.end();
}

Core::Core(ModelSet served, ServiceOptions given)
    : models(std::move(served)), options(std::move(given)), cache(options.cache_bytes) {}

Client Core::client_of(const HttpRequest& request, std::string_view secret) const {
  Client client{.name = request.client, .tokens_per_minute = options.tokens_per_minute};
  if (options.behind_proxy) {
    std::string_view address = trimmed(request.header("X-Real-IP"));
    if (address.empty()) {
      address = request.header("X-Forwarded-For");
      const size_t comma = address.rfind(',');
      if (comma != std::string_view::npos) address.remove_prefix(comma + 1);
      address = trimmed(address);
    }
    if (!address.empty()) client.name = std::string(address.substr(0, 64));
  }
  if (!options.keys.empty()) {
    std::string_view given = request.header("Authorization");
    for (const std::string_view scheme : {"Bearer ", "DeepL-Auth-Key "}) {
      if (given.size() > scheme.size() &&
          equal_ignoring_case(given.substr(0, scheme.size()), scheme)) {
        given.remove_prefix(scheme.size());
        break;
      }
    }
    if (given.empty()) given = secret;
    if (given.empty()) throw ApiError(401, "no_key", "this server needs a key");
    const Key* key = find_key(options.keys, trimmed(given));
    if (key == nullptr) throw ApiError(403, "bad_key", "this key is not known here");
    client.name = "key " + key->name;
    if (key->tokens_per_minute > 0) client.tokens_per_minute = key->tokens_per_minute;
  }
  client.id = fingerprint(client.name);
  return client;
}

void Core::admit(const Context& context) {
  if (!waiting.admits(context.client.id, options.max_queued_tokens)) {
    ApiError full(503, "overloaded", "too much is waiting to be translated: try again later");
    full.retry_after = std::chrono::seconds(1);
    throw full;
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

void Core::submitted(const Context& context, const TextJob& job) {
  charge(context, job.submitted_tokens());
  int64_t bytes = 0;
  for (const std::string& text : job.call().texts) {
    bytes += std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
  }
  characters += bytes;
}

void Core::run(const ContextPtr& context, TextCall call, Answer answer) {
  admit(*context);
  const auto job = std::make_shared<TextJob>(std::move(call), services());
  job->start({context->client.id, context->arrived}, options.limits,
             [this, context, answer = std::move(answer)](TextJob& done) {
               if (done.error()) return respond(*context, *done.error());
               try {
                 respond(*context, answer(done));
               } catch (const std::exception& error) {
                 respond(*context, ApiError(500, "internal", error.what()));
               }
             });
  submitted(*context, *job);
  context->exchange->on_gone([this, weak = std::weak_ptr(job)] {
    if (const auto gone = weak.lock()) {
      ++metrics.cancelled;
      gone->cancel();
    }
  });
}

void Core::run_stream(const ContextPtr& context, TextCall call, Stream stream) {
  admit(*context);
  std::string fingerprint = call.model->fingerprint;
  const auto job = std::make_shared<TextJob>(std::move(call), services());
  const auto source = std::make_shared<JobStream>(std::move(stream), context->arrived, metrics);
  source->set_job(job);
  job->start(
      {context->client.id, context->arrived}, options.limits,
      [source, context](TextJob& done) {
        source->finish(done);
        context->exchange->more();
      },
      [context] { context->exchange->more(); });
  submitted(*context, *job);
  context->exchange->stream(HttpResponse{.type = std::string(kEventStream)}
                                .with("Cache-Control", "no-store")
                                .with("X-Accel-Buffering", "no")
                                .with("X-Tril-Fingerprint", std::move(fingerprint)),
                            source);
  context->exchange->on_gone([this, weak = std::weak_ptr(job)] {
    if (const auto gone = weak.lock()) {
      ++metrics.cancelled;
      gone->cancel();
    }
  });
}

namespace {

void answer_with(Core& core, const ContextPtr& context, const std::function<HttpResponse()>& work) {
  try {
    core.respond(*context, work());
  } catch (const ApiError& error) {
    core.respond(*context, error);
  } catch (const Error& error) {
    core.respond(*context, api_error_of(error));
  } catch (const std::exception& error) {
    core.respond(*context, ApiError(500, "internal", error.what()));
  }
}

}  // namespace

void Core::check_wanted(const Context& context) const {
  if (ending) throw ApiError(503, "ending", "the server ends: ask again");
  require(!context.gone, ErrorCode::cancelled, "the client left");
  require(std::chrono::steady_clock::now() < context.arrived + options.limits.timeout,
          ErrorCode::timed_out, "the answer took too long");
}

namespace {

// So that work which waits is left out when its client leaves.
void notice_leaving(const ContextPtr& context) {
  context->exchange->on_gone([weak = std::weak_ptr(context)] {
    if (const auto left = weak.lock()) left->gone = true;
  });
}

}  // namespace

void Core::run_slow(const ContextPtr& context, std::function<HttpResponse()> work) {
  notice_leaving(context);
  slow.post([this, context, work = std::move(work)] {
    answer_with(*this, context, [&] {
      check_wanted(*context);
      return work();
    });
  });
}

void Core::run_study(const ContextPtr& context, std::function<HttpResponse()> work) {
  constexpr int64_t kMostWaiting = 8;
  if (++studying > kMostWaiting) {
    --studying;
    ApiError full(503, "overloaded", "too many explanations are waiting: try again later");
    full.retry_after = std::chrono::seconds(5);
    throw full;
  }
  const std::shared_ptr<void> counted(nullptr, [this](void*) { --studying; });
  notice_leaving(context);
  study.post([this, context, counted, work = std::move(work)] {
    answer_with(*this, context, [&] {
      check_wanted(*context);
      return work();
    });
  });
}

void Core::run_large(const ContextPtr& context, std::function<void()> work) {
  constexpr int64_t kMostBytes = int64_t{64} << 20;
  const auto bytes = std::ssize(context->request.body);
  const std::shared_ptr<void> counted(nullptr, [this, bytes](void*) { large_bytes -= bytes; });
  if ((large_bytes += bytes) > kMostBytes) {
    ApiError full(503, "overloaded", "too many large requests are waiting: try again later");
    full.retry_after = std::chrono::seconds(1);
    throw full;
  }
  notice_leaving(context);
  large.post([this, context, counted, work = std::move(work)] {
    if (ending) return respond(*context, ApiError(503, "ending", "the server ends: ask again"));
    if (!context->gone) work();
  });
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

void Service::handle(HttpRequest&& request, std::shared_ptr<Exchange> exchange) {
  Core& core = state_->core;
  const auto counted = std::make_shared<CountedExchange>(std::move(exchange), core.metrics,
                                                         echoed_id(request.header("X-Request-Id")));
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
    return answer_with(core, context, [&] {
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
  // Runs a part of the request; what it raises is the answer.
  const auto guarded = [&core, context](const auto& part) {
    try {
      part();
    } catch (const ApiError& error) {
      // DeepL's clients know only that a key is wrong.
      ApiError told = error;
      if (context->shape == Shape::deepl && told.status == 401) told.status = 403;
      core.respond(*context, told);
    } catch (const Error& error) {
      core.respond(*context, api_error_of(error));
    } catch (const std::exception& error) {
      core.respond(*context, ApiError(500, "internal", error.what()));
    }
  };
  guarded([&] {
    // LibreTranslate's clients send their key in the body, which its handlers read.
    if (found.route->needs_key && found.route->shape != Shape::libretranslate) {
      context->client = core.client_of(context->request);
    }
    const auto handle = [&core, context, guarded, handler = found.route->handler] {
      guarded([&] { handler(core, context); });
    };
    if (context->request.body.size() <= kLargeBody) return handle();
    core.admit(*context);
    core.run_large(context, handle);
  });
}

}  // namespace tril::serve
