// Translator::translate(): sends any number of lines through the engine and returns them in order.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "tril/translate/line_text.h"

namespace tril {
namespace {

// How soon a source that had no line is asked again while lines are being decoded.
constexpr auto kAskAgain = std::chrono::milliseconds(5);
constexpr auto kNoWait = std::chrono::milliseconds(0);

// A line that is being decoded.
struct Line {
  std::shared_ptr<ServedEngine::Ticket> ticket;
  std::vector<int32_t> source;  // for alignments
  RequestOutcome outcome;       // once it has arrived
  Line* next = nullptr;         // in the list of a mailbox
};

// Lines whose outcomes have arrived, passed from the engine's thread to the caller's. They form an
// intrusive list, so that no outcome is lost if memory runs out.
class Mailbox {
 public:
  void put(Line& line, RequestOutcome&& outcome) {
    line.outcome = std::move(outcome);
    {
      const std::lock_guard lock(mutex_);
      line.next = std::exchange(last_, &line);
    }
    changed_.notify_one();
  }
  // Takes all that have arrived, in order of arrival; waits a limited time for the first.
  Line* take(std::chrono::milliseconds at_most) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, at_most, [&] { return last_ != nullptr; });
    Line* first = nullptr;
    while (last_ != nullptr) {
      Line* before = std::exchange(last_->next, first);
      first = std::exchange(last_, before);
    }
    return first;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Line* last_ = nullptr;
};

// One call of translate().
class TranslationCall {
 public:
  TranslationCall(TranslatorState& state, const NextText& next, const TranslationDone& done,
                  const TranslateOptions& options)
      : state_(state),
        next_(next),
        options_(options),
        search_(checked_options(state, options)),
        ready_(done, options.first_number),
        bad_("translate", options.bad_lines),
        taken_(options.first_number) {
    require(options.first_number >= 0, ErrorCode::invalid_argument,
            "translate: first_number must be at least 0, got ", options.first_number);
    require(options.window >= 1, ErrorCode::invalid_argument,
            "translate: window must be at least 1, got ", options.window);
    // Twice as many as are decoded at once, so that the engine never waits for text.
    most_under_way_ = 2 * std::max<int64_t>(1, options.slots / search_->width());
  }
  // However the call ends, lines in flight are cancelled.
  ~TranslationCall() {
    try {
      std::vector<std::shared_ptr<ServedEngine::Ticket>> tickets;
      for (const auto& [number, line] : under_way_) {
        if (line->ticket != nullptr) tickets.push_back(line->ticket);
      }
      state_.engine.cancel(std::move(tickets));
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): they go on to their ends
    }
  }
  TranslationCall(const TranslationCall&) = delete;
  TranslationCall& operator=(const TranslationCall&) = delete;

  void run() {
    while (!ready_.stopped()) {
      const Paused paused = submit_lines();
      if (under_way_.empty()) break;
      const auto wait = state_.engine.help()                    ? kNoWait
                        : paused == Paused::source_has_none_now ? kAskAgain
                                                                : 10 * kAskAgain;
      for (Line* line = mailbox_->take(wait); line != nullptr && !ready_.stopped();) {
        receive(*std::exchange(line, line->next));
      }
    }
    if (!ready_.stopped()) bad_.raise();
  }

 private:
  // Why no more lines are submitted for now.
  enum class Paused { source_has_none_now, call_takes_no_more };

  // Submits as many lines as the engine can use.
  Paused submit_lines() {
    while (!ready_.stopped() && !bad_.failed() &&
           static_cast<int64_t>(under_way_.size()) < most_under_way_ &&
           taken_ - ready_.next() < options_.window) {
      const std::optional<TextRequest> text = next_();
      if (!text) return Paused::source_has_none_now;
      submit(*text, taken_++);
    }
    return Paused::call_takes_no_more;
  }

  void submit(const TextRequest& text, int64_t number) {
    SearchRequest request;
    if (!bad_.accept(number,
                     [&] { request = request_of(state_, text, number, options_.languages); })) {
      if (!bad_.failed()) ready_.put(empty_translation(number, bad_.reason()));
      return;
    }
    if (says_nothing(state_, request)) {
      ready_.put(empty_translation(number, {}));
      return;
    }
    std::shared_ptr<Line>& line = under_way_[number] = std::make_shared<Line>();
    if (options_.alignments) line->source = request.source;
    RequestEvents events;
    events.done = [mailbox = mailbox_, line](RequestOutcome&& outcome) {
      mailbox->put(*line, std::move(outcome));
    };
    line->ticket = state_.engine.submit(std::move(request), search_, options_.slots,
                                        std::move(events), {.client = client()});
  }

  void receive(const Line& came) {
    const int64_t number = came.outcome.number;
    const std::shared_ptr<Line> line = std::move(under_way_.extract(number).mapped());
    if (line->outcome.error) throw Error(*line->outcome.error);
    ready_.put(translation_of(state_, number, std::move(line->outcome.hypotheses), line->source,
                              options_));
  }

  // Each call is a client of its own.
  uint64_t client() const { return reinterpret_cast<uintptr_t>(this); }

  TranslatorState& state_;
  const NextText& next_;
  const TranslateOptions& options_;
  const std::shared_ptr<const SearchOptions> search_;
  const std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
  InOrder<Translation> ready_;
  BadLines bad_;
  int64_t most_under_way_ = 0;
  int64_t taken_;  // the number of the next line
  std::map<int64_t, std::shared_ptr<Line>> under_way_;
};

}  // namespace

void Translator::translate(const NextText& next, const TranslationDone& done,
                           const TranslateOptions& options) const {
  TranslationCall(*state_, next, done, options).run();
}

}  // namespace tril
