#include "tril/text/ngrams.h"

#include <map>
#include <set>
#include <string>

#include "support/property.h"

namespace tril::ngrams_test {
namespace {

// How often each n-gram occurs in each sequence, found by checking every position.
std::map<Symbols, std::vector<int64_t>> counts_by_looking(const std::vector<Symbols>& sequences,
                                                          size_t order) {
  std::map<Symbols, std::vector<int64_t>> counts;
  for (size_t s = 0; s < sequences.size(); ++s) {
    const Symbols& sequence = sequences[s];
    for (size_t i = 0; i + order <= sequence.size(); ++i) {
      const auto begin = sequence.begin() + static_cast<std::ptrdiff_t>(i);
      std::vector<int64_t>& of_ngram =
          counts
              .try_emplace(Symbols(begin, begin + static_cast<std::ptrdiff_t>(order)),
                           sequences.size())
              .first->second;
      ++of_ngram[s];
    }
  }
  return counts;
}

RC_GTEST_PROP(Ngrams, CountsAreThoseOfLooking, ()) {
  const auto symbol = rc::gen::element<uint32_t>(0, 1, 2, 0x10FFFF, UINT32_MAX);
  const auto sequences =
      *rc::gen::container<std::vector<Symbols>>(rc::gen::container<Symbols>(symbol));
  const int max_order = *rc::gen::inRange(0, 7);
  std::map<int, std::multiset<std::vector<int64_t>>> visited, expected;
  int last = 0;
  count_ngrams(sequences, max_order, [&](int order, std::span<const int64_t> counts) {
    RC_ASSERT(order >= last);
    last = order;
    visited[order].insert({counts.begin(), counts.end()});
  });
  for (int order = 1; order <= max_order; ++order) {
    for (const auto& [ngram, counts] : counts_by_looking(sequences, static_cast<size_t>(order))) {
      expected[order].insert(counts);
    }
  }
  RC_ASSERT(visited == expected);
}

RC_GTEST_PROP(Ngrams, WordsHaveOneNumberEach, ()) {
  const auto words = *rc::gen::container<std::vector<std::string>>(
      rc::gen::element<std::string>("", "a", "b", "aa", "ab"));
  const auto half = static_cast<std::ptrdiff_t>(words.size() / 2);
  const std::vector<std::vector<std::string_view>> sequences{{words.begin(), words.begin() + half},
                                                             {words.begin() + half, words.end()}};
  const std::vector<Symbols> numbered = number_words(sequences);
  RC_ASSERT(numbered.size() == 2u);
  Symbols all = numbered[0];
  all.insert(all.end(), numbered[1].begin(), numbered[1].end());
  RC_ASSERT(all.size() == words.size());
  RC_ASSERT(numbered[0].size() == sequences[0].size());
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < i; ++j) RC_ASSERT((all[i] == all[j]) == (words[i] == words[j]));
  }
}

}  // namespace
}  // namespace tril::ngrams_test
