// The likeliest token that may be written, as greedy search chooses it. Internal to lesson/.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tril/text/tokenizer.h"

namespace tril {

class Writable {
 public:
  explicit Writable(const Tokenizer& tokenizer)
      : allowed_(static_cast<size_t>(tokenizer.vocab()), 1) {
    for (const int32_t token : tokenizer.unwritable()) allowed_[static_cast<size_t>(token)] = 0;
  }

  // The lower one of equally likely tokens.
  int32_t likeliest(std::span<const float> log_probs) const {
    size_t best = allowed_.size();
    for (size_t token = 0; token < allowed_.size(); ++token) {
      if (allowed_[token] == 0) continue;
      if (best == allowed_.size() || log_probs[token] > log_probs[best]) best = token;
    }
    return static_cast<int32_t>(best);
  }

 private:
  std::vector<uint8_t> allowed_;  // one entry per token
};

}  // namespace tril
