// What `tril demo` does beyond the program's own commands: how it learns its phrasebook.
#pragma once

#include <vector>

#include "tril/lesson/phrasebook.h"
#include "tril/train/options.h"

namespace tril {

// The run that learns the phrasebook in under a minute on two cores.
TrainOptions demo_options();

// The sentences learners have before them, with the translations they expect.
std::vector<PhrasePair> lesson_sentences();

}  // namespace tril
