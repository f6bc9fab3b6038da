// Rows: what a Transformer is called with. A row is one token of one sequence at one position.
//
// Training lays whole sentences end to end; decoding gives one row per sequence; prefill gives a
// few. The model cannot tell them apart, which is the point. The rows of a sequence are consecutive
// and in ascending order. Padding rows (slot -1) fill a batch up to a fixed size: they see nothing,
// and nothing sees them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tril {

// Where consecutive tokens of a sequence belong.
struct Place {
  int32_t slot = 0;      // which sequence: a slot of the cache, or any number under a tape
  int32_t segment = -1;  // which encoded sentence cross-attention sees; -1: none
  int32_t first = 0;     // position of the first token in its sequence
  int32_t sentence = 0;  // number of the sentence in the corpus, for dropout
  int32_t prefix = 0;    // prefix LM: this many first positions of the sequence see each other
};

struct Rows {
  // One entry per row.
  std::vector<int32_t> tokens, slots, segments, positions, sentences, prefixes;

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
  void clear();

  void add(int32_t token, const Place& place);
  // Consecutive positions from place.first on.
  void add_sequence(std::span<const int32_t> sequence, const Place& place);
  void add_filler(int64_t rows);
};

}  // namespace tril
