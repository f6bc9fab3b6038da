// The table that compares training and inference, each cell with evidence from this model and one
// sentence.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tril/prove/pairs.h"

namespace tril {

struct TableEvidence {
  // The same weights. FNV-1a of all parameters in memory, before and after the sentence went both
  // ways; and one weight changed for a moment: how many logits of each way changed with it.
  uint64_t weights_before = 0, weights_after = 0;
  int64_t tensors = 0;
  std::string nudged;  // the parameter whose first weight was changed
  int64_t logits = 0;  // of the sentence, in each way
  int64_t moved_in_training = 0, moved_in_inference = 0;

  // The same mask: the keys each row was given, as the first and one past the last, as the model's
  // first layer received them; counted from the sentence's start.
  struct Seen {
    int64_t begin = 0, end = 0;
    bool operator==(const Seen&) const = default;
  };
  std::vector<Seen> mask_in_training, mask_in_inference;

  // Where the mask is needed: rows whose logits change when it is removed, in the training pass; in
  // inference when everything written so far comes in one call; and when each token comes alone.
  int64_t unmasked_training_rows = 0, unmasked_call_rows = 0, unmasked_step_rows = 0;

  // What goes in, as the model received it, and what it predicts after each token: the likeliest of
  // the tokens it may write, the lower one at equal probability. In training the sentence goes in;
  // in inference, greedily, START and what it wrote.
  std::vector<int32_t> given;  // the sentence
  std::vector<int32_t> fed_in_training, predicted_in_training;
  std::vector<int32_t> fed_in_inference, predicted_in_inference;
  int64_t mistaken = 0;   // positions in training whose prediction is not the next token
  int64_t followed = 0;   // of these, where the prediction was fed in all the same
  int64_t forced = 0;     // tokens fed in inference after START because they must come first
  int64_t own_words = 0;  // tokens fed in inference, after these, that had just been predicted

  // Calls of forward() for the sentence, counted in the model, and their rows.
  int64_t training_calls = 0, training_rows = 0;
  int64_t inference_calls = 0, inference_rows = 0;  // for fed_in_inference

  bool weights_untouched() const { return weights_before == weights_after; }
  bool same_weights() const {
    return weights_untouched() && moved_in_training > 0 && moved_in_inference > 0;
  }
  bool same_mask() const {
    return !mask_in_training.empty() && mask_in_training == mask_in_inference;
  }
  bool mask_needed_in_training() const { return unmasked_training_rows > 0; }
  bool mask_needed_in_inference() const { return unmasked_call_rows > 0; }
  bool mask_needed() const { return mask_needed_in_training() && mask_needed_in_inference(); }
  // In training the given tokens go in, whatever was predicted; in inference the predictions do.
  bool teacher_forced() const { return fed_in_training == given && followed == 0; }
  bool reads_what_it_wrote() const {
    return !fed_in_inference.empty() &&
           own_words == static_cast<int64_t>(fed_in_inference.size()) - 1 - forced;
  }
  bool one_call() const;      // in training, for all positions
  bool call_a_token() const;  // in inference, of one row; what is forced comes with START
  bool calls_as_stated() const { return one_call() && call_a_token(); }
  bool holds() const {
    return same_weights() && same_mask() && mask_needed() && teacher_forced() &&
           reads_what_it_wrote() && calls_as_stated();
  }
};

// How the model writes: see SearchOptions. START is the target's first token.
struct TableOptions {
  int64_t max_tokens = 12;
  std::vector<int32_t> forced{};
  int32_t end = 3;
  std::vector<int32_t> forbidden{};
};

// Uses the session's masking and hooks. The weight that is changed to see both phases follow it
// belongs to a copy of the model. The target must have at least two tokens: one alone has no
// future.
TableEvidence gather_table(const Transformer& model, const TokenPair& pair,
                           const TableOptions& options, Session& session);

// The number of wrong predictions in a parallel pass over the target.
int64_t count_mistakes(const Transformer& model, const TokenPair& pair,
                       std::span<const int32_t> forbidden, Session& session);

}  // namespace tril
