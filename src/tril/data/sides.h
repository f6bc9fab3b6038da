// Which side of a corpus a text resembles: a guard against files given the wrong way round.
//
// Pieces are counted on both sides of a corpus, those of the source's vocabulary on either. A
// text's lean is the mean over its pieces of
//   log p(piece | source) - log p(piece | target),
// with each count plus one: above zero it resembles the source. Two languages differ by several
// nats, two sides in one language by next to nothing.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tril/data/corpus.h"
#include "tril/text/tokenizer.h"

namespace tril {

class Sides {
 public:
  Sides(const Corpus& corpus, const Tokenizer& tokenizer);

  // Whether both sides of `other`, or one of them, clearly resemble the opposite side of this
  // corpus.
  enum class Verdict { fine, one_odd, swapped };
  Verdict judge(const Corpus& other, const Tokenizer& tokenizer) const;

 private:
  enum class Side { source, target };
  template <class F>
  static void each_piece(const Corpus& corpus, Side side, const Tokenizer& tokenizer, const F& f);
  double lean(const Corpus& other, Side side, const Tokenizer& tokenizer) const;

  std::array<std::vector<int64_t>, 2> counts_;  // by piece
  std::array<int64_t, 2> totals_{};
};

}  // namespace tril
