// A request on its way through the engine: its options, its state, and its hypotheses so far.
// Internal to decode/.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tril/decode/engine.h"
#include "tril/decode/hypotheses.h"
#include "tril/models/output_part.h"
#include "tril/ops/choice.h"

namespace tril {

// Which tokens of the whole vocabulary may be chosen, in the form each backend reads. Requests that
// forbid the same tokens share it.
struct TokenSet {
  TokenSet(int64_t vocab, std::vector<int32_t> without)
      : forbidden(std::move(without)), allowed(vocab, forbidden), bits(vocab, forbidden) {}

  const std::vector<int32_t> forbidden;
  const AllowedTokens allowed;
  const ops::TokenBits bits;
};

// Which tokens may be chosen depends on how many were: not END yet, all that are not forbidden, or
// END alone.
enum class Stage : uint8_t { begins, goes_on, ends };
constexpr size_t kStages = 3;

// Options that were checked against the model. Requests with the same options share them.
struct CheckedOptions {
  std::shared_ptr<const SearchOptions> search;
  std::shared_ptr<const TokenSet> tokens[kStages];  // by stage; null where there is none such

  const TokenSet& at(Stage stage) const { return *tokens[static_cast<size_t>(stage)]; }
};

// The tokens and output weights of a sentence with a shortlist.
struct ShortlistTokens {
  OutputPart part;
  std::optional<AllowedTokens> allowed[kStages];  // as in CheckedOptions
};

struct Sentence {
  Sentence(RequestId number, SearchRequest&& given, std::shared_ptr<const CheckedOptions> how,
           const TransformerConfig& config);
  // If a sentence is lost because there is no memory to keep it, its request is told that it
  // failed.
  ~Sentence();
  Sentence(const Sentence&) = delete;
  Sentence& operator=(const Sentence&) = delete;

  // Calls `done`, once: later calls do nothing.
  void tell(RequestOutcome&& outcome);

  const SearchOptions& search() const { return *options->search; }
  int64_t width() const { return search().width(); }
  // Streamed separately; beam search has one, its best result.
  size_t samples() const { return search().sample ? static_cast<size_t>(search().n_best) : 1; }
  // Tokens of source and prefix: the cost of its first step.
  int64_t tokens_to_read() const {
    return static_cast<int64_t>(request.source.size() + request.prefix.size()) + 1;
  }
  // Which tokens may be chosen after as many chosen ones.
  Stage stage(int64_t chosen) const {
    if (search().forced_end && chosen + 1 == limit) return Stage::ends;
    return request.forced + chosen < search().min_tokens ? Stage::begins : Stage::goes_on;
  }
  // The position of the last of as many tokens, which the model reads to predict the next.
  int64_t position(int64_t tokens) const { return search().start ? tokens : tokens - 1; }
  // By each hypothesis so far.
  int64_t tokens_generated() const {
    return started ? hypotheses.length() - static_cast<int64_t>(request.prefix.size()) : 0;
  }

  RequestId id;
  SearchRequest request;
  std::shared_ptr<const CheckedOptions> options;
  RequestTerms terms{};
  RequestEvents events{};
  int64_t limit;  // number of tokens that may be chosen after the prefix
  Hypotheses hypotheses;
  bool encoded = false;  // ready to be decoded; with a decoder-only model there is nothing to do
  int32_t segment = -1;  // its encoded source; -1: not encoded yet, or no source
  bool popped = false;   // its turn has come (FairQueue)
  // While it is being decoded: the slots of its hypotheses (one for the prefix before the first
  // step), whether the prefix was read, and its tokens if it has a shortlist.
  std::vector<int32_t> slots{};
  bool started = false;
  std::unique_ptr<ShortlistTokens> shortlist{};
  std::optional<SearchStep> traced{};  // a step that `events.step` was not told yet
  size_t first_row = 0;                // of its rows in that step
  std::unique_ptr<Sentence> next{};    // in the list of requests that fail together
  // The number of tokens streamed so far, by sample.
  std::vector<size_t> streamed{};
};

// What one sentence alone does wrong in a step: it fails, and the others go on.
class SentenceFault : public Error {
 public:
  using Error::Error;
};

// Raises `invalid_argument` naming the option, or `unsupported` for one that this model, or the
// device it is on, does not have.
void check_options(const SearchOptions& options, const Transformer& model);
// Raises `invalid_argument` naming the request.
void check_request(const SearchRequest& request, const SearchOptions& options,
                   const TransformerConfig& config);

// Releases everything the sentence has of the session's cache.
void release_slots(Sentence& sentence, Session& session);
// The tokens of the prefix that are predicted: all, or without START all but the first.
std::span<const int32_t> predicted(const Sentence& sentence);
// To be called when the prefix was read, with the log-probabilities of those. Throws a
// SentenceFault, `bad_format`, naming the request if one is NaN.
void start(Sentence& sentence, std::span<const float> log_probs);
// One step of a sentence: choices[i] are those of its i-th alive hypothesis. Throws a
// SentenceFault, `bad_format`, naming the request if there are none.
void advance(Sentence& sentence, std::span<const std::vector<Choice>> choices);

}  // namespace tril
