// Lesson `masks`: what a mask is, as the matrix of 0 and −∞ and as one interval of keys per row;
// how causal and padding masks combine and broadcast; why −∞ and not −1e9 or a zeroed score; and
// which part of a model uses which mask.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tril/lesson/matrix.h"
#include "tril/tensor/context.h"
#include "tril/tensor/mask.h"

namespace tril {

struct NamedMask {
  std::string name;
  std::string says;  // in a few words
  Mask mask;
  int64_t keys = 0;
  // The definition, for a row and a key counted from 0.
  bool (*allows)(int64_t row, int64_t key) = nullptr;
};

// Masks of a batch as other programs hold them: [1, 1, q, k] + [batch, 1, 1, k] gives [batch,
// heads, q, k], an axis of 1 being repeated.
struct Broadcast {
  int64_t batch = 0, heads = 0, length = 0;
  std::vector<int32_t> lengths{};  // words of each sentence; the rest is padding
  std::vector<float> causal{};     // [q, k]
  std::vector<float> padding{};    // [batch, k]
  std::vector<float> combined{};   // [batch, heads, q, k]
  std::vector<Mask> intervals{};   // one per sentence: causal & padding, as tril holds them
  // Every entry of `combined` is 0 where the interval allows it and −∞ where not.
  bool equal = false;
  // The same for a batch of 16 sentences of 300 words and 8 heads.
  int64_t matrix_bytes = 0, interval_bytes = 0;
};

// A way to forbid keys, and the resulting weights.
struct Forbidding {
  std::string way;
  std::vector<double> weights;
  double sum = 0.0;        // of the weights
  double forbidden = 0.0;  // the part of it on forbidden keys
  double output = 0.0;     // weights times the values 1, 2, 3
};

// Which keys the rows of a model's attention see, observed while it runs.
struct MaskInUse {
  std::string where;
  Mask mask;
  int64_t keys = 0;
};

struct MaskLesson {
  std::vector<NamedMask> kinds;  // causal, padding, both, window, prefix
  Broadcast broadcast;
  std::vector<double> scores;               // 0.8, 0.6, 0.4: the row of आप
  std::vector<Forbidding> one_key;          // the row may see the first key only
  std::vector<Forbidding> no_key;           // the row may see nothing: the fully masked row
  double half_of_minus_1e9 = 0.0;           // −1e9 in half precision
  double largest_half = 0.0;                // 65504
  std::vector<Forbidding> one_key_in_half;  // both rows in half precision
  std::vector<Forbidding> no_key_in_half;
  std::vector<double> large_scores;         // a forbidden key with a score of 2e9
  std::vector<Forbidding> large_forbidden;  // and the result
  std::vector<Forbidding> nan_forbidden;    // a forbidden key whose value is NaN
  std::vector<MaskInUse> in_use;

  // The lesson's claims, each computed above: intervals match the masks' definitions, entry by
  // entry; −∞ gives forbidden keys exactly nothing and the others everything; −1e9 turns a fully
  // masked row into an average of what is forbidden, and in half precision, where it is −∞ itself,
  // into NaN; tril gives such a row exact zeros, and not even NaN leaks; only the decoder's
  // self-attention is causal.
  bool holds = false;
};

// The hooks are for tests that must be able to fail.
MaskLesson teach_masks(const TestHooks& hooks = {});

// Whether every entry of every mask matches its definition.
bool masks_are_as_defined(const std::vector<NamedMask>& masks);

// The value nearest to x in half precision (IEEE binary16, ties to even): from 65520 on,
// infinity.
double rounded_to_half(double x);

}  // namespace tril
