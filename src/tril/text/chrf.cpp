#include "tril/text/chrf.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "tril/base/error.h"
#include "tril/text/ngrams.h"
#include "tril/text/unicode.h"

namespace tril {
namespace {

constexpr double kBetaSquared = 4.0;

using AllCounts = decltype(ChrfStatistics::counts);

void check_word_orders(int orders) {
  require(orders >= 0 && orders <= kChrfMaxWordOrders, ErrorCode::invalid_argument,
          "chrf: expected 0 to ", kChrfMaxWordOrders, " word orders, got ", orders);
}

Symbols characters_of(std::string_view text) {
  Symbols characters;
  for (const char32_t c : decode_utf8(text)) {
    if (!is_white_space(c)) characters.push_back(c);
  }
  return characters;
}

bool is_ascii_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (const std::string_view word : split_words(text)) {
    // A punctuation mark that is the whole word stays; bytes suffice, since the marks are ASCII.
    if (word.size() > 1 && is_ascii_punctuation(word.back())) {
      words.push_back(word.substr(0, word.size() - 1));
      words.push_back(word.substr(word.size() - 1));
    } else if (word.size() > 1 && is_ascii_punctuation(word.front())) {
      words.push_back(word.substr(0, 1));
      words.push_back(word.substr(1));
    } else {
      words.push_back(word);
    }
  }
  return words;
}

// Adds the counts of each order, from `first` on, for sequence 0 against each of the others.
void add_counts(std::span<const Symbols> sequences, int orders, size_t first,
                std::span<AllCounts> by_reference) {
  count_ngrams(sequences, orders, [&](int order, std::span<const int64_t> counts) {
    for (size_t r = 0; r < by_reference.size(); ++r) {
      ChrfStatistics::Counts& sum = by_reference[r][first + static_cast<size_t>(order - 1)];
      sum.hypothesis += counts[0];
      sum.reference += counts[r + 1];
      sum.matches += std::min(counts[0], counts[r + 1]);
    }
  });
}

struct Mean {
  double precision = 0.0, recall = 0.0, score = 0.0;
};

// The same operations as in sacreBLEU, so that the bits are the same. Unused orders hold zeros and
// do not count.
Mean mean_score(const AllCounts& all) {
  Mean mean;
  int orders = 0;
  for (const ChrfStatistics::Counts& counts : all) {
    if (counts.hypothesis == 0 || counts.reference == 0) continue;
    const auto matches = static_cast<double>(counts.matches);
    mean.precision += matches / static_cast<double>(counts.hypothesis);
    mean.recall += matches / static_cast<double>(counts.reference);
    ++orders;
  }
  if (orders == 0) return mean;
  mean.precision /= orders;
  mean.recall /= orders;
  if (mean.precision + mean.recall == 0.0) return mean;
  const double product = (1.0 + kBetaSquared) * mean.precision * mean.recall;
  mean.score = 100.0 * (product / (kBetaSquared * mean.precision + mean.recall));
  return mean;
}

}  // namespace

void ChrfStatistics::add(std::string_view hypothesis,
                         std::span<const std::string_view> reference_texts) {
  check_word_orders(word_orders);
  check_segment("chrf", hypothesis, reference_texts);
  std::vector<Symbols> characters{characters_of(hypothesis)};
  std::vector<std::vector<std::string_view>> words{words_of(hypothesis)};
  for (const std::string_view reference : reference_texts) {
    characters.push_back(characters_of(reference));
    words.push_back(words_of(reference));
  }
  std::vector<AllCounts> by_reference(reference_texts.size());
  add_counts(characters, kChrfCharacterOrders, 0, by_reference);
  if (word_orders > 0) {
    add_counts(number_words(words), word_orders, kChrfCharacterOrders, by_reference);
  }

  const auto count = static_cast<int64_t>(reference_texts.size());
  ChrfStatistics segment{.word_orders = word_orders, .segments = 1, .references = {count, count}};
  double best = -1.0;
  for (AllCounts& all : by_reference) {
    for (Counts& order : all) {
      if (order.reference == 0) order.hypothesis = 0;
    }
    const double score = mean_score(all).score;
    if (score > best) {
      best = score;
      segment.counts = all;
    }
  }
  add(segment);
}

void ChrfStatistics::add(std::string_view hypothesis, std::string_view reference) {
  add(hypothesis, std::span(&reference, 1));
}

void ChrfStatistics::add(const ChrfStatistics& other) {
  require(word_orders == other.word_orders, ErrorCode::invalid_argument, "chrf: statistics of ",
          word_orders, " word orders cannot take those of ", other.word_orders);
  segments += other.segments;
  references.add(other.references);
  for (size_t i = 0; i < counts.size(); ++i) {
    counts[i].hypothesis += other.counts[i].hypothesis;
    counts[i].reference += other.counts[i].reference;
    counts[i].matches += other.counts[i].matches;
  }
}

ChrfScore chrf(const ChrfStatistics& statistics) {
  require(statistics.segments > 0, ErrorCode::invalid_argument,
          "chrf: expected at least one segment, got none");
  const Mean mean = mean_score(statistics.counts);
  return {.score = mean.score,
          .precision = mean.precision,
          .recall = mean.recall,
          .statistics = statistics};
}

std::string signature(const ChrfScore& score) {
  return concat("nrefs:", score.statistics.references,
                "|case:mixed|eff:yes|nc:", kChrfCharacterOrders,
                "|nw:", score.statistics.word_orders, "|space:no|version:", score_version());
}

std::string to_string(const ChrfScore& score) {
  return concat("chrF2", std::string(static_cast<size_t>(score.statistics.word_orders), '+'), '|',
                signature(score), " = ", fixed(score.score, 2));
}

}  // namespace tril
