// A shortlist from parallel text: the lexicon of its pieces (data/lexicon.h), cut to the best few.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "tril/data/corpus.h"
#include "tril/decode/shortlist.h"
#include "tril/text/tokenizer.h"

namespace tril {

struct ShortlistOptions {
  int64_t best = 50;       // target pieces listed for a source piece
  int64_t frequent = 100;  // most frequent target pieces, which are in every set
  int64_t rounds = 5;      // of learning the lexicon
  // Pairs learnt from at most, spread evenly over the corpus: they lie in memory as tokens.
  int64_t most_pairs = 1'000'000;
  int threads = 0;  // 0: all cores
  // What is being done now, and how far it is: so many pairs cut into pieces, so many rounds
  // learnt. May be empty.
  std::function<void(std::string_view what, int64_t done, int64_t all)> progress{};
};

// How good a shortlist is shows on pairs it was not learnt from: of those it was, it holds nearly
// everything, whatever it is worth. So a tenth of the pairs, 1,000 at most, is left out of a first
// learning and measured; the shortlist itself is then learnt from all.
struct ShortlistReport {
  int64_t pairs = 0;       // learnt from
  int64_t measured = 0;    // left out and measured; 0 where there are fewer than ten pairs
  double mean_size = 0.0;  // pieces in the set of one of these
  double covered = 0.0;    // the share of their target pieces that their sets hold
};

// Every source piece is listed for itself too, so that what is copied, as names and digits are, can
// be. Raises `invalid_argument` for options out of range, and for a corpus without a source. The
// same corpus, tokenizer and options give the same shortlist, whatever the threads. Where a report
// is asked for it takes twice the time.
Shortlist learn_shortlist(const Corpus& corpus, const Tokenizer& tokenizer,
                          const ShortlistOptions& options, ShortlistReport* report = nullptr);

}  // namespace tril
