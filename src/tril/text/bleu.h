// BLEU of a corpus (Papineni et al., ACL 2002), as sacreBLEU 2.6.0 computes it: the same tokens,
// counts and precisions, and a score that is the same but for the last bits of its logarithms
// (base/math.h instead of a C library's).
//
//   BleuStatistics statistics;
//   while (...) statistics.add(hypothesis, reference);
//   std::string line = to_string(bleu(statistics));
//
// Only the statistics of a corpus are kept, and those of its parts add up. Text is UTF-8, one
// segment per call; case matters. An object belongs to one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tril/text/scoring.h"

namespace tril {

// How a segment is cut into tokens.
enum class BleuTokenizer {
  v13a,       // as in mteval-v13a: Western punctuation; the usual one
  intl,       // as in mteval-v14: every punctuation mark and symbol of Unicode
  character,  // every character except white space
  none,       // split at white space only
};

// What replaces a precision of zero.
enum class BleuSmoothing {
  exponential,  // 1/2, 1/4, ... of a match, at each zero in turn
  floor,        // `value` of a match
  add_k,        // `value` is added to all matches and totals of orders above one
  none,         // nothing: the score is zero
};

constexpr int kBleuOrders = 4;

struct BleuStatistics {
  BleuTokenizer tokenizer = BleuTokenizer::v13a;
  int64_t segments = 0;
  ReferenceCount references{};
  // In tokens; the reference length is that of the reference nearest in length, the shorter of two.
  int64_t hypothesis_length = 0;
  int64_t reference_length = 0;
  // N-grams of order i + 1 in the hypotheses: those also in a reference, and all.
  std::array<int64_t, kBleuOrders> matches{};
  std::array<int64_t, kBleuOrders> totals{};

  // One segment. Raises `invalid_argument`, and adds nothing, for text that is not UTF-8 (naming
  // the byte) and for no reference at all.
  void add(std::string_view hypothesis, std::span<const std::string_view> reference_texts);
  void add(std::string_view hypothesis, std::string_view reference);
  // Adds another part of the corpus. Raises `invalid_argument` when its tokenizer differs.
  void add(const BleuStatistics& other);
};

struct BleuScore {
  double score = 0.0;                            // 0 to 100
  std::array<double, kBleuOrders> precisions{};  // in percent, smoothed
  double brevity_penalty = 0.0;
  BleuStatistics statistics{};
  BleuSmoothing smoothing = BleuSmoothing::exponential;
  double smoothing_value = 0.0;  // 0 where the method has none
};

// Raises `invalid_argument` when the statistics hold no segment, for a value that is negative or
// not finite, and for one where the method takes none. Without a value: 0.1 for floor, 1 for add_k.
BleuScore bleu(const BleuStatistics& statistics,
               BleuSmoothing smoothing = BleuSmoothing::exponential,
               std::optional<double> smoothing_value = std::nullopt);

// The tokens of a segment, separated by blanks. Raises like add().
std::string bleu_tokens(std::string_view segment, BleuTokenizer tokenizer);

// How the score was computed: nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:tril.0.1.0
std::string signature(const BleuScore& score);
// sacreBLEU's line: BLEU|<signature> = 38.12 66.0/45.1/... (BP = 0.980 ratio = ... ref_len = 102)
std::string to_string(const BleuScore& score);

}  // namespace tril
