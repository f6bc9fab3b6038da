#include "tril/tensor/rows.h"

namespace tril {

void Rows::clear() {
  for (auto* column : {&tokens, &slots, &segments, &positions, &sentences, &prefixes}) {
    column->clear();
  }
}

void Rows::add(int32_t token, const Place& place) {
  tokens.push_back(token);
  slots.push_back(place.slot);
  segments.push_back(place.segment);
  positions.push_back(place.first);
  sentences.push_back(place.sentence);
  prefixes.push_back(place.prefix);
}

void Rows::add_sequence(std::span<const int32_t> sequence, const Place& place) {
  Place at = place;
  for (const int32_t token : sequence) {
    add(token, at);
    ++at.first;
  }
}

void Rows::add_filler(int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) add(0, {.slot = -1});
}

}  // namespace tril
