// The lexicon on texts whose translations are known, and against the plain formula.
#include "tril/data/lexicon.h"

#include <cmath>
#include <map>

#include "support/property.h"
#include "support/testing.h"
#include "tril/base/cpu.h"

namespace tril::lexicon_test {
namespace {

using testing::raised_by;
using Tokens = std::vector<int32_t>;
using Pairs = std::vector<std::pair<Tokens, Tokens>>;

TokenPairs token_pairs(const Pairs& pairs) {
  TokenPairs result;
  for (const auto& [source, target] : pairs) result.add(source, target);
  return result;
}

// "das haus" the house, "das buch" the book, "ein buch" a book: the example every course uses.
TEST(Lexicon, FindsTheTranslationsOfAToyCorpus) {
  enum Source { das, haus, buch, ein };
  enum Target { the, house, book, a };
  const TokenPairs pairs = token_pairs(
      {{{das, haus}, {the, house}}, {{das, buch}, {the, book}}, {{ein, buch}, {a, book}}});
  const Lexicon lexicon = learn_lexicon(pairs, 4, 4, {.best = 2, .rounds = 20});
  EXPECT_EQ(lexicon[das][0].target, the);
  EXPECT_EQ(lexicon[haus][0].target, house);
  EXPECT_EQ(lexicon[buch][0].target, book);
  EXPECT_EQ(lexicon[ein][0].target, a);
  for (const auto& entries : lexicon) EXPECT_GT(entries[0].probability, 0.95f);
}

// A dictionary hidden in random sentences, beside an END that is in all of them.
TEST(Lexicon, FindsAHiddenDictionary) {
  constexpr int32_t kWords = 200, kEnd = 0;
  Random random(5);
  const auto draw = [&](uint32_t below) { return static_cast<int32_t>(random.below(below)); };
  TokenPairs pairs;
  for (int i = 0; i < 3000; ++i) {
    Tokens source, target;
    for (int32_t j = 3 + draw(8); j > 0; --j) {
      source.push_back(1 + draw(kWords));
      target.insert(target.begin(), (source.back() * 7) % (kWords + 1));  // another order
    }
    source.push_back(kEnd);
    pairs.add(source, target);
  }
  const Lexicon lexicon = learn_lexicon(pairs, kWords + 1, kWords + 1, {.best = 3});
  for (int32_t word = 1; word <= kWords; ++word) {
    ASSERT_FALSE(lexicon[static_cast<size_t>(word)].empty());
    EXPECT_EQ(lexicon[static_cast<size_t>(word)][0].target, (word * 7) % (kWords + 1));
  }
}

Pairs random_pairs(int32_t source_vocab, int32_t target_vocab) {
  const auto tokens = [](int32_t vocab) {
    return *rc::gen::container<Tokens>(static_cast<size_t>(*rc::gen::inRange(0, 9)),
                                       rc::gen::inRange<int32_t>(0, vocab));
  };
  Pairs pairs(static_cast<size_t>(*rc::gen::inRange(1, 30)));
  for (auto& [source, target] : pairs) {
    source = tokens(source_vocab);
    target = tokens(target_vocab);
  }
  return pairs;
}

// The formulas of the header in double, with a table for every pair of tokens.
RC_GTEST_PROP(Lexicon, IsThePlainFormula, ()) {
  constexpr int32_t kSource = 12, kTarget = 15;
  const Pairs pairs = random_pairs(kSource, kTarget);
  const int64_t rounds = *rc::gen::inRange(1, 5);
  std::map<int32_t, std::map<int32_t, double>> t;
  for (const auto& [source, target] : pairs) {
    for (const int32_t e : source) {
      for (const int32_t f : target) t[e][f] = 1.0;
    }
  }
  for (int64_t round = 0; round < rounds; ++round) {
    std::map<int32_t, std::map<int32_t, double>> shares;
    for (const auto& [source, target] : pairs) {
      for (const int32_t f : target) {
        double sum = 0.0;
        for (const int32_t e : source) sum += t[e][f];
        for (const int32_t e : source) shares[e][f] += t[e][f] / sum;
      }
    }
    for (auto& [e, of_e] : shares) {
      double total = 0.0;
      for (const auto& [f, share] : of_e) total += share;
      for (const auto& [f, share] : of_e) t[e][f] = share / total;
    }
  }
  const Lexicon lexicon =
      learn_lexicon(token_pairs(pairs), kSource, kTarget, {.best = kTarget, .rounds = rounds});
  RC_ASSERT(lexicon.size() == size_t{kSource});
  for (int32_t e = 0; e < kSource; ++e) {
    const auto& entries = lexicon[static_cast<size_t>(e)];
    RC_ASSERT(entries.size() == t[e].size());
    for (size_t i = 0; i < entries.size(); ++i) {
      const double expected = t[e].at(entries[i].target);
      // With probabilities off by b, relatively, sums over them are too, so a share is off by 2b
      // and u, for its sum's inverse is rounded to float; a ratio of such by 4b and 2u, and it is
      // rounded as well. What double adds, and products of errors, are far below another u.
      double bound = 0.0;
      for (int64_t round = 0; round < rounds; ++round) bound = 4.0 * bound + 4.0 * testing::kUnit;
      RC_ASSERT(std::abs(double{entries[i].probability} - expected) <= bound * expected);
      if (i == 0) continue;
      const LexiconEntry& before = entries[i - 1];
      RC_ASSERT(
          before.probability > entries[i].probability ||
          (before.probability == entries[i].probability && before.target < entries[i].target));
    }
  }
}

RC_GTEST_PROP(Lexicon, IsTheSameWhateverTheThreadsAndCutToTheBest, ()) {
  const TokenPairs pairs = token_pairs(random_pairs(40, 50));
  const Lexicon all = learn_lexicon(pairs, 40, 50, {.best = 50, .threads = 1});
  for (const int threads : {2, 5}) {
    RC_ASSERT(learn_lexicon(pairs, 40, 50, {.best = 50, .threads = threads}) == all);
  }
  const Lexicon few = learn_lexicon(pairs, 40, 50, {.best = 3, .threads = 2});
  for (size_t piece = 0; piece < all.size(); ++piece) {
    const size_t kept = std::min<size_t>(3, all[piece].size());
    RC_ASSERT(std::vector(all[piece].begin(), all[piece].begin() + static_cast<ptrdiff_t>(kept)) ==
              few[piece]);
  }
}

// Only a limited number of target pieces is considered for a source piece: those it occurs with
// most often.
TEST(Lexicon, CandidatesAreTheMostFrequent) {
  constexpr int32_t kVocab = 1500;
  TokenPairs pairs;
  for (int32_t token = 0; token < kVocab; ++token) {
    const Tokens source = {0};
    pairs.add(source, Tokens{token});
    if (token >= 100) pairs.add(source, Tokens{token});  // all but the first hundred twice
  }
  const Lexicon lexicon = learn_lexicon(pairs, 1, kVocab, {.best = kVocab});
  ASSERT_EQ(lexicon[0].size(), static_cast<size_t>(kLexiconCandidates));
  for (size_t i = 0; i < lexicon[0].size(); ++i) {
    EXPECT_EQ(lexicon[0][i].target, static_cast<int32_t>(i) + 100);
  }
}

TEST(Lexicon, ArgumentsAreChecked) {
  const TokenPairs pairs = token_pairs({{{1}, {2}}});
  const auto text = [](const auto& call) {
    const auto raised = raised_by(call);
    EXPECT_EQ(raised.code, ErrorCode::invalid_argument);
    return raised.text;
  };
  EXPECT_EQ(text([&] { learn_lexicon({}, 3, 3, {}); }), "lexicon: no pairs to learn from");
  EXPECT_EQ(text([&] { learn_lexicon(pairs, 1, 3, {}); }),
            "lexicon: pair 0: source token 1 is not below the vocabulary of 1");
  EXPECT_EQ(text([&] { learn_lexicon(pairs, 3, 2, {}); }),
            "lexicon: pair 0: target token 2 is not below the vocabulary of 2");
  EXPECT_EQ(text([&] { learn_lexicon(pairs, 3, 3, {.best = 0}); }),
            "lexicon: best must be at least 1, got 0");
  EXPECT_EQ(text([&] { learn_lexicon(pairs, 3, 3, {.rounds = 0}); }),
            "lexicon: rounds must be at least 1, got 0");
}

}  // namespace
}  // namespace tril::lexicon_test
