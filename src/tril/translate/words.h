// From pieces to words: word alignments in the Pharaoh format.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tril/decode/alignment.h"

namespace tril {

// The word each piece belongs to, counted from 0; -1 for a piece of blanks only. A word begins
// where SentencePiece writes a blank ("▁"), and at the first piece: "▁The", "▁dog", "s" belong to
// the words 0, 1, 1, as in the text split at blanks.
std::vector<int32_t> words_of(std::span<const std::string> pieces);

struct WordLink {
  int32_t source = 0;
  int32_t target = 0;
  bool operator==(const WordLink&) const = default;
};

// For each target word the source word it attends to most, the lower one at equal weights: weights
// are added over the pieces of a word. Words and alignment belong to the same tokens; tokens of the
// alignment beyond the given words (END) are ignored. Sorted by source, then target.
std::vector<WordLink> link_words(const Alignment& alignment, std::span<const int32_t> source_words,
                                 std::span<const int32_t> target_words);

// "0-0 1-2": source word, hyphen, target word.
std::string to_pharaoh(std::span<const WordLink> links);

}  // namespace tril
