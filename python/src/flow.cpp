#include "flow.h"

#include <algorithm>
#include <utility>

namespace tril::python {

int64_t width_of(const Translator& translator, const TranslateOptions& options) {
  return options.search.over(translator.generation().search.over({.beam = 5})).width();
}

Flow::Flow(Translator translator, const TranslateOptions& options, int64_t first, bool steps)
    : translator_(std::move(translator)), options_(options), next_(first), steps_(steps) {
  require(options_.window >= 1, ErrorCode::invalid_argument,
          "translate: window must be at least 1, got ", options_.window);
  const int64_t width = width_of(translator_, options_);
  options_.slots = std::max(options_.slots, width);
  // Twice as many as are decoded at once, so that the engine never waits for text.
  most_in_flight_ = 2 * std::max<int64_t>(1, options_.slots / std::max<int64_t>(1, width));
}

Flow::~Flow() {
  std::vector<PendingTranslation> left;
  for (const Line& line : lines_) left.push_back(line.pending);
  if (!left.empty()) PendingTranslation::cancel(left);
}

int64_t Flow::in_flight() const {
  const std::lock_guard lock(news_->mutex);
  return taken_ + static_cast<int64_t>(lines_.size()) - news_->ready;
}

bool Flow::wants() const {
  return static_cast<int64_t>(lines_.size()) < options_.window && in_flight() < most_in_flight_;
}

void Flow::submit(TextRequest request) {
  const int64_t number = next_ + static_cast<int64_t>(lines_.size());
  SubmitOptions how;
  how.number = number;
  how.client = reinterpret_cast<uintptr_t>(this);  // each call is a client of its own
  how.ready = [news = news_] {
    {
      const std::lock_guard lock(news->mutex);
      ++news->ready;
    }
    news->changed.notify_one();
  };
  if (steps_) {
    how.stream = [news = news_, number](const StreamedText& text) {
      Step step{number,
                text.sample,
                {text.tokens.begin(), text.tokens.end()},
                {text.log_probs.begin(), text.log_probs.end()},
                std::string(text.text)};
      {
        const std::lock_guard lock(news->mutex);
        news->steps.push_back(std::move(step));
      }
      news->changed.notify_one();
    };
  }
  const PendingTranslation pending = translator_.submit(std::move(request), options_, how);
  lines_.push_back({pending, InFlight(pending)});
}

bool Flow::wait(std::chrono::milliseconds at_most) {
  if (lines_.empty()) return false;
  const PendingTranslation& next = lines_.front().pending;
  if (next.ready()) return true;
  std::unique_lock lock(news_->mutex);
  const int64_t before = news_->ready;
  const bool news = news_->changed.wait_for(
      lock, at_most, [&] { return !news_->steps.empty() || news_->ready != before; });
  lock.unlock();
  // Where the system could start no thread for the engine, waiting for a line does its work.
  if (!news) next.wait_until(Clock::now() + at_most);
  return next.ready();
}

Flow::Line* Flow::line(int64_t number) {
  const int64_t place = number - next_;
  const bool is_here = place >= 0 && place < static_cast<int64_t>(lines_.size());
  return is_here ? &lines_[static_cast<size_t>(place)] : nullptr;
}

Translation Flow::take() {
  Line line = std::move(lines_.front());
  lines_.pop_front();
  ++taken_;
  const int64_t number = next_++;
  if (line.ended) {
    Translation cut;
    cut.number = number;
    cut.hypotheses.push_back(std::move(line.so_far));
    return cut;
  }
  try {
    return line.pending.get();
  } catch (const Error& error) {
    Translation empty;
    empty.number = number;
    empty.hypotheses.emplace_back();
    if (error.code() != ErrorCode::invalid_argument) throw;
    if (options_.bad_lines == BadLine::error) {
      fail(error.code(), "line ", number + 1, ": ", error.what());
    }
    empty.skipped = error.what();
    return empty;
  }
}

std::vector<Step> Flow::take_steps() {
  const std::lock_guard lock(news_->mutex);
  return std::exchange(news_->steps, {});
}

bool Flow::add(const Step& step) {
  Line* const its = line(step.number);
  if (its == nullptr || its->ended) return false;
  if (step.sample != 0) return true;
  TextHypothesis& text = its->so_far;
  text.text = step.text;
  text.tokens.insert(text.tokens.end(), step.tokens.begin(), step.tokens.end());
  text.log_probs.insert(text.log_probs.end(), step.log_probs.begin(), step.log_probs.end());
  for (const int32_t token : step.tokens)
    text.pieces.push_back(translator_.tokenizer().piece(token));
  for (const float log_prob : step.log_probs) text.score += double{log_prob};
  return true;
}

void Flow::end(int64_t number) {
  Line* const its = line(number);
  if (its == nullptr) return;
  its->ended = true;
  its->pending.cancel();
}

}  // namespace tril::python
