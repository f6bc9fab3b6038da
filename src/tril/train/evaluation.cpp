#include "tril/train/evaluation.h"

#include <algorithm>
#include <cmath>

#include "tril/autograd/tape.h"
#include "tril/data/batches.h"
#include "tril/decode/search.h"
#include "tril/models/session_state.h"
#include "tril/text/bleu.h"
#include "tril/train/batch_loss.h"

namespace tril {
namespace {

constexpr int64_t kSlots = 128;  // hypotheses decoded at a time

bool is_cancelled(const EvaluationOptions& options) {
  return options.cancelled && options.cancelled();
}

// The sum of the rows' losses over all sentences, batch by batch.
bool add_loss(const Transformer& model, const Tokenizer& tokenizer, const Corpus& corpus,
              const EvaluationOptions& options, Session& session, Evaluation& result) {
  double sum = 0.0;
  int64_t tokens = 0;
  Batch batch;
  const auto run = [&] {
    session.reset();
    session->dropout.reset();
    Tape tape(session);
    sum += static_cast<double>(to_floats(batch_loss(model, batch, {}, session))[0]);
    tokens += batch.target_tokens;
    batch.clear();
  };
  for (int64_t pair = 0; pair < corpus.size(); ++pair) {
    add_to_batch(batch, tokens_of(corpus, pair, tokenizer, options.languages),
                 static_cast<int32_t>(pair));
    if (std::max(batch.target_tokens, batch.source_tokens) < options.micro_batch_tokens) continue;
    if (is_cancelled(options)) return false;
    run();
  }
  if (batch.sentences > 0) run();
  result.loss = sum / static_cast<double>(tokens);
  return true;
}

bool add_bleu(const Transformer& model, const Tokenizer& tokenizer, const Corpus& corpus,
              const EvaluationOptions& options, Session& session, Evaluation& result) {
  result.outputs.resize(static_cast<size_t>(corpus.size()));
  const SearchOptions search_options{{.beam = options.beam},
                                     tokenizer.start(options.languages),
                                     tokenizer.end(),
                                     tokenizer.unwritable()};
  const std::vector<int32_t> prefix = tokenizer.target_prefix(options.languages);
  int64_t next = 0;
  bool stopped = false;
  search(
      model, search_options, kSlots * options.beam,
      [&]() -> std::optional<SearchRequest> {
        if (next == corpus.size()) return std::nullopt;
        SearchRequest request{
            .number = next,
            .source = tokenizer.encode_source(corpus.source(next), options.languages),
            .prefix = prefix};
        ++next;
        return request;
      },
      [&](SearchResult&& done) {
        result.outputs[static_cast<size_t>(done.number)] =
            tokenizer.decode(done.hypotheses.front().tokens);
        stopped = is_cancelled(options);
        return !stopped;
      },
      session);
  if (stopped) return false;
  BleuStatistics statistics;
  for (int64_t pair = 0; pair < corpus.size(); ++pair) {
    const std::string& output = result.outputs[static_cast<size_t>(pair)];
    statistics.add(output, corpus.target(pair));
    if (output == corpus.target(pair)) ++result.exact;
  }
  result.bleu = bleu(statistics).score;
  return true;
}

}  // namespace

Evaluation evaluate(const Transformer& model, const Tokenizer& tokenizer, const Corpus& corpus,
                    const EvaluationOptions& options, Session& session) {
  Evaluation result;
  result.cancelled = !add_loss(model, tokenizer, corpus, options, session, result);
  // A model without finite probabilities cannot be decoded.
  if (!result.cancelled && corpus.has_source() && std::isfinite(result.loss)) {
    result.cancelled = !add_bleu(model, tokenizer, corpus, options, session, result);
  }
  return result;
}

}  // namespace tril
