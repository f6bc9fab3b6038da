// The best tokens of rows of logits, chosen on the GPU where the logits are. CUDA only: on the CPU
// decode/choice.h chooses from log-probabilities.
#pragma once

#include <span>
#include <vector>

#include "tril/tensor/context.h"
#include "tril/tensor/tensor.h"

namespace tril::ops {

// Which tokens of a vocabulary may be chosen, one bit per token.
class TokenBits {
 public:
  TokenBits(int64_t vocab, std::span<const int32_t> forbidden);
  int64_t vocab() const { return vocab_; }
  bool operator[](int64_t token) const {
    return (words_[static_cast<size_t>(token / 32)] >> (token % 32) & 1u) != 0;
  }
  std::span<const uint32_t> words() const { return words_; }

 private:
  int64_t vocab_;
  std::vector<uint32_t> words_;
};

// The tokens that each row may choose from: one of a few sets, all of the same vocabulary.
struct AllowedByRow {
  std::vector<const TokenBits*> sets{};  // at least one
  std::vector<int32_t> set_of_row{};     // empty if there is only one set

  int64_t vocab() const { return sets.front()->vocab(); }
};
// The same on the device.
struct UploadedSets {
  const uint32_t* words = nullptr;
  int64_t words_per_set = 0;
  const int32_t* set_of_row = nullptr;  // null: the first for all
};
UploadedSets uploaded_sets(Context& context, const AllowedByRow& allowed, int64_t rows);

struct ChosenTokens {
  Tensor tokens;     // i32 [row, count]; -1 if there are no more
  Tensor log_probs;  // [row, count], largest first, the lower token first at equal ones
  Tensor wanted;     // [row]: the log-probability of wanted[row]; 0 for none
};
// logits [row, vocab], or LinearOutput::padded_sums. NaN and tokens without a probability are never
// chosen. wanted[row] is -1 for none.
ChosenTokens choose_tokens(Context& context, const Tensor& logits, const AllowedByRow& allowed,
                           int64_t count, const Mirrored<int32_t>& wanted);

}  // namespace tril::ops
