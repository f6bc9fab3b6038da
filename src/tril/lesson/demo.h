// The parts of `tril demo` that are not the program's other commands: how it learns its phrasebook.
#pragma once

#include <vector>

#include "tril/data/corpus.h"
#include "tril/lesson/phrasebook.h"
#include "tril/train/options.h"
#include "tril/translate/translator.h"

namespace tril {

// The run that learns the phrasebook in under a minute on two cores.
TrainOptions demo_options();

Corpus corpus_of(const std::vector<PhrasePair>& phrases);

// How many held-out combinations are translated exactly, and their BLEU.
struct HeldOutScore {
  int64_t exact = 0;
  int64_t all = 0;
  double bleu = 0.0;
};
HeldOutScore score_held_out(const Translator& translator, const Phrasebook& phrasebook);

// The sentences of the lessons, with the expected translations.
std::vector<PhrasePair> lesson_sentences();

}  // namespace tril
