// The hypotheses of one sentence during the search: which are alive, which have finished, and how a
// step leads to the next. Knows nothing of models or caches. Internal to decode/.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tril/decode/choice.h"

namespace tril {

class Hypotheses {
 public:
  // `limit` is the number of tokens that may be chosen after the prefix, at least 1.
  Hypotheses(const SearchOptions& options, int64_t limit) : options_(&options), limit_(limit) {}

  // Sets the prefix, the first `forced` tokens of which are forced, and its tokens'
  // log-probabilities; afterwards one hypothesis is alive.
  void start(std::span<const int32_t> prefix, std::span<const float> log_probs, int64_t forced);

  struct Alive {
    int32_t node = -1;   // its last token in the history; -1: none yet
    double score = 0.0;  // the sum of its values
    int64_t sample = 0;  // which sample it is, in sampling
    size_t parent = 0;   // its index among the alive hypotheses of the step before
    int32_t token = 0;   // the last token: what the model reads next
  };
  std::span<const Alive> alive() const { return alive_; }
  // The number of tokens of each alive hypothesis; and how many of them were chosen.
  int64_t length() const { return length_; }
  int64_t chosen() const { return chosen_; }
  // Appends the tokens of alive()[index].
  void append_tokens(size_t index, std::vector<int32_t>& tokens) const;

  // One step: choices[i] are the continuations of alive()[i], best first (in sampling one draw for
  // each sample), none of them empty. Returns false when the sentence is done: then none is alive.
  // `traced`, where given, receives what became of each candidate.
  bool advance(std::span<const std::vector<Choice>> choices,
               std::vector<SearchStep::Candidate>* traced = nullptr);

  // Appends the tokens, from index `first` on, that the result is certain to begin with: in
  // sampling all of this sample's, in beam search those on which all hypotheses, alive and
  // finished, agree.
  void certain(int64_t sample, size_t first, std::vector<int32_t>& tokens,
               std::vector<float>& log_probs) const;

  // The results, once done.
  std::vector<Hypothesis> take();

 private:
  struct Node {
    int32_t parent;
    int32_t token;
    float log_prob;
  };
  struct Finished {
    int64_t sample;
    Hypothesis hypothesis;
  };
  struct Candidate {
    size_t parent;
    size_t place;  // among the choices of its parent
    double score;
  };

  using Traced = std::vector<SearchStep::Candidate>;
  void advance_beam(std::span<const std::vector<Choice>> choices, Traced* traced);
  void advance_samples(std::span<const std::vector<Choice>> choices, Traced* traced);
  void keep(size_t parent, const Choice& choice, int64_t sample);
  enum class Ending { ended, cut };
  void finish(const Alive& last, Ending ending);
  int32_t remember(int32_t parent, const Choice& choice);
  bool at_limit() const { return chosen_ == limit_; }
  // What a choice adds to the sum of its hypothesis.
  double value_of(const Choice& choice) const {
    return at_limit() && options_->forced_end ? 0.0 : double{choice.value};
  }
  double rank_of(double sum, int64_t length) const;
  bool enough_finished();

  const SearchOptions* options_;
  int64_t limit_;
  int64_t chosen_ = 0;
  int64_t length_ = 0;
  double unranked_sum_ = 0.0;  // of the prefix: what does not count in the rank
  int64_t unranked_length_ = 0;
  std::vector<double> ranks_;
  std::vector<Node> history_;  // a tree: hypotheses share what they have in common
  std::vector<Alive> alive_, next_;
  std::vector<Finished> finished_;
  std::vector<Candidate> candidates_;
};

}  // namespace tril
