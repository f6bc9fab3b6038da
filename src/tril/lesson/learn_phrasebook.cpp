#include "tril/lesson/learn_phrasebook.h"

#include <algorithm>

#include "tril/lesson/demo.h"
#include "tril/models/session_state.h"
#include "tril/train/learn.h"

namespace tril {
namespace {

Tokenizer learn_tokenizer(const std::vector<PhrasePair>& phrases, const TokenizerOptions& options) {
  size_t next = 0;
  return Tokenizer::train(
      [&](std::string& line) {
        if (next == 2 * phrases.size()) return false;
        const PhrasePair& phrase = phrases[next / 2];
        line = next++ % 2 == 0 ? phrase.english : phrase.hindi;
        return true;
      },
      options);
}

}  // namespace

Translator learn_phrasebook(const Phrasebook& phrasebook, const PhrasebookRun& run) {
  const TrainOptions demo = demo_options();
  const Tokenizer tokenizer = learn_tokenizer(phrasebook.train, demo.tokenizer);
  Corpus corpus = corpus_of(phrasebook.train);
  corpus.limit_tokens(tokenizer, demo.max_tokens);

  TransformerConfig config = demo.model;
  config.model = 64;
  config.heads = run.heads;
  config.feed_forward = 128;
  config.source_vocab = config.target_vocab = tokenizer.vocab();
  Transformer model(config.completed(), run.seed);
  Session session(model, run.threads);
  session->observer = run.observer;
  const int64_t rows = demo.batch_tokens;
  BatchStream stream(corpus, tokenizer,
                     {.source_rows = balanced_source_rows(corpus, rows, demo.max_tokens),
                      .target_rows = rows,
                      .seed = run.seed,
                      .max_tokens = demo.max_tokens});
  const int64_t warm_up = std::max<int64_t>(run.updates * 3 / 20, 1);
  learn(
      model,
      [&](Batch& batch) {
        stream.next(batch);
        if (run.prepare) run.prepare(model, tokenizer, batch, session);
      },
      {.updates = run.updates,
       .schedule = {.type = ScheduleType::cosine, .peak = 8e-3, .warm_up = warm_up},
       .average = demo.average,
       .masking = run.masking,
       .seed = run.seed,
       .progress = run.progress,
       .gradient_norm = run.gradient_norm},
      session);
  return Translator(model, tokenizer, run.threads);
}

}  // namespace tril
