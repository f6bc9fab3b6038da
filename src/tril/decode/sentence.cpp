#include "tril/decode/sentence.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "tril/base/caught.h"
#include "tril/decode/ahead_backend.h"
#include "tril/decode/tokens.h"
#include "tril/models/session_state.h"

namespace tril {
namespace {

// The most tokens of a target. Token i is predicted at position i; without START one before.
int64_t most_tokens(const SearchOptions& o, const TransformerConfig& c) {
  return c.max_length + (o.start ? 0 : 1);
}

// The number of tokens that may be chosen after the prefix.
int64_t limit_of(const SearchRequest& r, const SearchOptions& o, const TransformerConfig& c) {
  int64_t limit = most_tokens(o, c) - static_cast<int64_t>(r.prefix.size());
  if (o.max_tokens > 0) limit = std::min(limit, std::max<int64_t>(1, o.max_tokens - r.forced));
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
  if (o.start) check.special("start", *o.start);
  require(o.start || config.decoder_only(), ErrorCode::invalid_argument,
          "search: no START, but the model has an encoder: its targets need one");
  check.special("end", o.end);
  for (const int32_t token : o.more_ends) check.special("end", token);
  for (const int32_t token : o.forbidden) check.special("forbidden", token);
  for (const auto& sequence : o.forbidden_sequences) {
    for (const int32_t token : sequence) check.special("forbidden", token);
    require(sequence.size() > 1, ErrorCode::invalid_argument, "search: a forbidden sequence of ",
            sequence.size(), " tokens, expected two or more");
  }
  require(!o.forced_end || o.is_end(*o.forced_end), ErrorCode::invalid_argument,
          "search: forced_end is token ", o.forced_end.value_or(0), ", which is not an END");
  if (o.shortlist) {
    o.shortlist->check_fits("search", config);
    std::vector<int32_t> ends = o.more_ends;
    ends.push_back(o.end);
    for (const int32_t end : ends) {
      require(o.shortlist->always(end), ErrorCode::invalid_argument, "search: END, token ", end,
              ", is not in every set of the shortlist");
    }
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
  require(!o.sample || o.beam == 1, ErrorCode::invalid_argument, Field{"sample"},
          "search: sampling needs a beam of 1, got ", o.beam);
  require(std::isfinite(o.length_penalty), ErrorCode::invalid_argument,
          "search: length_penalty must be finite, got ", o.length_penalty);
  require(o.max_tokens >= 0, ErrorCode::invalid_argument,
          "search: max_tokens must be at least 0, got ", o.max_tokens);
  require(o.min_tokens >= 0, ErrorCode::invalid_argument,
          "search: min_tokens must be at least 0, got ", o.min_tokens);
  require(o.no_repeat_ngram >= 0, ErrorCode::invalid_argument,
          "search: no_repeat_ngram must be at least 0, got ", o.no_repeat_ngram);
  require(o.repetition_penalty > 0.0 && std::isfinite(o.repetition_penalty),
          ErrorCode::invalid_argument, "search: repetition_penalty must be above 0, got ",
          o.repetition_penalty);
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
  require(o.start || !r.prefix.empty(), ErrorCode::invalid_argument, "search: request ", r.number,
          ": the model has no START: it needs a text to continue");
  require(r.forced >= 0 && r.forced <= static_cast<int64_t>(r.prefix.size()),
          ErrorCode::invalid_argument, "search: request ", r.number, ": ", r.forced,
          " forced tokens in a prefix of ", r.prefix.size());
  require(static_cast<int64_t>(r.prefix.size()) < most_tokens(o, c), ErrorCode::invalid_argument,
          "search: request ", r.number, ": the prefix has ", r.prefix.size(),
          " tokens, the model's max_length of ", c.max_length, " leaves no room for another");
  check.in_vocabulary("prefix", r.prefix, c.target_vocab);
  const auto end = std::find_if(r.prefix.begin(), r.prefix.end(),
                                [&](int32_t token) { return o.is_end(token); });
  require(end == r.prefix.end(), ErrorCode::invalid_argument, "search: request ", r.number,
          ": END at ", end - r.prefix.begin(), " of the prefix: nothing can follow");
}

void release_slots(Sentence& sentence, Session& session) {
  for (const int32_t slot : sentence.slots) session->cache.release(slot);
  sentence.slots.clear();
}

std::span<const int32_t> predicted(const Sentence& sentence) {
  return std::span(sentence.request.prefix).subspan(sentence.search().start ? 0 : 1);
}

void start(Sentence& sentence, std::span<const float> log_probs) {
  const SearchRequest& request = sentence.request;
  const size_t given = request.prefix.size() - log_probs.size();
  for (size_t i = 0; i < log_probs.size(); ++i) {
    if (!std::isnan(log_probs[i])) continue;
    throw SentenceFault(
        ErrorCode::bad_format,
        concat("search: request ", request.number, ": the model's log-probability of prefix token ",
               given + i, " is NaN"));
  }
  if (given == 0) {
    sentence.hypotheses.start(request.prefix, log_probs, request.forced);
  } else {
    std::vector<float> all(given, 0.0f);
    all.insert(all.end(), log_probs.begin(), log_probs.end());
    sentence.hypotheses.start(request.prefix, all, request.forced);
  }
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
