// Shared by the tests of the server: requests to a Service without any socket.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tril/io/json.h"
#include "tril/serve/service.h"

namespace tril::serve_test {

// An exchange that keeps what it is given.
class HeldExchange final : public serve::Exchange {
 public:
  void respond(serve::HttpResponse&& response) override;
  void stream(serve::HttpResponse&& head, std::shared_ptr<serve::ByteSource> source) override;
  void more() override;
  void on_gone(std::function<void()> gone) override;

  // Waits for the answer, at most 60 s; of a stream, to its end. Nothing if none came.
  std::optional<serve::HttpResponse> wait();
  // Waits until a stream has this in it.
  bool wait_for(std::string_view text);
  // The client goes away.
  void leave();
  int answers() const { return answers_; }

 private:
  bool take_all(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<serve::HttpResponse> response_;
  std::shared_ptr<serve::ByteSource> source_;
  bool ended_ = false;
  bool left_ = false;
  int64_t news_ = 0;
  std::function<void()> gone_;
  std::atomic<int> answers_ = 0;
};

serve::HttpRequest request(std::string method, std::string target, std::string body = {},
                           std::vector<serve::Header> headers = {});
// Sends it and waits. Fails the test where no answer comes.
serve::HttpResponse ask(serve::Service& service, serve::HttpRequest request);
serve::HttpResponse post(serve::Service& service, std::string target, std::string body,
                         std::vector<serve::Header> headers = {});
serve::HttpResponse get(serve::Service& service, std::string target,
                        std::vector<serve::Header> headers = {});

std::string header(const serve::HttpResponse& response, std::string_view name);
JsonValue json(const serve::HttpResponse& response);
// The value at a path of names and indices, "translations/0/text"; null where there is none.
const JsonValue& at(const JsonValue& value, std::string_view path);
// The text at that path of an answer; of a value of another kind what it is.
std::string text_at(const serve::HttpResponse& response, std::string_view path);
// The value of a metric without labels.
int64_t metric(serve::Service& service, std::string_view name,
               std::vector<serve::Header> headers = {});
// The events of a stream: name ("" where it has none) and data.
using Events = std::vector<std::pair<std::string, std::string>>;
Events events_of(const serve::HttpResponse& response);

// A client whose stream stops the engine: from its first news on, until release(), nothing is
// decoded by that model.
class Gate final : public serve::Exchange {
 public:
  void respond(serve::HttpResponse&& response) override;
  void stream(serve::HttpResponse&& head, std::shared_ptr<serve::ByteSource> source) override;
  void more() override;
  void on_gone(std::function<void()>) override {}

  // Asks for a stream and waits until the engine stands still.
  static std::shared_ptr<Gate> close(serve::Service& service, serve::HttpRequest request = {});
  void release();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  bool released_ = false;
  std::optional<serve::HttpResponse> refused_;
};

// A small random model that reads lines of up to 200 tokens, and lines for it.
Translator small_translator(bool decoder_only = false, int threads = 1,
                            const GenerationSettings& settings = {});
const std::vector<std::string>& some_lines();
// Named en-hi and, if it is to continue text, story.
serve::ModelSet small_models(int threads = 1, bool with_story = false);

}  // namespace tril::serve_test
