#include "tril/train/symbols.h"

#include <set>

#include "tril/base/clock.h"
#include "tril/base/error.h"
#include "tril/base/rng.h"
#include "tril/decode/search.h"
#include "tril/train/learn.h"

namespace tril {
namespace {

using Sequence = std::vector<int32_t>;

struct Vocabulary {
  int32_t alphabet;
  int32_t start() const { return alphabet; }
  int32_t end() const { return alphabet + 1; }
  int32_t size() const { return alphabet + 2; }
};

Sequence draw(Random& random, const SymbolOptions& options) {
  Sequence sequence(static_cast<size_t>(options.length));
  for (int32_t& symbol : sequence) {
    symbol = static_cast<int32_t>(random.below(static_cast<uint32_t>(options.alphabet)));
  }
  return sequence;
}

Sequence answer(const Sequence& question, SymbolTask task) {
  return task == SymbolTask::copy ? question : Sequence(question.rbegin(), question.rend());
}

Transformer build(const SymbolOptions& options, const Vocabulary& vocabulary) {
  TransformerConfig config;
  config.source_vocab = config.target_vocab = vocabulary.size();
  config.model = 64;
  config.heads = config.kv_heads = 4;
  config.head_dim = 16;
  config.feed_forward = 128;
  config.encoder_layers = config.decoder_layers = 2;
  config.norm_position = NormPosition::pre;
  config.max_length = options.length + 2;
  config.dropout = 0.0;
  return Transformer(config, options.seed);
}

// Greedy decoding, token by token; returns how many answers are exact.
int64_t decode(const Transformer& model, const std::vector<Sequence>& questions,
               const SymbolOptions& options, const Vocabulary& vocabulary, Session& session) {
  SearchOptions greedy;
  greedy.start = vocabulary.start();
  greedy.end = vocabulary.end();
  greedy.max_tokens = options.length + 1;
  size_t next = 0;
  int64_t exact = 0;
  constexpr int64_t kTogether = 250;
  search(
      model, greedy, kTogether,
      [&]() -> std::optional<SearchRequest> {
        if (next == questions.size()) return std::nullopt;
        SearchRequest request;
        request.number = static_cast<int64_t>(next);
        request.source = questions[next++];
        return request;
      },
      [&](SearchResult&& done) {
        Sequence expected = answer(questions[static_cast<size_t>(done.number)], options.task);
        expected.push_back(vocabulary.end());
        exact += done.hypotheses.front().tokens == expected ? 1 : 0;
        return true;
      },
      session);
  return exact;
}

}  // namespace

SymbolResult learn_symbols(const SymbolOptions& options) {
  require(options.alphabet >= 2 && options.length >= 1 && options.batch >= 1 &&
              options.steps >= 1 && options.held_out >= 1,
          ErrorCode::invalid_argument,
          "symbols: every size must be positive, the alphabet above 1");
  double possible = 1.0;
  for (int32_t i = 0; i < options.length && possible < 1e18; ++i) possible *= options.alphabet;
  require(static_cast<double>(options.held_out) < 0.5 * possible, ErrorCode::invalid_argument,
          "symbols: ", options.held_out, " sequences cannot be held out of ", possible);
  const Vocabulary vocabulary{options.alphabet};
  Transformer model = build(options, vocabulary);
  Session session(model, options.threads);

  // The test sequences are drawn first, and never trained on.
  Random random(options.seed, 1);
  std::set<Sequence> held_out;
  while (static_cast<int64_t>(held_out.size()) < options.held_out) {
    held_out.insert(draw(random, options));
  }
  const auto next = [&](Batch& batch) {
    batch.clear();
    while (batch.sentences < options.batch) {
      LearnPair pair{.source = draw(random, options)};
      if (held_out.count(pair.source) != 0) continue;
      pair.target = answer(pair.source, options.task);
      pair.target.push_back(vocabulary.end());
      add_to_batch(batch, pair, vocabulary.start(), static_cast<int32_t>(batch.sentences));
    }
  };
  SymbolResult result;
  const Stopwatch training;
  result.last_loss = learn(
      model, next, {.updates = options.steps, .seed = options.seed, .progress = options.progress},
      session);
  result.train_seconds = training.seconds();

  const Stopwatch decoding;
  const std::vector<Sequence> questions(held_out.begin(), held_out.end());
  result.exact = decode(model, questions, options, vocabulary, session);
  result.decode_seconds = decoding.seconds();
  return result;
}

}  // namespace tril
