// Lesson `attention`: from the scores of आप कैसे हैं to contextual embeddings, step by step.
//
// Everything is computed twice: by the textbook, softmax(QKᵀ/√d + M)V with the whole matrix of
// weights in double (kernels/reference/attention.h), and by the library's streaming attention in
// fp32 (ops/attention.h), which never holds that matrix. Its weights can be seen all the same:
// where the values are unit vectors, the outputs are the weights.
//
// The two agree within the bound that ops/attention_bound.h derives from the roundings.
#pragma once

#include <string>
#include <vector>

#include "tril/lesson/matrix.h"
#include "tril/tensor/context.h"
#include "tril/tensor/mask.h"

namespace tril {

// Steps 4 to 6 for some queries, keys and values, by the textbook and by the library.
struct Attended {
  Mask mask;
  Matrix weights;     // textbook; rows sum to 1
  Matrix contextual;  // textbook: weights × values
  Matrix engine_weights;
  Matrix engine_contextual;
  // The library against the textbook, weights and contextual: entries compared, the largest
  // difference, and the largest ratio of a difference to its own bound.
  int64_t compared = 0;
  double largest_difference = 0.0;
  double largest_share = 0.0;
  bool within() const { return compared > 0 && largest_share <= 1.0; }
  bool forbidden_is_zero = false;  // every weight outside the mask is exactly 0, in both
};

struct AttentionLesson {
  std::vector<std::string> words;  // आप, कैसे, हैं
  // Steps 1 to 3: embeddings times W_Q, W_K, W_V; QKᵀ; divided by √d_k.
  Matrix embeddings, queries, keys, values;
  Matrix products;
  double root = 0.0;  // √d_k
  Matrix scores;      // the table of the worked example
  Attended masked, unmasked;
  Matrix undivided;  // weights, unmasked, if the division by √d_k is left out

  // The second example: two rows of given weights, and the result with the mask.
  Matrix second_given;
  Attended second_unmasked, second_masked;

  // The third row as some notes have it: 0.1, 0.3, 0.7. It sums to 1.1, so no softmax gives it;
  // softmax(log 0.1, log 0.3, log 0.7) gives these ratios.
  std::vector<double> third_given;
  double third_sum = 0.0;
  std::vector<double> third_softmax;

  // Two heads under the mask: the first is the one above, the second looks at the previous word.
  std::vector<Matrix> head_weights;  // the library's
  Matrix heads_side_by_side;         // [word, heads × d_k]
  Matrix projected;                  // times W_O
  bool heads_are_separate = false;   // each head alone gives the same bits
  Matrix after_norm;                 // step 8: x + attention, then layer norm

  // The lesson's claims: forbidden weights are exactly 0, every row sums to 1, under the mask the
  // first word's result is its own value, the second example's weights are as given except for the
  // third row, which sums to more than 1, heads are separate, and textbook and library agree.
  bool holds = false;
};

// The hooks are for tests that must be able to fail.
AttentionLesson teach_attention(const TestHooks& hooks = {});

}  // namespace tril
