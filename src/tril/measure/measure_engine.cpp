// The engine under load: requests of different kinds side by side, and many threads that translate
// one sentence each.
#include <algorithm>
#include <array>
#include <barrier>
#include <cmath>
#include <thread>

#include "tril/decode/engine.h"
#include "tril/lesson/phrasebook.h"
#include "tril/measure/model_work.h"
#include "tril/measure/repeat.h"
#include "tril/measure/work.h"
#include "tril/translate/translator.h"

namespace tril {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string two_digits(double x) { return concat(std::round(x * 100.0) / 100.0); }

// ---- two kinds of requests ----------------------------------------------------------------------

struct Kind {
  int64_t requests, beam;
  int64_t slots() const { return requests * beam; }
};
constexpr size_t kKinds = 2;
using Kinds = std::array<Kind, kKinds>;

std::string name_of(const Kind& kind) {
  return concat(kind.requests, kind.beam == 1 ? " greedy" : concat(" beam ", kind.beam));
}

struct EngineRun {
  double seconds = 0.0;
  double tokens = 0.0;
  std::array<double, kKinds> first_tokens{};  // seconds until all of a kind have received one
};

// All requests of the kinds for which `takes_part` is true, submitted at once.
EngineRun run_engine(const Transformer& model, const Kinds& kinds,
                     const std::array<bool, kKinds>& takes_part, int64_t tokens_out,
                     Session& session) {
  int64_t slots = 0;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    if (takes_part[kind]) slots += kinds[kind].slots();
  }
  const auto sources = translation_sources(std::size(kWorkLengths));
  EngineRun run;
  const Stopwatch watch;
  Engine engine(model, {.slots = slots}, session);
  for (size_t kind = 0; kind < kKinds; ++kind) {
    if (!takes_part[kind]) continue;
    auto options = std::make_shared<SearchOptions>();
    options->beam = kinds[kind].beam;
    options->start = kWorkStart;
    options->end = kWorkEnd;
    options->forbidden = {kWorkEnd};
    options->max_tokens = tokens_out;
    options->max_ratio = 0.0;
    for (int64_t i = 0; i < kinds[kind].requests; ++i) {
      SearchRequest request{
          .number = i, .source = sources[static_cast<size_t>(i) % sources.size()], .prefix = {}};
      RequestEvents events;
      events.done = [&](RequestOutcome&& outcome) {
        run.tokens += static_cast<double>(outcome.hypotheses[0].tokens.size());
      };
      events.step = [&, kind, seen = false](const SearchStep&) mutable {
        if (!std::exchange(seen, true)) run.first_tokens[kind] = watch.seconds();
      };
      engine.submit(std::move(request), options, std::move(events));
    }
  }
  while (engine.step()) {
  }
  run.seconds = watch.seconds();
  return run;
}

// One kind after the other, and both in one engine, alternating.
void measure_mixed(Results& results, const Transformer& model, const MeasureOptions& options) {
  const bool on_cpu = options.placement.device == Device::cpu;
  const Kinds kinds = on_cpu ? Kinds{{{16, 1}, {4, 4}}} : Kinds{{{128, 1}, {32, 4}}};
  const std::string name = concat(name_of(kinds[0]), " and ", name_of(kinds[1]));
  if (!results.wants(name)) return;
  const int64_t tokens_out = on_cpu ? kTranslationTokens : 64;
  Session session(model, options.threads);
  std::vector<double> alone, together, ratios;
  std::array<EngineRun, kKinds> group;
  EngineRun mixed;
  const auto round = [&] {
    group = {run_engine(model, kinds, {true, false}, tokens_out, session),
             run_engine(model, kinds, {false, true}, tokens_out, session)};
    mixed = run_engine(model, kinds, {true, true}, tokens_out, session);
  };
  for (int warm_up = 0; warm_up < (on_cpu ? 1 : 3); ++warm_up) round();
  const Stopwatch all;
  do {
    round();
    alone.push_back(group[0].seconds + group[1].seconds);
    together.push_back(mixed.seconds);
    ratios.push_back(alone.back() / together.back());
  } while (ratios.size() < 5 || all.seconds() < options.seconds_each);
  results.add({.name = name + ", in turn", .seconds = median(alone), .tokens = mixed.tokens});
  const auto ms = [](double seconds) { return two_digits(seconds * 1e3); };
  results.add(
      {.name = name + ", mixed",
       .seconds = median(together),
       .tokens = mixed.tokens,
       .note = concat(two_digits(median(ratios)), " times as fast; first tokens after ",
                      ms(mixed.first_tokens[0]), " and ", ms(mixed.first_tokens[1]), " ms, alone ",
                      ms(group[0].first_tokens[0]), " and ", ms(group[1].first_tokens[1]))});
}

// ---- many threads -------------------------------------------------------------------------------

constexpr size_t kThreads = 64;

std::vector<std::string> sentences() {
  const Phrasebook phrasebook = make_phrasebook();
  std::vector<std::string> lines;
  for (size_t i = 0; i < kThreads; ++i) lines.push_back(phrasebook.train[7 * i].english);
  return lines;
}

Tokenizer phrasebook_tokenizer() {
  const Phrasebook phrasebook = make_phrasebook();
  size_t next = 0;
  return Tokenizer::train(
      [&](std::string& line) {
        if (next == phrasebook.train.size()) return false;
        line = phrasebook.train[next++].english;
        return true;
      },
      {});
}

// Every line once, each from its own thread. Threads are started before the clock.
double translate_by_threads(const Translator& translator, const std::vector<std::string>& lines,
                            const TranslateOptions& options) {
  std::barrier ready(static_cast<int64_t>(kThreads) + 1);
  std::vector<std::thread> threads;
  for (const std::string& line : lines) {
    threads.emplace_back([&] {
      ready.arrive_and_wait();
      translator.translate(std::span(&line, 1), options);
    });
  }
  ready.arrive_and_wait();
  const Stopwatch watch;
  for (std::thread& thread : threads) thread.join();
  return watch.seconds();
}

void measure_threads(Results& results, const Translator& translator,
                     const MeasureOptions& options) {
  const std::string name = concat(kThreads, " sentences");
  const std::vector<std::string> lines = sentences();
  TranslateOptions translate;
  translate.search.beam = 1;
  translate.search.max_tokens = kTranslationTokens;
  translate.search.max_ratio = 0.0;
  translate.slots = static_cast<int64_t>(kThreads);
  std::vector<double> one_call, by_threads, ratios;
  double tokens = 0.0;
  const Stopwatch all;
  for (size_t round = 0; round < 8 || all.seconds() < options.seconds_each; ++round) {
    const Stopwatch watch;
    const std::vector<Translation> translations = translator.translate(lines, translate);
    const double together = watch.seconds();
    const double apart = translate_by_threads(translator, lines, translate);
    if (round < 3) continue;  // by then repeated steps are kept (device/queue.h)
    tokens = 0.0;
    for (const Translation& translation : translations) {
      tokens += static_cast<double>(translation.hypotheses[0].tokens.size());
    }
    one_call.push_back(together);
    by_threads.push_back(apart);
    ratios.push_back(together / apart);
  }
  results.add({.name = name + ", one call", .seconds = median(one_call), .tokens = tokens});
  results.add({.name = concat(name, ", ", kThreads, " threads"),
               .seconds = median(by_threads),
               .tokens = tokens,
               .note = concat(two_digits(median(ratios)), " of one call")});
}

}  // namespace

std::vector<Measurement> measure_engine(const MeasureOptions& options) {
  check_usable(options.placement.device);
  Results results("engine", options);
  // The form of weights that is fastest on this device.
  const auto model_with = [&](int64_t vocab) {
    TransformerConfig config = translation_config();
    config.source_vocab = config.target_vocab = vocab;
    const Transformer model(config, 1, options.placement);
    return options.placement.device == Device::cpu ? model.packed(Compute::int8) : model;
  };
  measure_mixed(results, model_with(kTranslationVocab), options);
  if (results.wants(concat(kThreads, " sentences"))) {
    Tokenizer tokenizer = phrasebook_tokenizer();
    const Transformer model = model_with(tokenizer.vocab());
    measure_threads(results, Translator(model, std::move(tokenizer), options.threads), options);
  }
  return results.take();
}

}  // namespace tril
