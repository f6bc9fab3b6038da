// How good a model is on text it was not trained on: the loss per token, and BLEU of its
// translations.
#pragma once

#include <string>
#include <vector>

#include "tril/base/function.h"
#include "tril/data/corpus.h"
#include "tril/text/tokenizer.h"

namespace tril {

class Session;
class Transformer;

struct EvaluationOptions {
  int64_t beam = 1;
  int64_t micro_batch_tokens = 2048;
  LanguagePair languages{};      // of every pair, for a model of several languages
  Function<bool()> cancelled{};  // called now and then; a cancelled evaluation is void
};

struct Evaluation {
  double loss = 0.0;                 // negative log-probability per target token, END included
  double bleu = 0.0;                 // 13a; 0 for a decoder-only model
  int64_t exact = 0;                 // translations equal to their reference
  std::vector<std::string> outputs;  // in the order of the corpus
  bool cancelled = false;
};

Evaluation evaluate(const Transformer& model, const Tokenizer& tokenizer, const Corpus& corpus,
                    const EvaluationOptions& options, Session& session);

}  // namespace tril
