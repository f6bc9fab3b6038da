// Lesson `context`: "bank" next to "river" and next to "money".
//
// A small translator learns sentences in which "bank" has two meanings (bank_sentences.h). Then its
// encoder reads "the river bank is near" and "the money bank is near". The embedding that goes in
// for "bank" is the same, bit for bit; the outputs of each layer are compared, with pairs of the
// same meaning as a measure of what a mere change of words does.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tril/lesson/bank_sentences.h"

namespace tril {

// How far apart two vectors for "bank" are.
struct Apart {
  double cosine = 0.0;
  double distance = 0.0;  // Euclidean
};

struct ContextLayer {
  int64_t layer = 0;    // 0: the embedding that goes in
  Apart river_money;    // the two of the lesson
  Apart river_lake;     // the same meaning
  Apart money_savings;  // the same meaning
  // Means over all pairs of the eight kinds of bank.
  Apart same_sense, other_sense;
  // How many of the eight have a nearest neighbour of the same meaning; 0 at layer 0, where all are
  // equal.
  int64_t nearest_is_same = 0;
};

struct ContextLesson {
  int64_t pairs = 0;  // learnt from
  int64_t updates = 0;
  double loss = 0.0;                      // at the end
  std::vector<BankSentence> sentences;    // the eight: "the river bank is near", ...
  std::vector<std::string> translations;  // of these
  std::vector<ContextLayer> layers;
  bool equal_at_first = false;  // the eight embeddings of "bank" have the same bits
  // Held-out sentences: translated exactly, and with the right word for "bank".
  int64_t held_out = 0, exact = 0, right_word = 0;
  // Those of them that begin "at the bank there is", where only a later word tells. With
  // translations.
  std::vector<BankSentence> told_later;
  std::vector<std::string> told_later_translations;
  // How far apart their vectors of "bank" are after the last layer, as means over pairs: of one
  // meaning, of two. And how many of the vectors have other bits than the first.
  Apart later_same, later_other;
  int64_t later_differ = 0;
  // The same weights run as the layers of a decoder. Without its mask: the encoder's own vectors,
  // bit for bit. Under the causal mask "bank" sees "at the bank" and no more: how many of the
  // vectors then have other bits than the first.
  bool twin_is_encoder = false;
  int64_t differ_under_mask = 0;
  int64_t learnt = 0;  // of the sentences shown, how many are in the training text

  // The inputs are equal; after the last layer pairs of two meanings, and river and money among
  // them, are further apart than pairs of one meaning on average, and each of the eight is
  // translated with its own word for bank. Where only a later word tells, all vectors differ, and
  // under a causal mask all are equal. None of the sentences shown was trained on. That each bank's
  // nearest neighbour has the same meaning is shown but not required: it depends on the seed.
  bool holds = false;
};

struct ContextOptions {
  int64_t updates = 1000;
  uint64_t seed = 1;
  int threads = 0;
  std::function<void(int64_t update, double loss)> progress{};
};
ContextLesson teach_context(const ContextOptions& options = {});

}  // namespace tril
