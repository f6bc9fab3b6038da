// Lexicon: which target pieces translate a source piece, learnt from pairs of sentences.
//
// IBM model 1 (Brown et al., "The Mathematics of Statistical Machine Translation", 1993): each
// target piece comes from one source piece of its sentence; which one is unknown. Rounds of
// expectation and maximisation find t(target | source), starting from t = 1 everywhere:
//   share of e in f, for a pair = t(f | e) / sum of t(f | e') over the source pieces e' of the pair
//   t(f | e) = shares of e in f over all pairs, divided by the shares of e in anything
// For each source piece only the kLexiconCandidates target pieces that occur with it most often are
// considered, which bounds the memory. Sums are in double, and each is made by one thread in the
// order of the pairs, so the lexicon has the same bits on any number of threads and any machine.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace tril {

// Pairs of sentences in tokens. The source should end with END, as models read it: being in every
// sentence, it accounts for what no other piece explains.
class TokenPairs {
 public:
  void add(std::span<const int32_t> source, std::span<const int32_t> target);

  int64_t size() const { return static_cast<int64_t>(source_begins_.size()) - 1; }
  std::span<const int32_t> source(int64_t pair) const {
    return part(source_, source_begins_, pair);
  }
  std::span<const int32_t> target(int64_t pair) const {
    return part(target_, target_begins_, pair);
  }
  // The index of the pair's first target token among all target tokens.
  int64_t target_begin(int64_t pair) const { return target_begins_[static_cast<size_t>(pair)]; }
  int64_t target_tokens() const { return target_begins_.back(); }

 private:
  static std::span<const int32_t> part(const std::vector<int32_t>& tokens,
                                       const std::vector<int64_t>& begins, int64_t pair) {
    const auto at = static_cast<size_t>(pair);
    return std::span(tokens).subspan(static_cast<size_t>(begins[at]),
                                     static_cast<size_t>(begins[at + 1] - begins[at]));
  }
  std::vector<int32_t> source_, target_;
  std::vector<int64_t> source_begins_{0}, target_begins_{0};
};

constexpr int64_t kLexiconCandidates = 1000;

struct LexiconOptions {
  int64_t best = 50;   // target pieces kept for a source piece
  int64_t rounds = 5;  // of expectation and maximisation
  int threads = 0;     // 0: all cores
  // Called after each round; may be empty.
  std::function<void(int64_t round)> progress{};
};

struct LexiconEntry {
  int32_t target = 0;
  float probability = 0.0f;  // t(target | source), above 0
  bool operator==(const LexiconEntry&) const = default;
};
// By source token: its likeliest target tokens, the lower token first at equal probability. Empty
// for a token that does not occur.
using Lexicon = std::vector<std::vector<LexiconEntry>>;

// Raises `invalid_argument` for no pairs, for tokens that are not below the vocabularies, and for
// best or rounds below 1.
Lexicon learn_lexicon(const TokenPairs& pairs, int64_t source_vocab, int64_t target_vocab,
                      const LexiconOptions& options);

}  // namespace tril
