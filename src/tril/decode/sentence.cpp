#include "tril/decode/sentence.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "tril/base/caught.h"
#include "tril/decode/ahead_backend.h"
#include "tril/decode/tokens.h"

namespace tril {
namespace {

// The number of tokens that may be chosen after the prefix. Token i is predicted at position i, so
// a model emits at most max_length tokens.
int64_t limit_of(const SearchRequest& r, const SearchOptions& o, const TransformerConfig& c) {
  int64_t limit = c.max_length - static_cast<int64_t>(r.prefix.size());
  if (o.max_tokens > 0) limit = std::min(limit, o.max_tokens);
  if (c.decoder_only() || o.max_ratio == 0.0) return limit;
  const double by_ratio = o.max_ratio * static_cast<double>(r.source.size()) + 10.0;
  if (by_ratio < static_cast<double>(limit)) limit = static_cast<int64_t>(by_ratio);
  return limit;
}

}  // namespace

Sentence::Sentence(RequestId number, SearchRequest&& given,
                   std::shared_ptr<const CheckedOptions> how, const TransformerConfig& config)
    : id(number),
      request(std::move(given)),
      options(std::move(how)),
      limit(limit_of(request, *options->search, config)),
      hypotheses(*options->search, limit) {}

Sentence::~Sentence() {
  if (!events.done) return;
  try {
    tell({.id = id,
          .number = request.number,
          .end = RequestEnd::failed,
          .hypotheses = {},
          .error = error_of(std::bad_alloc())});
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): there is nobody to tell
  }
}

void Sentence::tell(RequestOutcome&& outcome) {
  if (const auto done = std::exchange(events.done, nullptr)) done(std::move(outcome));
}

void check_options(const SearchOptions& o, const Transformer& model) {
  constexpr int64_t kMost = int64_t{1} << 20;
  const TransformerConfig& config = model.config();
  const TokenCheck check{"search", config};
  check.special("start", o.start);
  check.special("end", o.end);
  for (const int32_t token : o.forbidden) check.special("forbidden", token);
  if (o.shortlist) {
    o.shortlist->check_fits("search", config);
    require(o.shortlist->always(o.end), ErrorCode::invalid_argument, "search: END, token ", o.end,
            ", is not in every set of the shortlist");
    const Device& device = model.placement().device;
    require(!can_choose_tokens(device), ErrorCode::unsupported,
            "search: a shortlist, but the model is on ", device,
            ": outputs can be chosen on the CPU only");
  }
  require(o.beam >= 1 && o.beam <= kMost, ErrorCode::invalid_argument,
          "search: beam must be from 1 to ", kMost, ", got ", o.beam);
  require(o.n_best >= 1 && o.n_best <= kMost, ErrorCode::invalid_argument,
          "search: n_best must be from 1 to ", kMost, ", got ", o.n_best);
  require(o.sample || o.n_best <= o.beam, ErrorCode::invalid_argument, Field{"beam"},
          "search: ", o.n_best, " best translations from a beam of ", o.beam);
  require(!o.sample || o.beam == 1, ErrorCode::invalid_argument,
          "search: sampling needs a beam of 1, got ", o.beam);
  require(std::isfinite(o.length_penalty), ErrorCode::invalid_argument,
          "search: length_penalty must be finite, got ", o.length_penalty);
  require(o.max_tokens >= 0, ErrorCode::invalid_argument,
          "search: max_tokens must be at least 0, got ", o.max_tokens);
  require(o.max_ratio >= 0.0, ErrorCode::invalid_argument,
          "search: max_ratio must be at least 0, got ", o.max_ratio);
  require(o.temperature > 0.0 && std::isfinite(o.temperature), ErrorCode::invalid_argument,
          "search: temperature must be above 0, got ", o.temperature);
  require(o.top_k >= 0, ErrorCode::invalid_argument, "search: top_k must be at least 0, got ",
          o.top_k);
  require(o.top_p > 0.0 && o.top_p <= 1.0, ErrorCode::invalid_argument,
          "search: top_p must be above 0 and at most 1, got ", o.top_p);
}

void check_request(const SearchRequest& r, const SearchOptions& o, const TransformerConfig& c) {
  const TokenCheck check{"search", c, r.number};
  check.source(r.source);
  require(static_cast<int64_t>(r.prefix.size()) < c.max_length, ErrorCode::invalid_argument,
          "search: request ", r.number, ": the prefix has ", r.prefix.size(),
          " tokens, the model's max_length of ", c.max_length, " leaves no room for another");
  check.in_vocabulary("prefix", r.prefix, c.target_vocab);
  const auto end = std::find(r.prefix.begin(), r.prefix.end(), o.end);
  require(end == r.prefix.end(), ErrorCode::invalid_argument, "search: request ", r.number,
          ": END at ", end - r.prefix.begin(), " of the prefix: nothing can follow");
}

void release_slots(Sentence& sentence, Session& session) {
  for (const int32_t slot : sentence.slots) session.cache.release(slot);
  sentence.slots.clear();
}

void start(Sentence& sentence, std::span<const float> log_probs) {
  for (size_t i = 0; i < log_probs.size(); ++i) {
    if (!std::isnan(log_probs[i])) continue;
    throw SentenceFault(ErrorCode::bad_format,
                        concat("search: request ", sentence.request.number,
                               ": the model's log-probability of prefix token ", i, " is NaN"));
  }
  sentence.hypotheses.start(sentence.request.prefix, log_probs);
  sentence.started = true;
}

void advance(Sentence& sentence, std::span<const std::vector<Choice>> choices) {
  for (const std::vector<Choice>& choice : choices) {
    if (!choice.empty()) continue;
    throw SentenceFault(ErrorCode::bad_format,
                        concat("search: request ", sentence.request.number,
                               ": the model gives no allowed token a probability at position ",
                               sentence.hypotheses.length(), " (NaN, or all forbidden)"));
  }
  if (!sentence.events.step) {
    sentence.hypotheses.advance(choices);
    return;
  }
  sentence.traced = {sentence.request.number, sentence.hypotheses.length(), {}};
  sentence.hypotheses.advance(choices, &sentence.traced->candidates);
}

}  // namespace tril
