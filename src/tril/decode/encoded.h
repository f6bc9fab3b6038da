// The encoded source sentences of a search: sentences are added and released one by one. Internal
// to decode/.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tril/models/transformer.h"

namespace tril {

class EncodedSentences {
 public:
  // Encodes the source sequences with slots 0, 1, ... and returns their segments.
  std::vector<int32_t> add(const Transformer& model, const Rows& source, Session& session) {
    if (memory_) return model.encode_into(*memory_, source, session);
    memory_ = model.encode(source, session);
    std::vector<int32_t> segments;
    for (int32_t segment = 0; memory_->holds(segment); ++segment) segments.push_back(segment);
    return segments;
  }
  void release(int32_t segment) { memory_->release(segment); }
  // Empty before the first sentence, as a decoder-only model expects it.
  const Memory& memory() const {
    static const Memory none;
    return memory_ ? *memory_ : none;
  }

 private:
  std::optional<Memory> memory_;
};

}  // namespace tril
