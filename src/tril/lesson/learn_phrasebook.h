// A translator trained on the phrasebook in memory, for lessons: smaller and ready sooner than the
// demo's (demo.h), and wrong now and then, as a lesson on mistakes needs it.
#pragma once

#include <cstdint>
#include <functional>

#include "tril/data/batches.h"
#include "tril/lesson/phrasebook.h"
#include "tril/models/observer.h"
#include "tril/models/session.h"
#include "tril/translate/translator.h"

namespace tril {

struct PhrasebookRun {
  int64_t updates = 400;  // of 512 target tokens
  Masking masking = Masking::causal;
  int64_t heads = 4;  // a divisor of the width, 64: more heads are narrower
  uint64_t seed = 1;
  int threads = 0;
  std::function<void(int64_t update, double loss)> progress{};  // the loss of the update per token
  // The norm of the update's whole gradient, before clipping.
  std::function<void(int64_t update, double norm)> gradient_norm{};
  // Called with each batch before training on it. It may change what the decoder reads, and use the
  // model and the session for that, without a tape.
  std::function<void(const Transformer&, const Tokenizer&, Batch&, Session&)> prepare{};
  Observer* observer = nullptr;  // observes the whole training
};

Translator learn_phrasebook(const Phrasebook& phrasebook, const PhrasebookRun& run);

}  // namespace tril
