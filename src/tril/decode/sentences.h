// Requests on their way through a search: fetched, checked, encoded many at a time, waiting for
// slots, and then being decoded. Internal to decode/.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "tril/decode/encoded.h"
#include "tril/decode/hypotheses.h"
#include "tril/decode/search.h"

namespace tril {

// How many hypotheses of a request may be alive at once.
inline int64_t width_of(const SearchOptions& o) { return o.sample ? o.n_best : o.beam; }

// The tokens a sentence is translated with, where there is a shortlist.
struct SentenceTokens {
  OutputPart part;
  AllowedTokens allowed;
};

struct Sentence {
  Sentence(SearchRequest&& given, const SearchOptions& options, int64_t most)
      : request(std::move(given)), limit(most), hypotheses(options, most) {}

  SearchRequest request;
  int64_t limit;         // how many tokens may be chosen after the prefix
  int32_t segment = -1;  // where it was encoded
  Hypotheses hypotheses;
  // While it is being decoded: the slots of its hypotheses, one for the prefix before the first
  // step; whether the prefix was read; and its tokens, none for the whole vocabulary.
  std::vector<int32_t> slots{};
  bool started = false;
  std::unique_ptr<SentenceTokens> tokens{};
};

class Intake {
 public:
  // `places`: sentences that can be decoded at once. All given here must outlive this; what was
  // taken and not released stays among the encoded.
  Intake(const Transformer& model, const SearchOptions& options, int64_t places,
         EncodedSentences& encoded, Session& session)
      : model_(model), options_(options), places_(places), encoded_(encoded), session_(session) {}
  ~Intake() {
    for (const auto& sentence : waiting_) release(*sentence);
  }
  Intake(const Intake&) = delete;
  Intake& operator=(const Intake&) = delete;

  // The next sentence, encoded; null when none is there now. When none waits, as many as could be
  // decoded at once are fetched and encoded together: one call for many costs far less than one
  // for each.
  std::unique_ptr<Sentence> take(const NextRequest& next);
  void release(const Sentence& sentence);
  // Nothing that waits will be taken any more; what was encoded is no concern of this.
  void abandon() { waiting_.clear(); }
  const Memory& memory() const { return encoded_.memory(); }

 private:
  void fetch(const NextRequest& next);

  const Transformer& model_;
  const SearchOptions& options_;
  const int64_t places_;
  EncodedSentences& encoded_;
  Session& session_;
  std::deque<std::unique_ptr<Sentence>> waiting_;
};

// Gives back all that the sentence has of the session's cache.
void release_slots(Sentence& sentence, Session& session);
// One step of a sentence: choices[i] are those of its i-th alive hypothesis. Raises `bad_format`
// naming the request where there are none.
void advance(Sentence& sentence, std::span<const std::vector<Choice>> choices,
             const SearchTrace& trace);
// The prefix was read, and these are the log-probabilities of its tokens.
void start(Sentence& sentence, std::span<const float> log_probs);

}  // namespace tril
