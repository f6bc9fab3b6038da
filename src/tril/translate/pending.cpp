// Translator::submit() and what it returns.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "tril/translate/line_text.h"

namespace tril {
namespace {

EngineClock::time_point time_point(Moment moment) {
  return EngineClock::time_point(std::chrono::duration_cast<EngineClock::duration>(
      std::chrono::nanoseconds(moment.nanoseconds)));
}

// An outcome on its way from the engine's thread to those who wait for it.
class Arrival {
 public:
  explicit Arrival(Function<void()> ready) : ready_(std::move(ready)) {}

  void put(RequestOutcome&& outcome) {
    {
      const std::lock_guard lock(mutex_);
      outcome_ = std::move(outcome);
      is_here_ = true;
    }
    changed_.notify_all();
    if (ready_) ready_();
  }
  bool is_here() const {
    const std::lock_guard lock(mutex_);
    return is_here_;
  }
  void wait() const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_here_; });
  }
  bool wait_until(EngineClock::time_point time) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, time, [&] { return is_here_; });
  }
  // When it is here. Nothing if it was taken before.
  std::optional<RequestOutcome> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(outcome_, std::nullopt);
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::optional<RequestOutcome> outcome_;
  bool is_here_ = false;
  const Function<void()> ready_;
};

}  // namespace

// Shared by the copies of a handle. Only `arrival` changes once the line was submitted; it alone is
// known to the engine, which must not keep the translator.
struct PendingTranslation::State {
  explicit State(Function<void()> ready) : arrival(std::make_shared<Arrival>(std::move(ready))) {}

  Shared<TranslatorState> translator;
  TranslateOptions options;
  int64_t number = 0;
  int64_t tokens_read = 0;
  std::vector<int32_t> source;             // for alignments
  std::optional<Translation> translation;  // of a line that needs no model
  std::shared_ptr<ServedEngine::Ticket> ticket;
  const std::shared_ptr<Arrival> arrival;
};

namespace {

// The text of the tokens received so far.
class TextSoFar {
 public:
  TextSoFar(const Tokenizer& tokenizer, Function<void(const StreamedText&)> listener)
      : tokenizer_(tokenizer), listener_(std::move(listener)) {}

  void add(const StreamedTokens& news) {
    const auto sample = static_cast<size_t>(news.sample);
    if (tokens_.size() <= sample) tokens_.resize(sample + 1);
    std::vector<int32_t>& tokens = tokens_[sample];
    tokens.insert(tokens.end(), news.tokens.begin(), news.tokens.end());
    const std::string text =
        tokenizer_.decode(std::span(tokens).first(tokenizer_.whole_tokens(tokens)));
    listener_({news.sample, news.tokens, news.log_probs, text});
  }

 private:
  Tokenizer tokenizer_;
  Function<void(const StreamedText&)> listener_;
  std::vector<std::vector<int32_t>> tokens_;  // by sample
};

}  // namespace

PendingTranslation Translator::submit(TextRequest request, const TranslateOptions& options,
                                      const SubmitOptions& submit) const {
  PendingTranslation pending;
  pending.state_ = std::make_shared<PendingTranslation::State>(submit.ready);
  PendingTranslation::State& state = *pending.state_;
  state.translator = state_;
  state.options = options;
  state.number = submit.number;
  const auto search = checked_options(*state_, options);
  SearchRequest asked;
  try {
    asked = request_of(*state_, request, submit.number, options.languages);
  } catch (const Error& error) {
    state.arrival->put({.number = submit.number, .end = RequestEnd::failed, .error = error});
    return pending;
  }
  const bool reads_source = !state_->model.config().decoder_only();
  state.tokens_read = std::ssize(reads_source ? asked.source : asked.prefix);
  if (says_nothing(*state_, asked)) {
    state.translation = empty_translation(submit.number, {});
    state.arrival->put({.number = submit.number});
    return pending;
  }
  if (options.alignments) state.source = asked.source;
  RequestEvents events;
  events.done = [arrival = state.arrival](RequestOutcome&& outcome) {
    arrival->put(std::move(outcome));
  };
  if (submit.stream) {
    events.tokens = [text = std::make_shared<TextSoFar>(state_->tokenizer, submit.stream)](
                        const StreamedTokens& news) { text->add(news); };
  }
  RequestTerms terms{.client = submit.client};
  if (submit.deadline) terms.deadline = time_point(*submit.deadline);
  state.ticket =
      state_->engine.submit(std::move(asked), search, options.slots, std::move(events), terms);
  return pending;
}

PendingTranslation::State& PendingTranslation::submitted() const {
  require(state_ != nullptr, ErrorCode::invalid_argument, "translate: no line was submitted");
  return *state_;
}

bool PendingTranslation::ready() const { return submitted().arrival->is_here(); }

void PendingTranslation::wait() const {
  const State& state = submitted();
  while (!state.arrival->is_here() && state.translator->engine.help()) {
  }
  state.arrival->wait();
}

bool PendingTranslation::wait_until(Moment moment) const {
  const EngineClock::time_point time = time_point(moment);
  const State& state = submitted();
  while (!state.arrival->is_here() && EngineClock::now() < time &&
         state.translator->engine.help()) {
  }
  return state.arrival->wait_until(time);
}

Translation PendingTranslation::get() const {
  wait();
  State& state = submitted();
  std::optional<RequestOutcome> outcome = state.arrival->take();
  require(outcome.has_value(), ErrorCode::invalid_argument,
          "translate: its result was taken before");
  if (outcome->error) throw Error(*outcome->error);
  if (state.translation) return std::move(*state.translation);
  return translation_of(*state.translator, state.number, std::move(outcome->hypotheses),
                        state.source, state.options);
}

int64_t PendingTranslation::tokens_read() const { return submitted().tokens_read; }

void PendingTranslation::cancel() const { cancel(std::span(this, 1)); }

void PendingTranslation::cancel(std::span<const PendingTranslation> lines) {
  // By engine: usually there is one.
  std::map<ServedEngine*, std::vector<std::shared_ptr<ServedEngine::Ticket>>> tickets;
  for (const PendingTranslation& line : lines) {
    const State& state = line.submitted();
    if (state.ticket != nullptr) tickets[&state.translator->engine].push_back(state.ticket);
  }
  for (auto& [engine, some] : tickets) engine->cancel(std::move(some));
}

}  // namespace tril
