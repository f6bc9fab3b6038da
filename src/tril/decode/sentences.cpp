#include "tril/decode/sentences.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "tril/decode/tokens.h"

namespace tril {
namespace {

constexpr auto kBad = ErrorCode::invalid_argument;
// Encoded in one call, about: bounds its memory. A device would rather have more at a time.
constexpr int64_t kEncodeTokens = 512;
constexpr int64_t kEncodeTokensOnDevice = 8192;

void check_request(const SearchRequest& r, const SearchOptions& o, const TransformerConfig& c) {
  const TokenCheck check{"search", c, r.number};
  check.source(r.source);
  require(static_cast<int64_t>(r.prefix.size()) < c.max_length, kBad, "search: request ", r.number,
          ": the prefix has ", r.prefix.size(), " tokens, the model's max_length of ", c.max_length,
          " leaves no room for another");
  check.in_vocabulary("prefix", r.prefix, c.target_vocab);
  const auto end = std::find(r.prefix.begin(), r.prefix.end(), o.end);
  require(end == r.prefix.end(), kBad, "search: request ", r.number, ": END at ",
          end - r.prefix.begin(), " of the prefix: nothing can follow");
}

// How many tokens may be chosen after the prefix. Token i is predicted at position i, so a model
// emits max_length tokens at most.
int64_t limit_of(const SearchRequest& r, const SearchOptions& o, const TransformerConfig& c) {
  int64_t limit = c.max_length - static_cast<int64_t>(r.prefix.size());
  if (o.max_tokens > 0) limit = std::min(limit, o.max_tokens);
  if (c.decoder_only() || o.max_ratio == 0.0) return limit;
  const double by_ratio = o.max_ratio * static_cast<double>(r.source.size()) + 10.0;
  if (by_ratio < static_cast<double>(limit)) limit = static_cast<int64_t>(by_ratio);
  return limit;
}

// To the next power of two or one and a half of it, 64 at least.
int64_t padding_of(int64_t rows) {
  const auto above = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows)));
  const int64_t between = above / 4 * 3;
  return std::max<int64_t>(64, rows <= between ? between : above) - rows;
}

}  // namespace

std::unique_ptr<Sentence> Intake::take(const NextRequest& next) {
  if (waiting_.empty()) fetch(next);
  if (waiting_.empty()) return nullptr;
  std::unique_ptr<Sentence> sentence = std::move(waiting_.front());
  waiting_.pop_front();
  return sentence;
}

void Intake::release(const Sentence& sentence) {
  if (sentence.segment >= 0) encoded_.release(sentence.segment);
}

void Intake::fetch(const NextRequest& next) {
  const TransformerConfig& config = model_.config();
  const int64_t most = session_.device() == Device::cpu ? kEncodeTokens : kEncodeTokensOnDevice;
  Rows source;
  for (int32_t count = 0; count < places_ && source.size() < most; ++count) {
    std::optional<SearchRequest> request = next();
    if (!request) break;
    check_request(*request, options_, config);
    source.add_sequence(request->source, {.slot = count});
    const int64_t limit = limit_of(*request, options_, config);
    waiting_.push_back(std::make_unique<Sentence>(std::move(*request), options_, limit));
  }
  if (waiting_.empty() || config.decoder_only()) return;
  // A device keeps what comes again: calls of few different sizes.
  if (session_.device() != Device::cpu) source.add_filler(padding_of(source.size()));
  std::vector<int32_t> segments;
  session_.step([&] {
    session_.reset();
    for (const int32_t segment : segments) encoded_.release(segment);  // those of a walk
    segments = encoded_.add(model_, source, session_);
  });
  for (size_t i = 0; i < waiting_.size(); ++i) waiting_[i]->segment = segments[i];
}

void release_slots(Sentence& sentence, Session& session) {
  for (const int32_t slot : sentence.slots) session.cache.release(slot);
  sentence.slots.clear();
}

void start(Sentence& sentence, std::span<const float> log_probs) {
  for (size_t i = 0; i < log_probs.size(); ++i) {
    require(!std::isnan(log_probs[i]), ErrorCode::bad_format, "search: request ",
            sentence.request.number, ": the model's log-probability of prefix token ", i,
            " is NaN");
  }
  sentence.hypotheses.start(sentence.request.prefix, log_probs);
}

void advance(Sentence& sentence, std::span<const std::vector<Choice>> choices,
             const SearchTrace& trace) {
  for (const std::vector<Choice>& choice : choices) {
    require(!choice.empty(), ErrorCode::bad_format, "search: request ", sentence.request.number,
            ": the model gives no allowed token a probability at position ",
            sentence.hypotheses.length(), " (NaN, or all forbidden)");
  }
  if (!trace) {
    sentence.hypotheses.advance(choices);
    return;
  }
  SearchStep step{sentence.request.number, sentence.hypotheses.length(), {}};
  sentence.hypotheses.advance(choices, &step.candidates);
  trace(step);
}

}  // namespace tril
