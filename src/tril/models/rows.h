// Rows: what a Transformer is called with. A row is one token of one sequence at one position.
//
// Training lays whole sentences end to end; decoding gives one row a sequence; prefill gives a few.
// The model cannot tell them apart, which is the point. Rows of a sequence stand side by side in
// ascending order. Filler rows (slot -1) pad a batch to a fixed size: they see nothing, nothing
// sees them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tril {

struct Rows {
  std::vector<int32_t> tokens;
  std::vector<int32_t> slots;  // which sequence: a slot of the cache, or any number under a tape
  std::vector<int32_t> positions;  // in that sequence
  std::vector<int32_t> segments;   // which encoded sentence cross-attention sees; -1: none
  std::vector<int32_t> sentences;  // number of the sentence in the corpus, for dropout
  int32_t prefix = 0;              // prefix-LM: the first `prefix` positions see each other

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
  void clear();
  void reserve(int64_t rows);

  void add(int32_t token, int32_t slot, int32_t position, int32_t segment = -1,
           int32_t sentence = 0);
  // A stretch of one sequence from position `first` on.
  void add_sequence(std::span<const int32_t> sequence, int32_t slot, int32_t segment = -1,
                    int32_t first = 0, int32_t sentence = 0);
  void add_filler(int64_t rows);
};

}  // namespace tril
