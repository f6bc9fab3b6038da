#include "tril/models/rows.h"

namespace tril {

void Rows::clear() {
  for (auto* column : {&tokens, &slots, &positions, &segments, &sentences}) column->clear();
  prefix = 0;
}

void Rows::reserve(int64_t rows) {
  for (auto* column : {&tokens, &slots, &positions, &segments, &sentences}) {
    column->reserve(static_cast<size_t>(rows));
  }
}

void Rows::add(int32_t token, int32_t slot, int32_t position, int32_t segment, int32_t sentence) {
  tokens.push_back(token);
  slots.push_back(slot);
  positions.push_back(position);
  segments.push_back(segment);
  sentences.push_back(sentence);
}

void Rows::add_sequence(std::span<const int32_t> sequence, int32_t slot, int32_t segment,
                        int32_t first, int32_t sentence) {
  for (const int32_t token : sequence) add(token, slot, first++, segment, sentence);
}

void Rows::add_filler(int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) add(0, -1, 0);
}

}  // namespace tril
