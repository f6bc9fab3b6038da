// Any request to the server: a first line "+METHOD TARGET" (with "-" instead of "+" to a server
// that wants a key), lines of headers, an empty line, the body. Each is answered exactly once,
// never with 500, and a body is what its type says. The same request gets the same bytes again.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "scratch.h"
#include "tiny_translator.h"
#include "tril/serve/service.h"

namespace {

using tril::fuzz::check;
using namespace tril::serve;

class OneAnswer final : public Exchange {
 public:
  void respond(HttpResponse&& response) override {
    const std::lock_guard lock(mutex_);
    check(++answers_ == 1);
    response_ = std::move(response);
    ended_ = true;
    changed_.notify_all();
  }
  void stream(HttpResponse&& head, std::shared_ptr<ByteSource> source) override {
    const std::lock_guard lock(mutex_);
    check(++answers_ == 1);
    response_ = std::move(head);
    source_ = std::move(source);
    ++news_;
    changed_.notify_all();
  }
  void more() override {
    const std::lock_guard lock(mutex_);
    ++news_;
    changed_.notify_all();
  }
  void on_gone(std::function<void()>) override {}

  HttpResponse wait() {
    std::unique_lock lock(mutex_);
    for (int64_t seen = 0; !ended_;) {
      check(changed_.wait_for(lock, std::chrono::seconds(20),
                              [&] { return ended_ || (source_ != nullptr && news_ != seen); }));
      if (ended_) break;
      seen = news_;
      const auto source = source_;
      lock.unlock();
      std::string bytes;
      const bool goes_on = source->take(bytes);
      lock.lock();
      response_.body += bytes;
      ended_ = !goes_on;
    }
    return response_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  HttpResponse response_;
  std::shared_ptr<ByteSource> source_;
  bool ended_ = false;
  int answers_ = 0;
  int64_t news_ = 0;
};

std::unique_ptr<Service> tiny_service(bool with_keys) {
  ModelSet models;
  models.add(served_model({.name = "en-hi", .folder = "none"}, tril::fuzz::tiny_translator()));
  models.add(served_model({.name = "story", .folder = "none"}, tril::fuzz::tiny_translator(true)));
  ServiceOptions options;
  options.limits = {.max_texts = 4, .max_units = 8, .max_beam = 3, .slots = 4};
  options.cache_bytes = 1 << 16;
  if (with_keys) options.keys = {{.secret = "k", .name = "all"}};
  return std::make_unique<Service>(std::move(models), options);
}

std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

HttpRequest request_of(std::string_view text) {
  HttpRequest request;
  std::string_view first = take_line(text);
  const size_t blank = std::min(first.find(' '), first.size());
  request.method = std::string(first.substr(0, blank));
  // The transport refuses what is no target.
  request.target = "/";
  for (const char c : first.substr(std::min(blank + 1, first.size()))) {
    if (request.target == "/" && c == '/') continue;
    if (c > ' ' && c != 0x7F) request.target += c;
  }
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    if (line.empty()) break;
    const size_t colon = std::min(line.find(':'), line.size());
    const size_t value = std::min(line.find_first_not_of(' ', colon + 1), line.size());
    request.headers.push_back(
        {std::string(line.substr(0, colon)), std::string(line.substr(value))});
  }
  request.body = std::string(text);
  request.client = "127.0.0.1";
  return request;
}

void check_events(std::string_view events) {
  while (!events.empty()) {
    const size_t end = events.find("\n\n");
    check(end != events.npos);
    std::string_view event = events.substr(0, end);
    events.remove_prefix(end + 2);
    if (event.starts_with("event: ")) (void)take_line(event);
    check(event.starts_with("data: ") && event.find('\n') == event.npos);
    event.remove_prefix(6);
    check(event == "[DONE]" || nlohmann::json::accept(event));
  }
}

void check_response(const HttpResponse& response) {
  check(response.status >= 200 && response.status < 600 && response.status != 500);
  check(tril::is_utf8(response.body));
  if (response.type == "application/json") check(nlohmann::json::accept(response.body));
  if (response.type == "text/event-stream") check_events(response.body);
  if (response.status >= 400) check(response.body.size() > 2);
  for (const Header& header : response.headers) {
    for (const char c : header.value) check(c >= ' ' && c != 0x7F);
  }
}

// Of a stream what does not depend on the time: the last event, or, where all of them together are
// the answer (OpenAI's), the text of each choice.
std::string lasting(const HttpResponse& response) {
  if (response.type != "text/event-stream") return response.body;
  for (const char* last : {"event: done\n", "event: error\n"}) {
    const size_t at = response.body.rfind(last);
    if (at != std::string::npos) return response.body.substr(at);
  }
  std::map<int, std::string> texts;
  std::string_view events = response.body;
  while (!events.empty()) {
    std::string_view line = take_line(events);
    if (!line.starts_with("data: {")) continue;
    const auto data = nlohmann::json::parse(line.substr(6));
    if (data.contains("error")) return data["error"].dump();
    for (const auto& choice : data.at("choices")) {
      std::string& text = texts[choice.at("index").get<int>()];
      text += choice.at("text").get<std::string>();
      if (choice.at("finish_reason").is_string()) text += choice["finish_reason"].dump();
    }
  }
  check(!texts.empty());
  return nlohmann::json(texts).dump();
}

HttpResponse ask(Service& service, const HttpRequest& request) {
  const auto exchange = std::make_shared<OneAnswer>();
  service.handle(HttpRequest(request), exchange);
  return exchange->wait();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const std::unique_ptr<Service> free = tiny_service(false);
  static const std::unique_ptr<Service> keyed = tiny_service(true);
  if (size == 0) return 0;
  Service& service = bytes[0] == '-' ? *keyed : *free;
  const HttpRequest request = request_of(tril::fuzz::view(bytes, size).substr(1));
  const std::string_view path = request.path();
  if (path == "/explain") return 0;  // reads the model's folder, and there is none
  const HttpResponse first = ask(service, request);
  check_response(first);
  const HttpResponse second = ask(service, request);
  check_response(second);
  const bool changes = path == "/metrics" || path == "/v2/usage";
  const bool was_late = first.status == 504 || second.status == 504 ||
                        first.body.find("\"deadline\"") != std::string::npos ||
                        second.body.find("\"deadline\"") != std::string::npos;
  if (!changes && !was_late) {
    check(first.status == second.status && lasting(first) == lasting(second));
  }
  return 0;
}
