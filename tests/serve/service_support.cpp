#include "service_support.h"

#include <gtest/gtest.h>

#include "support/models.h"
#include "tril/serve/http_text.h"

namespace tril::serve_test {

using namespace std::chrono_literals;
using serve::HttpRequest;
using serve::HttpResponse;

void HeldExchange::respond(HttpResponse&& response) {
  const std::lock_guard lock(mutex_);
  ++answers_;
  response_ = std::move(response);
  ended_ = true;
  changed_.notify_all();
}

void HeldExchange::stream(HttpResponse&& head, std::shared_ptr<serve::ByteSource> source) {
  const std::lock_guard lock(mutex_);
  ++answers_;
  response_ = std::move(head);
  source_ = std::move(source);
  ++news_;
  changed_.notify_all();
}

void HeldExchange::more() {
  const std::lock_guard lock(mutex_);
  ++news_;
  changed_.notify_all();
}

void HeldExchange::on_gone(std::function<void()> gone) {
  {
    const std::lock_guard lock(mutex_);
    if (!left_) {
      gone_ = std::move(gone);
      return;
    }
  }
  gone();
}

void HeldExchange::leave() {
  std::function<void()> gone;
  {
    const std::lock_guard lock(mutex_);
    left_ = true;
    gone = std::exchange(gone_, nullptr);
  }
  if (gone) gone();
}

// Reads what the source has; returns whether it ended.
bool HeldExchange::take_all(std::unique_lock<std::mutex>& lock) {
  if (source_ == nullptr || ended_) return ended_;
  const auto source = source_;
  std::string bytes;
  lock.unlock();
  const bool goes_on = source->take(bytes);
  lock.lock();
  response_->body += bytes;
  ended_ = !goes_on;
  return ended_;
}

std::optional<HttpResponse> HeldExchange::wait() {
  std::unique_lock lock(mutex_);
  const auto until = std::chrono::steady_clock::now() + 60s;
  int64_t seen = -1;
  while (!take_all(lock)) {
    if (seen != news_) {
      seen = news_;
      continue;
    }
    if (changed_.wait_until(lock, until) == std::cv_status::timeout) return std::nullopt;
  }
  return response_;
}

bool HeldExchange::wait_for(std::string_view text) {
  std::unique_lock lock(mutex_);
  const auto until = std::chrono::steady_clock::now() + 60s;
  for (;;) {
    const bool ended = take_all(lock);
    if (response_ && response_->body.find(text) != std::string::npos) return true;
    if (ended || changed_.wait_until(lock, until) == std::cv_status::timeout) return false;
  }
}

HttpRequest request(std::string method, std::string target, std::string body,
                    std::vector<serve::Header> headers) {
  HttpRequest made;
  made.method = std::move(method);
  made.target = std::move(target);
  made.headers = std::move(headers);
  made.body = std::move(body);
  made.client = "127.0.0.1";
  return made;
}

HttpResponse ask(serve::Service& service, HttpRequest request) {
  const auto exchange = std::make_shared<HeldExchange>();
  service.handle(std::move(request), exchange);
  auto response = exchange->wait();
  EXPECT_TRUE(response.has_value()) << "no answer came";
  EXPECT_EQ(exchange->answers(), 1);
  return response.value_or(HttpResponse{.status = 0});
}

HttpResponse post(serve::Service& service, std::string target, std::string body,
                  std::vector<serve::Header> headers) {
  if (!body.empty()) headers.push_back({"Content-Type", "application/json"});
  return ask(service, request("POST", std::move(target), std::move(body), std::move(headers)));
}

HttpResponse get(serve::Service& service, std::string target, std::vector<serve::Header> headers) {
  return ask(service, request("GET", std::move(target), {}, std::move(headers)));
}

std::string header(const HttpResponse& response, std::string_view name) {
  for (const serve::Header& header : response.headers) {
    if (serve::equal_ignoring_case(header.name, name)) return header.value;
  }
  return {};
}

JsonValue json(const HttpResponse& response) {
  return parse_json(response.body, "the answer",
                    {.max_bytes = 64 << 20, .max_depth = 16, .max_values = 1 << 20});
}

const JsonValue& at(const JsonValue& value, std::string_view path) {
  static const JsonValue nothing;
  const JsonValue* here = &value;
  while (!path.empty() && here != nullptr) {
    const size_t end = std::min(path.find('/'), path.size());
    const std::string name(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
    if (here->kind == JsonValue::Kind::array) {
      const size_t index = std::stoul(name);
      here = index < here->items.size() ? &here->items[index] : nullptr;
    } else {
      here = here->find(name);
    }
  }
  return here != nullptr ? *here : nothing;
}

std::string text_at(const HttpResponse& response, std::string_view path) {
  const JsonValue whole = json(response);
  const JsonValue& value = at(whole, path);
  return value.kind == JsonValue::Kind::string ? value.text : describe(value);
}

int64_t metric(serve::Service& service, std::string_view name, std::vector<serve::Header> headers) {
  const std::string text = "\n" + get(service, "/metrics", std::move(headers)).body;
  const std::string line = concat("\n", name, " ");
  const size_t found = text.find(line);
  EXPECT_NE(found, std::string::npos) << name;
  return found == std::string::npos ? -1 : std::stoll(text.substr(found + line.size()));
}

Events events_of(const HttpResponse& response) {
  Events events;
  std::string_view rest = response.body;
  while (!rest.empty()) {
    const size_t end = rest.find("\n\n");
    EXPECT_NE(end, std::string_view::npos) << rest;
    if (end == std::string_view::npos) break;
    std::string_view event = rest.substr(0, end);
    rest.remove_prefix(end + 2);
    std::string name;
    if (event.starts_with("event: ")) {
      const size_t line = std::min(event.find('\n'), event.size());
      name = std::string(event.substr(7, line - 7));
      event.remove_prefix(std::min(line + 1, event.size()));
    }
    EXPECT_TRUE(event.starts_with("data: ")) << event;
    events.emplace_back(std::move(name),
                        std::string(event.substr(std::min<size_t>(6, event.size()))));
  }
  return events;
}

void Gate::respond(HttpResponse&& response) {
  const std::lock_guard lock(mutex_);
  refused_ = std::move(response);
  changed_.notify_all();
}

void Gate::stream(HttpResponse&&, std::shared_ptr<serve::ByteSource>) {}

void Gate::more() {
  std::unique_lock lock(mutex_);
  reached_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return released_; });
}

std::shared_ptr<Gate> Gate::close(serve::Service& service, HttpRequest asked) {
  if (asked.method.empty()) {
    asked = request("POST", "/v1/translate",
                    R"({"text":"banana bandana ananas","beam":1,"max_tokens":4,"stream":true})");
  }
  auto gate = std::make_shared<Gate>();
  service.handle(std::move(asked), gate);
  std::unique_lock lock(gate->mutex_);
  gate->changed_.wait_for(lock, 60s, [&] { return gate->reached_ || gate->refused_; });
  EXPECT_TRUE(gate->reached_) << (gate->refused_ ? gate->refused_->body : "no news came");
  return gate;
}

void Gate::release() {
  const std::lock_guard lock(mutex_);
  released_ = true;
  changed_.notify_all();
}

const std::vector<std::string>& some_lines() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> lines = {"how are you",
                                      "I am fine, thank you",
                                      "where are they going today?",
                                      "banana bandana ananas",
                                      "the theory that they themselves gathered",
                                      "मैं ठीक हूँ"};
    // More keys than one block of attention has, so that an order of sums could show.
    lines.emplace_back("how " + std::string(100, 'x') + " are they going?");
    lines.emplace_back("I am fine. " + std::string(80, '7') + ". Where are they " +
                       std::string(70, 'q') + " today?");
    return lines;
  }();
  return all;
}

namespace {

const Tokenizer& small_tokenizer() {
  static const Tokenizer learnt = [] {
    size_t next = 0;
    return Tokenizer::train(
        [&](std::string& line) {
          if (next == 6) return false;  // the long ones then fall apart into many tokens
          line = some_lines()[next++];
          return true;
        },
        {.vocab = 320});
  }();
  return learnt;
}

}  // namespace

Translator small_translator(bool decoder_only, int threads, const GenerationSettings& settings) {
  TransformerConfig config = testing::tiny_config(decoder_only ? testing::Family::decoder_only
                                                               : testing::Family::encoder_decoder);
  config.target_vocab = small_tokenizer().vocab();
  config.source_vocab = decoder_only ? 0 : config.target_vocab;
  config.max_length = 200;
  config.output_bias = true;
  Transformer model(config, 7, testing::placement());
  Random random(7, 1);
  testing::change_weights(model,
                          [&](const std::string& name, std::vector<float>& values, const Shape&) {
                            for (float& value : values) value += random.uniform(-0.4f, 0.4f);
                            if (name == "output.bias")
                              values[static_cast<size_t>(small_tokenizer().end())] -= 1.0f;
                          });
  return {std::move(model), small_tokenizer(), threads, settings};
}

serve::ModelSet small_models(int threads, bool with_story) {
  serve::ModelSet models;
  serve::ModelSpec spec;
  spec.name = "en-hi";
  spec.folder = "no-folder";
  models.add(serve::served_model(spec, small_translator(false, threads)));
  if (with_story) {
    spec.name = "story";
    models.add(serve::served_model(spec, small_translator(true, threads)));
  }
  return models;
}

}  // namespace tril::serve_test
