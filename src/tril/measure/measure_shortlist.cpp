// What a shortlist saves. Both variants run alternately, so that other load on the machine affects
// both, and each pair gives a ratio.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "tril/measure/model_work.h"
#include "tril/measure/repeat.h"
#include "tril/measure/work.h"
#include "tril/models/output_part.h"
#include "tril/models/session_state.h"

namespace tril {
namespace {

constexpr int64_t kBatch = 32;
constexpr size_t kPairs = 9;  // at least

// Fifty random tokens per source token and a hundred for all: spread more widely than those of a
// real text, which makes it the slowest shortlist of its size.
Shortlist random_shortlist() {
  Random random(2);
  const auto draw = [&](size_t count) {
    std::vector<int32_t> tokens(count);
    for (int32_t& token : tokens) {
      token = static_cast<int32_t>(random.below(uint32_t{kTranslationVocab}));
    }
    return tokens;
  };
  ShortlistTable table{.target_vocab = kTranslationVocab, .always = draw(100), .listed = {}};
  table.always.push_back(kWorkEnd);
  for (int64_t source = 0; source < kTranslationVocab; ++source) table.listed.push_back(draw(50));
  return Shortlist(table);
}

// Sentences measured both ways, alternating.
struct InTurn {
  std::array<std::vector<double>, 2> seconds;  // without a shortlist, with it
  std::vector<double> ratios;                  // ascending

  template <class F>
  InTurn(double budget, const F& call) {
    const Stopwatch all;
    for (size_t pair = 0; pair <= kPairs || all.seconds() < budget; ++pair) {
      std::array<double, 2> now{};
      for (const size_t way : {size_t{0}, size_t{1}}) {
        const Stopwatch one;
        call(way);
        now[way] = one.seconds();
      }
      if (pair == 0) continue;  // warms caches, threads and arenas
      for (const size_t way : {size_t{0}, size_t{1}}) seconds[way].push_back(now[way]);
      ratios.push_back(now[0] / now[1]);
    }
    for (auto& list : seconds) std::sort(list.begin(), list.end());
    std::sort(ratios.begin(), ratios.end());
  }
  static double median(const std::vector<double>& sorted) { return sorted[sorted.size() / 2]; }
  std::string note() const {
    const auto two_digits = [](double x) { return std::round(x * 100.0) / 100.0; };
    // On a busy machine single pairs mean nothing: the middle half of them is shown.
    const size_t quarter = ratios.size() / 4;
    return concat(two_digits(median(ratios)), " times as fast; half of ", ratios.size(), " pairs ",
                  two_digits(ratios[quarter]), " to ",
                  two_digits(ratios[ratios.size() - 1 - quarter]));
  }
};

void add(Results& results, const std::string& name, const InTurn& times, double tokens) {
  results.add({.name = name, .seconds = InTurn::median(times.seconds[0]), .tokens = tokens});
  results.add({.name = name + ", listed",
               .seconds = InTurn::median(times.seconds[1]),
               .tokens = tokens,
               .note = times.note()});
}

void measure_search(Results& results, const std::string& name, const Transformer& model,
                    const Shortlist& shortlist, int64_t batch, int64_t beam,
                    const MeasureOptions& options) {
  Session session(model, options.threads);
  const auto sources = translation_sources(batch == 1 ? 4 : kBatch);
  TranslationWork work{
      .sources = sources, .tokens_out = kTranslationTokens, .batch = batch, .beam = beam};
  double tokens = 0.0;
  const InTurn times(options.seconds_each, [&](size_t way) {
    work.shortlist = way == 1 ? std::optional(shortlist) : std::nullopt;
    tokens = translate_work(model, work, session);
  });
  add(results, name, times, tokens);
}

// The output product alone, for a step with one row per sentence, and the cost of choosing a
// sentence's part of it.
void measure_product(Results& results, const std::string& name, const Transformer& model,
                     const Shortlist& shortlist, const MeasureOptions& options) {
  Session session(model, options.threads);
  const auto sources = translation_sources(kBatch);
  std::vector<std::unique_ptr<OutputPart>> parts;
  std::vector<PartRows> rows;
  std::vector<int32_t> set;
  for (int64_t i = 0; i < kBatch; ++i) {
    shortlist.choose(sources[static_cast<size_t>(i)], {}, set);
    parts.push_back(std::make_unique<OutputPart>());
    model.choose_output(set, *parts.back(), session);
    rows.push_back({i, i + 1, parts.back().get()});
  }
  const Tensor hidden(session->arena, {kBatch, model.config().model});
  Random random(3);
  for (int64_t i = 0; i < hidden.size(); ++i) hidden.data()[i] = random.uniform(-1.0f, 1.0f);
  const InTurn times(options.seconds_each, [&](size_t way) {
    const Arena::Scope scratch(session->arena);
    way == 0 ? (void)model.logits(hidden, session) : (void)model.logits(hidden, rows, session);
  });
  add(results, name + ", output product", times, 0.0);
  size_t next = 0;
  const double seconds = median_seconds(options.seconds_each, [&] {
    const size_t i = next++ % sources.size();
    shortlist.choose(sources[i], {}, set);
    model.choose_output(set, *parts[i], session);
  });
  results.add({.name = name + ", choosing a part", .seconds = seconds, .note = "once a sentence"});
}

}  // namespace

std::vector<Measurement> measure_shortlist(const MeasureOptions& options) {
  Results results("shortlist", options);
  std::optional<Transformer> weights;
  std::optional<Shortlist> shortlist;
  for (const Compute compute : {Compute::int8, Compute::bf16, Compute::fp32}) {
    const std::string kind(word_for(compute));
    std::optional<Transformer> model;
    const auto wants = [&](const std::string& name) {
      if (!results.wants(name)) return false;
      if (!weights) weights.emplace(translation_config(), 1);
      if (!shortlist) shortlist.emplace(random_shortlist());
      if (!model) model.emplace(weights->packed(compute));
      return true;
    };
    if (wants(kind + " product")) measure_product(results, kind, *model, *shortlist, options);
    for (const int64_t batch : {kBatch, int64_t{1}}) {
      for (const int64_t beam : {1, 4}) {
        const std::string name = concat(kind, beam == 1 ? " greedy" : " beam 4", ", batch ", batch);
        if (!wants(name)) continue;
        measure_search(results, name, *model, *shortlist, batch, beam, options);
      }
    }
  }
  return results.take();
}

}  // namespace tril
