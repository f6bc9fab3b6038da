#include "tril/train/symbols.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tril/base/clock.h"
#include "tril/base/error.h"
#include "tril/base/math.h"
#include "tril/base/rng.h"
#include "tril/decode/search.h"
#include "tril/train/optimizer.h"

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
  constexpr int64_t kSlots = 250;
  search(
      model, greedy, kSlots,
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
  model.prepare_training(session);
  AdamWOptimizer optimizer(model, {});
  SymbolResult result;

  // What is asked at the end is drawn first, and never trained on.
  Random random(options.seed, 1);
  std::set<Sequence> held_out;
  while (static_cast<int64_t>(held_out.size()) < options.held_out) {
    held_out.insert(draw(random, options));
  }

  const Stopwatch training;
  Rows source;
  Rows target;
  std::vector<int32_t> labels;
  for (int64_t step = 0; step < options.steps; ++step) {
    session.reset();
    source.clear();
    target.clear();
    labels.clear();
    for (int32_t i = 0; i < static_cast<int32_t>(options.batch);) {
      const Sequence question = draw(random, options);
      if (held_out.count(question) != 0) continue;
      Sequence line = answer(question, options.task);
      source.add_sequence(question, {.slot = i});
      labels.insert(labels.end(), line.begin(), line.end());
      labels.push_back(vocabulary.end());
      line.insert(line.begin(), vocabulary.start());
      target.add_sequence(line, {.slot = i, .segment = i});
      ++i;
    }
    Tape tape(session);
    const Memory memory = model.encode(source, session);
    const Tensor hidden = model.forward(target, memory, session);
    const Tensor loss =
        model.loss(hidden, labels, {.factor = 1.0f / static_cast<float>(labels.size())}, session);
    const Gradients gradients = tape.backward(loss);
    // A short warm-up, then a cosine to nothing.
    constexpr double kPeak = 4e-3;
    constexpr double kWarmUp = 40.0;
    const double at = static_cast<double>(step + 1);
    const double share = std::min(1.0, at / static_cast<double>(options.steps));
    const double rate =
        kPeak * std::min(1.0, at / kWarmUp) * 0.5 * (1.0 + math::cos(math::kPi * share));
    optimizer.step(gradients, static_cast<float>(rate), session);
    result.last_loss = static_cast<double>(loss.data()[0]);
    if (options.progress) options.progress(step + 1, result.last_loss);
  }
  result.train_seconds = training.seconds();

  const Stopwatch decoding;
  const std::vector<Sequence> questions(held_out.begin(), held_out.end());
  result.exact = decode(model, questions, options, vocabulary, session);
  result.decode_seconds = decoding.seconds();
  return result;
}

}  // namespace tril
