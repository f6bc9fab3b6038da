#include "tril/data/lexicon.h"

#include <algorithm>

#include "tril/base/error.h"
#include "tril/base/parallel.h"
#include "tril/base/rounding.h"

namespace tril {
namespace {

// A target piece that may come from a source piece.
struct Candidate {
  int32_t target;
  float probability;
};
using Candidates = std::vector<Candidate>;  // ascending by target

// Numbers indexed by target token, all zero between two uses.
template <class Number>
struct Scratch {
  std::vector<Number> at;
  std::vector<int32_t> touched;
};

void check_tokens(std::span<const int32_t> tokens, int64_t vocab, std::string_view what,
                  int64_t pair) {
  for (const int32_t token : tokens) {
    require(token >= 0 && token < vocab, ErrorCode::invalid_argument, "lexicon: pair ", pair, ": ",
            what, " token ", token, " is not below the vocabulary of ", vocab);
  }
}

class Learner {
 public:
  Learner(const TokenPairs& pairs, int64_t source_vocab, int64_t target_vocab, int threads)
      : pairs_(pairs),
        parallel_(threads),
        target_vocab_(static_cast<size_t>(target_vocab)),
        occurrences_(static_cast<size_t>(source_vocab)),
        candidates_(static_cast<size_t>(source_vocab)),
        inverse_(static_cast<size_t>(pairs.target_tokens())) {
    for (int64_t pair = 0; pair < pairs.size(); ++pair) {
      for (const int32_t piece : pairs.source(pair)) {
        occurrences_[static_cast<size_t>(piece)].push_back(static_cast<int32_t>(pair));
      }
    }
    find_candidates();
  }

  void round() {
    const auto blocks = (pairs_.size() + kBlock - 1) / kBlock;
    parallel_(blocks, [&](int64_t block) {
      const int64_t end = std::min(pairs_.size(), (block + 1) * kBlock);
      for (int64_t pair = block * kBlock; pair < end; ++pair) explain(pair);
    });
    std::vector<Scratch<double>> scratch(static_cast<size_t>(parallel_.threads()));
    for (auto& s : scratch) s.at.assign(target_vocab_, 0.0);
    parallel_(static_cast<int64_t>(candidates_.size()), [&](int64_t piece, int worker) {
      collect(static_cast<size_t>(piece), scratch[static_cast<size_t>(worker)].at);
    });
  }

  Lexicon best(int64_t count) const {
    Lexicon lexicon(candidates_.size());
    for (size_t piece = 0; piece < candidates_.size(); ++piece) {
      Candidates ranked = candidates_[piece];
      std::erase_if(ranked, [](const Candidate& c) { return !(c.probability > 0.0f); });
      const auto kept = std::min(ranked.size(), static_cast<size_t>(count));
      std::partial_sort(ranked.begin(), ranked.begin() + static_cast<ptrdiff_t>(kept), ranked.end(),
                        [](const Candidate& a, const Candidate& b) {
                          return a.probability != b.probability ? a.probability > b.probability
                                                                : a.target < b.target;
                        });
      for (size_t i = 0; i < kept; ++i) {
        lexicon[piece].push_back({ranked[i].target, ranked[i].probability});
      }
    }
    return lexicon;
  }

 private:
  static constexpr int64_t kBlock = 256;  // pairs in a task

  // The target pieces that occur most often together with each source piece.
  void find_candidates() {
    std::vector<Scratch<int32_t>> scratch(static_cast<size_t>(parallel_.threads()));
    // All memory is allocated here, because an exception may not leave a task.
    for (auto& s : scratch) {
      s.at.assign(target_vocab_, 0);
      s.touched.reserve(target_vocab_);
    }
    const auto most = std::min(static_cast<size_t>(kLexiconCandidates), target_vocab_);
    for (size_t piece = 0; piece < candidates_.size(); ++piece) {
      size_t beside = 0;
      for (const int32_t pair : occurrences_[piece]) {
        beside += pairs_.target(pair).size();
        if (beside >= most) break;
      }
      candidates_[piece].reserve(std::min(beside, most));
    }
    parallel_(static_cast<int64_t>(candidates_.size()), [&](int64_t piece, int worker) {
      std::vector<int32_t>& counts = scratch[static_cast<size_t>(worker)].at;
      std::vector<int32_t>& touched = scratch[static_cast<size_t>(worker)].touched;
      touched.clear();
      int32_t last = -1;
      for (const int32_t pair : occurrences_[static_cast<size_t>(piece)]) {
        if (pair == last) continue;  // twice in one sentence
        last = pair;
        for (const int32_t target : pairs_.target(pair)) {
          if (counts[static_cast<size_t>(target)]++ == 0) touched.push_back(target);
        }
      }
      const auto kept = static_cast<ptrdiff_t>(std::min(touched.size(), most));
      std::partial_sort(touched.begin(), touched.begin() + kept, touched.end(),
                        [&](int32_t a, int32_t b) {
                          const int32_t in_a = counts[static_cast<size_t>(a)];
                          const int32_t in_b = counts[static_cast<size_t>(b)];
                          return in_a != in_b ? in_a > in_b : a < b;
                        });
      for (const int32_t target : touched) counts[static_cast<size_t>(target)] = 0;
      std::sort(touched.begin(), touched.begin() + kept);
      Candidates& list = candidates_[static_cast<size_t>(piece)];
      for (ptrdiff_t i = 0; i < kept; ++i) {
        list.push_back({touched[static_cast<size_t>(i)], 1.0f});
      }
    });
  }

  float probability(int32_t source, int32_t target) const {
    const Candidates& list = candidates_[static_cast<size_t>(source)];
    const auto found =
        std::lower_bound(list.begin(), list.end(), target,
                         [](const Candidate& c, int32_t value) { return c.target < value; });
    return found != list.end() && found->target == target ? found->probability : 0.0f;
  }

  // For each target piece of a pair: 1 / sum over its source of t(target | source).
  void explain(int64_t pair) {
    auto at = static_cast<size_t>(pairs_.target_begin(pair));
    for (const int32_t target : pairs_.target(pair)) {
      double sum = 0.0;
      for (const int32_t source : pairs_.source(pair)) sum += double{probability(source, target)};
      inverse_[at++] = sum > 0.0 ? static_cast<float>(1.0 / sum) : 0.0f;
    }
  }

  // A source piece's new probabilities from its shares in all pairs, in their order.
  void collect(size_t piece, std::vector<double>& shares) {
    Candidates& list = candidates_[piece];
    for (const int32_t pair : occurrences_[piece]) {
      auto at = static_cast<size_t>(pairs_.target_begin(pair));
      for (const int32_t target : pairs_.target(pair)) {
        shares[static_cast<size_t>(target)] += double{inverse_[at++]};
      }
    }
    double total = 0.0;
    for (const Candidate& c : list) {
      total += double{c.probability} * shares[static_cast<size_t>(c.target)];
    }
    for (Candidate& c : list) {
      const double count = double{c.probability} * shares[static_cast<size_t>(c.target)];
      c.probability = total > 0.0 ? static_cast<float>(count / total) : 0.0f;
    }
    for (const int32_t pair : occurrences_[piece]) {
      for (const int32_t target : pairs_.target(pair)) shares[static_cast<size_t>(target)] = 0.0;
    }
  }

  const TokenPairs& pairs_;
  const Parallel parallel_;
  const size_t target_vocab_;
  std::vector<std::vector<int32_t>> occurrences_;  // by source piece: its pairs, ascending
  std::vector<Candidates> candidates_;             // by source piece
  std::vector<float> inverse_;                     // by target token of all pairs
};

}  // namespace

void TokenPairs::add(std::span<const int32_t> source, std::span<const int32_t> target) {
  source_.insert(source_.end(), source.begin(), source.end());
  target_.insert(target_.end(), target.begin(), target.end());
  source_begins_.push_back(static_cast<int64_t>(source_.size()));
  target_begins_.push_back(static_cast<int64_t>(target_.size()));
}

Lexicon learn_lexicon(const TokenPairs& pairs, int64_t source_vocab, int64_t target_vocab,
                      const LexiconOptions& options) {
  const StandardRounding rounding;
  constexpr int64_t kMostPairs = int64_t{1} << 30;
  require(pairs.size() >= 1, ErrorCode::invalid_argument, "lexicon: no pairs to learn from");
  require(pairs.size() <= kMostPairs, ErrorCode::invalid_argument, "lexicon: ", pairs.size(),
          " pairs, ", kMostPairs, " at most");
  require(options.best >= 1, ErrorCode::invalid_argument, "lexicon: best must be at least 1, got ",
          options.best);
  require(options.rounds >= 1, ErrorCode::invalid_argument,
          "lexicon: rounds must be at least 1, got ", options.rounds);
  for (int64_t pair = 0; pair < pairs.size(); ++pair) {
    check_tokens(pairs.source(pair), source_vocab, "source", pair);
    check_tokens(pairs.target(pair), target_vocab, "target", pair);
  }
  Learner learner(pairs, source_vocab, target_vocab, options.threads);
  for (int64_t round = 1; round <= options.rounds; ++round) {
    learner.round();
    if (options.progress) options.progress(round);
  }
  return learner.best(options.best);
}

}  // namespace tril
