// The table of training against inference, each cell with evidence from this model and one
// sentence.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tril/prove/pairs.h"

namespace tril {

struct TableEvidence {
  // The same weights. FNV-1a of all parameters in memory, before and after the sentence went both
  // ways; and one weight changed for a moment: how many logits of each way moved with it.
  uint64_t weights_before = 0, weights_after = 0;
  int64_t tensors = 0;
  std::string nudged;  // the parameter whose first weight was changed
  int64_t logits = 0;  // of the sentence, each way
  int64_t moved_in_training = 0, moved_in_inference = 0;

  // The same mask: the keys each row was given, first and one behind the last, as the model's first
  // layer got them; counted from the sentence's start.
  struct Seen {
    int64_t begin = 0, end = 0;
    bool operator==(const Seen&) const = default;
  };
  std::vector<Seen> mask_in_training, mask_in_inference;

  // What is needed: rows whose logits change when the mask is taken off: in the training pass; in
  // inference when what was written so far comes in one call; and when a token comes alone.
  int64_t unmasked_training_rows = 0, unmasked_call_rows = 0, unmasked_step_rows = 0;

  // What goes in. In training the sentence as it is; what the model predicted after each token. In
  // inference, greedily, START and what it wrote.
  std::vector<int32_t> fed_in_training, predicted_in_training, fed_in_inference;
  int64_t corrected = 0;  // positions whose prediction was not what was then fed

  // Calls of forward() for the sentence, counted in the model, and rows in them.
  int64_t training_calls = 0, training_rows = 0;
  int64_t inference_calls = 0, inference_rows = 0;  // for fed_in_inference

  bool same_weights() const;
  bool same_mask() const { return mask_in_training == mask_in_inference; }
  bool mask_needed() const { return unmasked_training_rows > 0 && unmasked_call_rows > 0; }
  bool calls_as_stated() const;
  bool holds() const { return same_weights() && same_mask() && mask_needed() && calls_as_stated(); }
};

// Uses the session's masking and hooks. Changes one weight and puts it back, so no other thread may
// use the model meanwhile. The target must have two tokens or more: one alone has no future.
TableEvidence gather_table(const Transformer& model, const TokenPair& pair, int64_t max_tokens,
                           int32_t end, Session& session);

}  // namespace tril
