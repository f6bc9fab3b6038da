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
  // The most pairs to learn from, spread evenly over the corpus: they are held in memory as tokens.
  int64_t most_pairs = 1'000'000;
  int threads = 0;  // 0: all cores
  // The current activity and its progress: pairs tokenized, rounds learnt. May be empty.
  std::function<void(std::string_view what, int64_t done, int64_t all)> progress{};
};

// The quality of a shortlist can only be seen on pairs it was not learnt from: of the others it
// covers nearly everything. So a tenth of the pairs, at most 1,000, is left out of a first learning
// and measured; the shortlist itself is then learnt from all.
struct ShortlistReport {
  int64_t pairs = 0;       // learnt from
  int64_t measured = 0;    // left out and measured; 0 if there are fewer than ten pairs
  double mean_size = 0.0;  // pieces per set of these
  double covered = 0.0;    // the share of their target pieces that is in their sets
};

// Every source piece is also listed for itself, so that names and digits can be copied. Raises
// `invalid_argument` for options out of range, and for a corpus without a source. The same corpus,
// tokenizer and options give the same shortlist, whatever the threads. With a report it takes twice
// the time.
Shortlist learn_shortlist(const Corpus& corpus, const Tokenizer& tokenizer,
                          const ShortlistOptions& options, ShortlistReport* report = nullptr);

}  // namespace tril
