// Translator::submit() and what it returns.
#include <algorithm>
#include <cstdlib>
#include <future>
#include <optional>
#include <utility>

#include "tril/translate/line_text.h"

namespace tril {

struct PendingTranslation::State {
  std::shared_ptr<TranslatorState> translator;
  TranslateOptions options;
  int64_t number = 0;
  std::vector<int32_t> source;             // for alignments
  std::optional<Translation> translation;  // of a line that needs no model
  std::shared_ptr<ServedEngine::Ticket> ticket;
  std::future<RequestOutcome> outcome;
};

namespace {

// The byte that a piece stands for ("<0xE0>"); -1 for all others.
int byte_of(const std::string& piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x")) return -1;
  return static_cast<int>(std::strtol(piece.c_str() + 3, nullptr, 16));
}

// The number of tokens that form whole characters: the last ones may be bytes of an incomplete one.
size_t whole_characters(const Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  for (size_t behind = 1; behind <= std::min<size_t>(3, tokens.size()); ++behind) {
    const int byte = byte_of(tokenizer.piece(tokens[tokens.size() - behind]));
    if (byte < 0x80) break;
    if (byte < 0xC0) continue;  // a continuation byte
    const size_t bytes = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return behind < bytes ? tokens.size() - behind : tokens.size();
  }
  return tokens.size();
}

// The text of the tokens received so far.
class TextSoFar {
 public:
  TextSoFar(std::shared_ptr<const Tokenizer> tokenizer,
            std::function<void(const StreamedText&)> listener)
      : tokenizer_(std::move(tokenizer)), listener_(std::move(listener)) {}

  void add(const StreamedTokens& news) {
    const auto sample = static_cast<size_t>(news.sample);
    if (tokens_.size() <= sample) tokens_.resize(sample + 1);
    std::vector<int32_t>& tokens = tokens_[sample];
    tokens.insert(tokens.end(), news.tokens.begin(), news.tokens.end());
    const std::string text =
        tokenizer_->decode(std::span(tokens).first(whole_characters(*tokenizer_, tokens)));
    listener_({news.sample, news.tokens, news.log_probs, text});
  }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::function<void(const StreamedText&)> listener_;
  std::vector<std::vector<int32_t>> tokens_;  // by sample
};

}  // namespace

PendingTranslation Translator::submit(TextRequest request, const TranslateOptions& options,
                                      const SubmitOptions& submit) const {
  PendingTranslation pending;
  pending.state_ = std::make_shared<PendingTranslation::State>();
  PendingTranslation::State& state = *pending.state_;
  state.translator = state_;
  state.options = options;
  state.number = submit.number;
  const auto search = search_options(*state_, options);
  auto promise = std::make_shared<std::promise<RequestOutcome>>();
  state.outcome = promise->get_future();
  SearchRequest asked;
  try {
    asked = request_of(*state_, request, submit.number);
  } catch (const Error& error) {
    promise->set_value({.number = submit.number, .end = RequestEnd::failed, .error = error});
    return pending;
  }
  if (says_nothing(*state_, asked)) {
    state.translation = empty_translation(submit.number, {});
    promise->set_value({.number = submit.number});
    return pending;
  }
  if (options.alignments) state.source = asked.source;
  RequestEvents events;
  events.done = [promise](RequestOutcome&& outcome) { promise->set_value(std::move(outcome)); };
  if (submit.stream) {
    const std::shared_ptr<const Tokenizer> tokenizer(state_, &state_->tokenizer);
    events.tokens = [text = std::make_shared<TextSoFar>(tokenizer, submit.stream)](
                        const StreamedTokens& news) { text->add(news); };
  }
  state.ticket = state_->engine.submit(std::move(asked), search, options.slots, std::move(events),
                                       {.client = submit.client, .deadline = submit.deadline});
  return pending;
}

bool PendingTranslation::ready() const {
  return state_->outcome.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

void PendingTranslation::wait() const {
  while (!ready() && state_->translator->engine.help()) {
  }
  state_->outcome.wait();
}

bool PendingTranslation::wait_until(EngineClock::time_point time) const {
  while (!ready() && EngineClock::now() < time && state_->translator->engine.help()) {
  }
  return state_->outcome.wait_until(time) == std::future_status::ready;
}

Translation PendingTranslation::get() {
  require(state_ != nullptr, ErrorCode::invalid_argument, "translate: its result was taken before");
  wait();
  const std::shared_ptr<State> state = std::exchange(state_, nullptr);
  RequestOutcome outcome = state->outcome.get();
  if (outcome.error) throw Error(*outcome.error);
  if (state->translation) return std::move(*state->translation);
  return translation_of(*state->translator, state->number, std::move(outcome.hypotheses),
                        state->source, state->options);
}

void PendingTranslation::cancel() {
  if (state_ == nullptr || state_->ticket == nullptr) return;
  state_->translator->engine.cancel(state_->ticket);
}

}  // namespace tril
