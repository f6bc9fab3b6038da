// A trained model of at most 64 KiB with every file a model folder can have.
#pragma once

#include <string>

#include "tril/tril.h"

namespace tril::testing {

// A language of nine words and its translation; `other` gives other words of the same lengths, and
// so another tokenizer of the same size.
Corpus made_up_corpus(bool other = false);

// Trains FOLDER/model (with training/ and last/), packs it into FOLDER/COMPUTE for each form this
// machine has, and learns FOLDER/model/shortlist.safetensors.
void make_small_model(const std::string& folder, uint64_t seed = 1, bool other = false);

// The translations of a few sentences by the model of a folder; with a shortlist if wanted.
std::string translated(const std::string& folder, bool shortlist = false);

}  // namespace tril::testing
