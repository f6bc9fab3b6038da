// Lines that were submitted.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>

#include "tril/c/calls.h"
#include "tril/c/result.h"
#include "tril/c/translator.h"
#include "tril/decode/engine.h"

namespace tril::c {

// The callbacks of one line, which the caller may end.
class Callbacks {
 public:
  Callbacks(tril_token_callback on_tokens, tril_ready_callback on_ready, void* user)
      : on_tokens_(on_tokens), on_ready_(on_ready), user_(user) {}

  void tokens(const StreamedText& news) {
    run([&] {
      on_tokens_(user_, news.sample, news.tokens.data(), news.log_probs.data(),
                 std::ssize(news.tokens), news.text.data(), std::ssize(news.text));
    });
  }
  void ready() {
    run([&] { on_ready_(user_); });
  }
  // Waits for one that runs, unless it runs on this thread. None will after that.
  void end() {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }

 private:
  template <class Call>
  void run(const Call& call) {
    const std::lock_guard lock(mutex_);
    if (has_ended_) return;
    const InCallback here;
    try {
      call();
    } catch (const abi::__forced_unwind&) {
      throw;
    } catch (...) {  // NOLINT(bugprone-empty-catch): nobody here could do anything about it
    }
  }

  std::recursive_mutex mutex_;  // a callback may end them
  bool has_ended_ = false;
  const tril_token_callback on_tokens_;
  const tril_ready_callback on_ready_;
  void* const user_;
};

namespace {

using Clock = std::chrono::steady_clock;

// The latest time that a clock has; a number of seconds may be beyond it.
Clock::time_point after(double seconds) {
  const auto now = Clock::now();
  const auto most = std::chrono::duration<double>(Clock::time_point::max() - now) / 2;
  const auto wished = std::min(std::chrono::duration<double>(seconds), most);
  return now + std::chrono::duration_cast<Clock::duration>(wished);
}

}  // namespace

struct SubmittedLine {
  PendingTranslation pending;
  std::shared_ptr<Callbacks> callbacks;

  // False if the time passed first.
  bool wait(double seconds) const {
    if (pending.ready()) return true;
    require_may_wait();
    if (seconds >= 0) return pending.wait_until(after(seconds));
    pending.wait();
    return true;
  }
};

template <>
struct Behind<tril_pending> {
  using Object = SubmittedLine;
  static constexpr Kind kKind = Kind::pending;
};

}  // namespace tril::c

using namespace tril;     // NOLINT: the functions of tril/c.h stand outside
using namespace tril::c;  // NOLINT

int tril_submit(tril_translator* translator, const char* text, int64_t length,
                const tril_options* options, tril_token_callback on_tokens,
                tril_ready_callback on_ready, void* user, tril_pending** pending) {
  return call("tril_submit", translator, [&] {
    clear(pending);
    const auto model = get(translator);
    TextRequest request{.line = std::string(text_of("the text", text, length))};
    const NamedOptions named = options_for(options, OptionUse::submit);
    request.prefix = named.prefix;
    SubmitOptions submit{.number = named.number, .client = named.client};
    if (named.timeout) submit.deadline = after(*named.timeout);
    const auto callbacks = std::make_shared<Callbacks>(on_tokens, on_ready, user);
    if (on_tokens != nullptr) {
      submit.stream = [callbacks](const StreamedText& news) { callbacks->tokens(news); };
    }
    if (on_ready != nullptr) submit.ready = [callbacks] { callbacks->ready(); };
    auto line = std::make_shared<SubmittedLine>();
    line->callbacks = callbacks;
    line->pending =
        model->translator().submit(std::move(request), model->options_of(named), submit);
    try {
      *pending = give<tril_pending>(line);
    } catch (const std::bad_alloc&) {  // nobody has a handle to the line
      callbacks->end();
      line->pending.cancel();
      throw;
    }
  });
}

int tril_pending_poll(const tril_pending* pending, int* is_done) {
  put(is_done, 0);
  return call("tril_pending_poll", pending,
              [&] { put(is_done, get(pending)->pending.ready() ? 1 : 0); });
}

int tril_pending_wait(const tril_pending* pending, double seconds, int* is_done) {
  put(is_done, 0);
  return call("tril_pending_wait", pending, [&] {
    const auto line = get(pending);
    require_use(!std::isnan(seconds), "the time to wait is not a number");
    put(is_done, line->wait(seconds) ? 1 : 0);
  });
}

int tril_pending_cancel(tril_pending* pending) {
  return call("tril_pending_cancel", pending, [&] { get(pending)->pending.cancel(); });
}

int tril_pending_result(tril_pending* pending, tril_result** result) {
  return call("tril_pending_result", pending, [&] {
    clear(result);
    const auto line = get(pending);
    line->wait(-1);
    const auto results = std::make_shared<Results>();
    results->add(line->pending.get());
    *result = give<tril_result>(results);
  });
}

int tril_pending_free(tril_pending* pending) {
  return call("tril_pending_free", pending, [&] {
    const auto line = take(pending);
    if (line == nullptr) return;
    line->callbacks->end();
    if (!line->pending.ready()) line->pending.cancel();
  });
}
