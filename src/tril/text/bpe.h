// Byte pair encoding with dropout, over the pieces of a SentencePiece model.
//
// A word begins as its characters; of all neighbours that together are a piece, the pair with the
// best score is merged first, the leftmost of equals, until none is left. With dropout each pair is
// skipped with a probability, drawn again before every merge, and a word is done when all its pairs
// were skipped at once (Provilkov et al., arXiv 1910.13267, algorithm 1). Without dropout the
// result equals SentencePiece's, id for id. Any number of threads may use one.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tril/base/rng.h"
#include "tril/text/model_file.h"

namespace tril {

class BpeMerger {
 public:
  // Whether words can be merged one by one, because no piece continues after a blank.
  static bool fits(const std::vector<ModelPiece>& pieces);
  // The pieces must fit; their texts are referred to.
  explicit BpeMerger(const std::vector<ModelPiece>& pieces);

  // Appends the ids of a normalised text, in which a blank is U+2581 and begins a word.
  void encode(std::string_view text, double dropout, Random& random,
              std::vector<int32_t>& ids) const;

 private:
  struct Piece {
    int32_t id = 0;
    float score = 0.0f;
    bool merges = false;  // consists of characters; not a control token or a byte
  };
  class Word;

  std::unordered_map<std::string_view, Piece> pieces_;
  std::array<int32_t, 256> byte_ids_{};
};

}  // namespace tril
