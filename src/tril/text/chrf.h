// chrF and chrF++ of a corpus (Popović, WMT 2015 and 2017), as sacreBLEU 2.6.0 computes them, to
// the last bit: orders that a segment is too short for do not count, beta is 2.
//
//   ChrfStatistics statistics{.word_orders = 2};  // chrF++; without: chrF
//   while (...) statistics.add(hypothesis, reference);
//   std::string line = to_string(chrf(statistics));
//
// Characters are code points other than white space. Words are cut at white space, and one mark of
// ASCII punctuation is cut off a word: its last character, or else its first.
// Only the statistics of a corpus are kept, and those of its parts add up. Text is UTF-8, one
// segment per call; case matters. An object belongs to one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tril/text/scoring.h"

namespace tril {

constexpr int kChrfCharacterOrders = 6;
constexpr int kChrfMaxWordOrders = 2;

struct ChrfStatistics {
  // Counts of one order; the hypothesis counts only where the reference has n-grams of that order
  // at all.
  struct Counts {
    int64_t hypothesis = 0;
    int64_t reference = 0;
    int64_t matches = 0;
  };

  int word_orders = 0;  // 0 to 2
  int64_t segments = 0;
  ReferenceCount references{};
  // Orders of characters from one, then orders of words from one; each segment is counted against
  // the reference that scores it best, the first of several.
  std::array<Counts, kChrfCharacterOrders + kChrfMaxWordOrders> counts{};

  // One segment. Raises `invalid_argument`, and adds nothing, for text that is not UTF-8 (naming
  // the byte), for no reference at all, and for a number of word orders out of range.
  void add(std::string_view hypothesis, std::span<const std::string_view> reference_texts);
  void add(std::string_view hypothesis, std::string_view reference);
  // Adds another part of the corpus. Raises `invalid_argument` when its word orders differ.
  void add(const ChrfStatistics& other);
};

struct ChrfScore {
  double score = 0.0;      // 0 to 100
  double precision = 0.0;  // 0 to 1, mean over the orders that count
  double recall = 0.0;     // likewise
  ChrfStatistics statistics{};
};

// Raises `invalid_argument` when the statistics hold no segment.
ChrfScore chrf(const ChrfStatistics& statistics);

// How the score was computed: nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:tril.0.1.0
std::string signature(const ChrfScore& score);
// sacreBLEU's line: chrF2|<signature> = 61.23; chrF2++ with two word orders
std::string to_string(const ChrfScore& score);

}  // namespace tril
