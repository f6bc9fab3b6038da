// Lesson `leakage`: the phrasebook learnt twice, with the causal mask and without it.
//
// The same sentences in the same order, the same initial weights and the same number of updates.
// Without the mask a row sees the very word it is to predict, one place to the right, and copies
// it: its training loss looks excellent. When it must write, that place is empty, and it writes
// nearly nothing, or nonsense if it may not end. Why it writes nothing is only partly explained:
// after the last word of a training sentence an empty place meant END, but given a sentence cut in
// the middle it ends in fewer than half of the cases.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tril/lesson/phrasebook.h"
#include "tril/models/session.h"

namespace tril {

struct LeakageRun {
  std::vector<double> curve;  // training loss per token, mean over each tenth of the updates
  // On unseen sentences, per token, under teacher forcing: as it was trained, and under the mask.
  double held_out_loss = 0.0;
  double held_out_loss_masked = 0.0;
  // Each unseen sentence with the target of another fed in: rows whose likeliest token is the next
  // one fed in, although it does not belong here. And with the first half of its own target: how
  // many of these end there.
  int64_t rows = 0, copied = 0;
  int64_t cut = 0, ended = 0;
  // What it writes, token by token.
  int64_t exact = 0;
  double bleu = 0.0;
  int64_t empty = 0;                // empty translations
  std::vector<std::string> writes;  // of the lesson's sentences
  // The same if it may not end before it has as many pieces as the right answer.
  std::vector<std::string> forced;
};

struct LeakageLesson {
  int64_t updates = 0;
  std::vector<PhrasePair> sentences;  // of the lesson, with the right translations
  int64_t held_out = 0;               // sentences
  LeakageRun masked, unmasked;

  // Without the mask the loss is less than half as large, as trained and on unseen sentences; and
  // it writes fewer than a tenth as many of them right. With the mask most of them are right. And
  // it copies: without the mask more than nine rows in ten predict the next word fed in, with it
  // fewer than half.
  bool holds = false;
};

struct LeakageOptions {
  int64_t updates = 400;
  uint64_t seed = 1;
  int threads = 0;
  std::function<void(Masking masking, int64_t update, double loss)> progress{};
};
LeakageLesson teach_leakage(const LeakageOptions& options = {});

}  // namespace tril
