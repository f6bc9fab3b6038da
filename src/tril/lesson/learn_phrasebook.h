// A translator learnt from the phrasebook in memory, for lessons: smaller and sooner ready than the
// demo's (demo.h), and as wrong now and then as a lesson on mistakes needs it.
#pragma once

#include <cstdint>
#include <functional>

#include "tril/lesson/phrasebook.h"
#include "tril/models/session.h"
#include "tril/translate/translator.h"

namespace tril {

struct PhrasebookRun {
  int64_t updates = 400;  // of 512 target tokens
  Masking masking = Masking::causal;
  int64_t heads = 4;  // a divisor of the width, 64: more heads are narrower ones
  uint64_t seed = 1;
  int threads = 0;
  std::function<void(int64_t update, double loss)> progress{};  // the loss of the update per token
};

Translator learn_phrasebook(const Phrasebook& phrasebook, const PhrasebookRun& run);

}  // namespace tril
